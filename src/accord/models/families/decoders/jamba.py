"""Jamba: Mamba in seven of eight layers, attention in the rest, experts in every second layer.

In: its card. Out: `Architecture` with one stage. Shapes follow transformers' JambaForCausalLM.
"""

from accord.models.card import Card
from accord.models.families.decoders.dense import Frame, decoder, frame, lone
from accord.models.families.decoders.hybrids import plain_attention
from accord.models.families.decoders.mixture import Mixture, mixture_parts
from accord.models.families.naming import expert_count
from accord.models.parts.parts import Layers, Parts
from accord.models.parts.recurrent import mamba
from accord.terms.architecture import Architecture

FAMILY = "jamba"


def build(card: Card, name: str) -> Architecture:
    """The architecture of one decoder."""
    own = expert_count(card, "num_experts").given(
        max_position_embeddings=card.size("max_position_embeddings", 262144),
        num_attention_heads=card.size("num_attention_heads", 32),
        num_key_value_heads=card.size("num_key_value_heads", 8),
    )
    base = frame(own)
    full = _every(own, base, "attn_layer", period=8, offset=4)
    recurrent = tuple(layer for layer in base.layers if layer not in full)
    head_dim = own.maybe("head_dim")
    mixing = _mamba(own, recurrent, hidden=base.hidden) + plain_attention(
        own, full, hidden=base.hidden, head_dim=head_dim
    )
    parts = decoder(own, base, mixing, mixture_parts(base.hidden, _mixture(own, base)))
    card.skip("num_logits_to_keep", "sliding_window", "use_mamba_kernels", "use_mambapy", "use_associative_scan")
    return lone(card, name, base=base, family=FAMILY, parts=parts)


def _every(card: Card, base: Frame, what: str, *, period: int, offset: int) -> Layers:
    step = card.size(f"{what}_period", period)
    first = card.size(f"{what}_offset", offset, least=0, most=step - 1)
    return tuple(layer for layer in base.layers if layer % step == first)


def _mixture(card: Card, base: Frame) -> Mixture:
    count, width = card.size("num_experts", 16), card.size("intermediate_size")
    sparse = _every(card, base, "expert_layer", period=2, offset=1) if count > 1 else ()
    return Mixture(
        sparse=sparse,
        count=count,
        chosen=card.size("num_experts_per_tok", 2, most=max(2, count)),
        width=width,
        dense=tuple(layer for layer in base.layers if layer not in sparse),
        dense_width=width,
    )


def _mamba(card: Card, layers: Layers, *, hidden: int) -> Parts:
    automatic = -(-hidden // 16)
    rank = automatic if card.raw("mamba_dt_rank") == "auto" else card.size("mamba_dt_rank", automatic)
    return mamba(
        layers,
        hidden=hidden,
        width=hidden * card.size("mamba_expand", 2),
        state=card.size("mamba_d_state", 16),
        rank=rank,
        kernel=card.size("mamba_d_conv", 4),
        bias=card.flag("mamba_proj_bias", False),
        conv_bias=card.flag("mamba_conv_bias", True),
        norms=True,
    )
