"""MiMo-V2-Flash: full layers and window layers with KV heads of their own, values smaller than keys, experts.

In: its card. Out: `Architecture` with one stage. Shapes and defaults follow transformers' MiMoV2FlashForCausalLM, which
lets a query of a window layer see `sliding_window_size` tokens before its own, as the published engines do.
"""

from collections.abc import Sequence

from accord.models.card import Card
from accord.models.families.decoders.dense import Frame, decoder, frame, lone
from accord.models.families.decoders.mixture import Mixture, check_groups, mixture_parts
from accord.models.families.decoders.windows import Span, attention_name, by_kind
from accord.models.families.naming import expert_count
from accord.models.parts.attention import grouped
from accord.models.parts.parts import NOTHING, Layers, Parts
from accord.terms.architecture import Architecture
from accord.terms.tensors import Dtype
from accord.terms.work import Reach

FAMILY = "mimo-v2"

_KINDS = ("full_attention", "sliding_attention")
_MLPS = ("dense", "sparse")


def build(card: Card, name: str) -> Architecture:
    """The architecture of MiMo-V2-Flash."""
    card.skip(
        "partial_rotary_factor", "swa_rope_theta", "layernorm_epsilon", "attention_value_scale", "attention_chunk_size"
    )
    own = expert_count(card, "n_routed_experts")
    base = frame(own)
    attention = NOTHING
    for span in _spans(own, base.layers):
        attention += _attention(own, base, span)
    parts = decoder(own, base, attention, mixture_parts(base.hidden, _mixture(own, base)))
    return lone(card, name, base=base, family=FAMILY, parts=parts)


def _attention(card: Card, base: Frame, span: Span) -> Parts:
    slides = span.reach is Reach.WINDOW
    heads = card.size("num_attention_heads", 64)
    kv_heads = card.size("num_key_value_heads", 4)
    head_dim = card.size("head_dim", 192)
    value_dim = card.size("v_head_dim", 128)
    if slides:
        heads = card.size("swa_num_attention_heads", heads)
        kv_heads = card.size("swa_num_key_value_heads", 2 * kv_heads)
        head_dim = card.size("swa_head_dim", head_dim)
        value_dim = card.size("swa_v_head_dim", value_dim)
    key = "swa_num_attention_heads" if slides and "swa_num_attention_heads" in card else "num_attention_heads"
    card.divides(key, heads, kv_heads, by="KV heads")
    return grouped(
        span.layers,
        hidden=base.hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        value_dim=value_dim,
        reach=span.reach,
        span=span.size,
        bias=card.flag("attention_bias", False),
        sinks=card.flag("add_swa_attention_sink_bias" if slides else "add_full_attention_sink_bias", slides),
        name=attention_name(span),
    )


def _spans(card: Card, layers: Layers) -> tuple[Span, ...]:
    window = card.size("sliding_window", 129)
    if "sliding_window_size" in card:
        window = card.size("sliding_window_size") + 1
    default = [int(layer != 0 and (layer + 1) % 6 != 0) for layer in layers]
    kinds = _turns(card, words="layer_types", flags="hybrid_layer_pattern", known=_KINDS, default=default)
    return by_kind(layers, kinds, window=window)


def _mixture(card: Card, base: Frame) -> Mixture:
    card.skip("norm_topk_prob", "routed_scaling_factor")
    card.choice("scoring_func", ("sigmoid",), "sigmoid")
    card.choice("topk_method", ("noaux_tc",), "noaux_tc")
    default = [int(layer > 0) for layer in base.layers]
    kinds = _turns(card, words="mlp_layer_types", flags="moe_layer_freq", known=_MLPS, default=default)
    width = card.size("moe_intermediate_size", 2048)
    mixture = Mixture(
        sparse=tuple(layer for layer in base.layers if kinds[layer] == "sparse"),
        count=card.size("n_routed_experts", 256),
        chosen=card.size("num_experts_per_tok", 8),
        width=width,
        dense=tuple(layer for layer in base.layers if kinds[layer] == "dense"),
        dense_width=card.size("intermediate_size", 16384),
        shared=card.size("n_shared_experts", 0, least=0) * width,
        correction=True,
        router_dtype=Dtype.F32,
    )
    check_groups(card, count_key="n_routed_experts", mixture=mixture)
    return mixture


def _turns(card: Card, *, words: str, flags: str, known: Sequence[str], default: list[int]) -> list[str]:
    """One word a layer: from a list of words, else from a list of 0 and 1, else from the default."""
    if words in card:
        card.skip(flags)
        return list(card.words(words, known=known, count=len(default)))
    given = card.sizes(flags, most=1, count=len(default)) if flags in card else default
    return [known[flag] for flag in given]
