"""Llama 4's language model: three layers that see their chunk for each that sees all, experts in some layers.

In: a card of `llama4_text`. Out: `Architecture` with one stage. Shapes and defaults follow transformers'
Llama4ForCausalLM; its scale on queries and keys has no weights.
"""

from accord.models.card import Card
from accord.models.families.decoders.dense import Frame, Traits, attend, decoder, frame, heads_of, lone, with_defaults
from accord.models.families.decoders.mixture import Mixture, mixture_parts
from accord.models.families.decoders.windows import Span, by_kind
from accord.models.parts.parts import Layers
from accord.terms.architecture import Architecture

FAMILY = "llama4"

_TRAITS = Traits(kv_heads=8, head_dim=128)
_NESTED = {
    "hidden_size": 5120,
    "intermediate_size": 8192,
    "num_hidden_layers": 48,
    "num_attention_heads": 40,
    "vocab_size": 202048,
}
_KINDS = ("full_attention", "chunked_attention")


def build(card: Card, name: str) -> Architecture:
    """The architecture of Llama 4's language model alone."""
    card.skip("use_qk_norm", "attn_temperature_tuning", "floor_scale", "attn_scale", "for_llm_compressor")
    full = with_defaults(card, _NESTED)
    base = frame(full)
    attention = attend(base, heads_of(full, base, _TRAITS), _spans(full, base.layers))
    parts = decoder(full, base, attention, mixture_parts(base.hidden, _mixture(full, base)))
    return lone(card, name, base=base, family=FAMILY, parts=parts)


def _mixture(card: Card, base: Frame) -> Mixture:
    step = card.size("interleave_moe_layer_step", 1)
    listed = card.sizes("moe_layers", most=len(base.layers) - 1)
    sparse = tuple(sorted(set(listed))) if "moe_layers" in card else base.layers[step - 1 :: step]
    dense = tuple(layer for layer in base.layers if layer not in sparse)
    width = card.size("intermediate_size")
    count = card.size("num_local_experts", 16)
    return Mixture(
        sparse=sparse,
        count=count,
        chosen=card.size("num_experts_per_tok", 1, most=count),
        width=width,
        dense=dense,
        dense_width=card.size("intermediate_size_mlp", 16384),
        shared=width,
    )


def _spans(card: Card, layers: Layers) -> tuple[Span, ...]:
    """Layers without rotary positions see all; the rest see their chunk."""
    chunk = card.maybe("attention_chunk_size") if card.names("attention_chunk_size") else 8192
    rotary = card.sizes("no_rope_layers", most=1)
    if rotary and len(rotary) < len(layers):
        card.wrong("no_rope_layers", problem=f"{len(rotary)} items for {len(layers)} layers", fix="one for each layer")
    every = card.size("no_rope_layer_interval", 4)
    turns = rotary[: len(layers)] or tuple(int((layer + 1) % every != 0) for layer in layers)
    kinds = card.words("layer_types", known=_KINDS, count=len(layers) if "layer_types" in card else None)
    if not kinds:
        kinds = tuple(_KINDS[1] if turn and chunk is not None else _KINDS[0] for turn in turns)
    if _KINDS[1] in kinds and chunk is None:
        card.wrong("attention_chunk_size", problem="no size, but `layer_types` has chunked layers", fix="write it")
    return by_kind(layers, kinds, chunk=chunk)
