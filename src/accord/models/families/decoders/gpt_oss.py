"""gpt-oss: sliding and full attention in turn, a learned sink for each head, experts with biases.

In: its card. Out: `Architecture` with one stage. Shapes and defaults follow transformers' GptOssForCausalLM.
"""

from accord.models.card import Card
from accord.models.families.decoders.dense import Traits, attend, decoder, frame, heads_of, lone
from accord.models.families.decoders.mixture import Mixture, mixture_parts
from accord.models.families.decoders.windows import Sliding, spans
from accord.models.families.naming import expert_count, one_name
from accord.terms.architecture import Architecture

FAMILY = "gpt-oss"

_TRAITS = Traits(bias=True, kv_heads=8, head_dim=64)


def build(card: Card, name: str) -> Architecture:
    """The architecture of gpt-oss."""
    card.skip("swiglu_alpha", "swiglu_limit", "initial_context_length")
    own = one_name(expert_count(card, "num_local_experts"), {"experts_per_token": "num_experts_per_tok"})
    base = frame(own)
    seen = spans(own, base.layers, Sliding.ALTERNATE, window=None if own.names("sliding_window") else 128)
    attention = attend(base, heads_of(own, base, _TRAITS), seen, sinks=True)
    count = own.size("num_local_experts", 128)
    mixture = Mixture(
        sparse=base.layers,
        count=count,
        chosen=own.size("num_experts_per_tok", 4, most=count),
        width=own.size("intermediate_size", 2880),
        bias=True,
    )
    parts = decoder(own, base, attention, mixture_parts(base.hidden, mixture))
    return lone(card, name, base=base, family=FAMILY, parts=parts)
