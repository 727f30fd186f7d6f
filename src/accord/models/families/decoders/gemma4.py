"""Gemma 4's decoder: sliding and full layers with heads of different sizes, shared keys and values, per-layer
embeddings, and in one size experts beside the dense block.

In: its `text_config`. Out: `Architecture` with one stage. Shapes and defaults follow transformers' Gemma4ForCausalLM.
"""

from collections.abc import Mapping
from dataclasses import replace

from accord.models.card import Card
from accord.models.families.decoders.dense import Frame, lone, with_defaults
from accord.models.families.decoders.gemma import decoder, frame
from accord.models.families.decoders.windows import Span, attention_name, by_kind
from accord.models.parts.attention import grouped
from accord.models.parts.feedforward import experts, gated
from accord.models.parts.parts import NOTHING, Layers, Parts, linear, norm, table, vector
from accord.terms.architecture import Architecture
from accord.terms.tensors import Part, Split
from accord.terms.work import Reach

FAMILY = "gemma4"

_NESTED: Mapping[str, int] = {
    "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 30, "vocab_size": 262144,
}  # fmt: skip
_UNIFIED: Mapping[str, int] = {
    "hidden_size_per_layer_input": 0, "sliding_window": 1024, "max_position_embeddings": 262144,
}  # fmt: skip
SKIPPED = "layers that share a cache are counted for all tokens of a prompt; an engine may run them for the last only"
_FULL, _SLIDING = "full_attention", "sliding_attention"


def build(card: Card, name: str) -> Architecture:
    """The architecture of the decoder alone."""
    full = _usual(with_defaults(card, _NESTED))
    base = frame(full, context=131072)
    full.skip("final_logit_softcapping", "expert_intermediate_size")
    if full.word("use_bidirectional_attention", "") == "all":
        full.wrong("use_bidirectional_attention", problem="an encoder, not a decoder", fix="write vision, or null")
    shared = shared_layers(full, base.layers, layer_kinds(full, base.layers))
    parts = decoder(full, base, _attention(full, base, shared), _feedforward(full, base, shared))
    parts += per_layer_inputs(full, base, default=256)
    made = lone(card, name, base=base, family=FAMILY, parts=parts)
    return replace(made, remarks=(*made.remarks, SKIPPED)) if shared else made


def _usual(card: Card) -> Card:
    """The card with the defaults that set the model without towers apart."""
    if card.word("model_type") != "gemma4_unified_text":
        return card
    card.skip("use_bidirectional_attention")
    return card.given(**{key: size for key, size in _UNIFIED.items() if key not in card})


def layer_kinds(card: Card, layers: Layers, *, every: int = 6) -> tuple[str, ...]:
    """One word a layer; the last layer is full, whatever the card says."""
    listed = card.words("layer_types", known=(_FULL, _SLIDING), count=len(layers) if "layer_types" in card else None)
    kinds = listed or tuple(_SLIDING if (layer + 1) % every else _FULL for layer in layers)
    return (*kinds[:-1], _FULL)


def shared_layers(card: Card, layers: Layers, kinds: tuple[str, ...], *, default: int = 0) -> Layers:
    """The last layers, which read the cache of the last layer of their kind before them."""
    count = card.size("num_kv_shared_layers", default, least=0)
    own = len(layers) - count
    if count and (own < 1 or not set(kinds[own:]) <= set(kinds[:own])):
        card.wrong(
            "num_kv_shared_layers",
            problem="some of these layers have no layer of their kind before them to share with",
            fix=f"write a smaller number than {count}",
        )
    return layers[own:]


def _attention(card: Card, base: Frame, shared: Layers) -> Parts:
    window = card.size("sliding_window", 512)
    heads = card.size("num_attention_heads", 8)
    keys_are_values = card.flag("attention_k_eq_v", False)
    made = NOTHING
    for span in by_kind(base.layers, layer_kinds(card, base.layers), window=window):
        is_full = span.reach is Reach.CAUSAL
        sliding = card.size("num_key_value_heads", 4), card.size("head_dim", 256)
        kv_heads, head_dim = _full_sizes(card, span, keys_are_values=keys_are_values) if is_full else sliding
        card.divides("num_attention_heads", heads, kv_heads, by="the number of key and value heads")
        for layers, is_shared in split(span, shared):
            made += grouped(
                layers,
                hidden=base.hidden,
                heads=heads,
                kv_heads=kv_heads,
                head_dim=head_dim,
                reach=span.reach,
                span=span.size,
                bias=card.flag("attention_bias", False),
                out_bias=card.flag("attention_bias", False),
                qk_norm=head_dim,
                values=not (keys_are_values and is_full),
                shared=is_shared,
                name=attention_name(span) + (".shared" if is_shared else ""),
            )
    return made


def split(span: Span, shared: Layers) -> tuple[tuple[Layers, bool], ...]:
    """The layers of a span that have keys and values of their own, and those that share."""
    own = tuple(layer for layer in span.layers if layer not in shared)
    return (own, False), (tuple(layer for layer in span.layers if layer in shared), True)


def _full_sizes(card: Card, full: Span, *, keys_are_values: bool) -> tuple[int, int]:
    """Key and value heads of full layers, and their size; transformers saves both as `per_layer_config`."""
    kv_heads, head_dim = card.size("num_key_value_heads", 4), card.size("head_dim", 256)
    fewer, larger = card.size("num_global_key_value_heads", kv_heads), card.size("global_head_dim", 512)
    if "per_layer_config" not in card:
        return fewer if keys_are_values else kv_heads, larger
    below = card.sub("per_layer_config")
    layers = tuple(str(layer) for layer in full.layers)
    if set(below.keys()) != set(layers):
        card.wrong("per_layer_config", problem="not for the full layers alone", fix="name all of them, and no other")
    each = [below.sub(layer) for layer in layers]
    found = {(own.size("num_key_value_heads", kv_heads), own.size("head_dim", head_dim)) for own in each}
    if len(found) > 1:
        card.wrong("per_layer_config", problem="full layers that differ", fix="write the same sizes for all of them")
    return found.pop()


def _feedforward(card: Card, base: Frame, shared: Layers) -> Parts:
    width = card.size("intermediate_size")
    wide = shared if card.flag("use_double_wide_mlp", False) else ()
    plain = tuple(layer for layer in base.layers if layer not in wide)
    made = gated(plain, hidden=base.hidden, width=width) + gated(
        wide, hidden=base.hidden, width=2 * width, name="mlp.wide"
    )
    if not card.flag("enable_moe_block", False):
        card.skip("num_experts", "top_k_experts", "moe_intermediate_size")
        return made
    count = card.size("num_experts")
    made += experts(
        base.layers,
        hidden=base.hidden,
        width=card.size("moe_intermediate_size"),
        count=count,
        chosen=card.size("top_k_experts", most=count),
    )
    made += vector("experts.router.input_scale", base.hidden, base.layers, part=Part.ROUTER)
    made += vector("experts.router.scale", count, base.layers, part=Part.ROUTER)
    for name in ("post_dense_norm", "pre_experts_norm", "post_experts_norm"):
        made += norm(name, base.hidden, base.layers)
    return made


def per_layer_inputs(card: Card, base: Frame, *, default: int) -> Parts:
    """A second embedding, of which each layer gets a slice, and a gate on it in each layer; a scale in each layer."""
    scalar = vector("layer_scalar", 1, base.layers, buffer=True)
    small = card.size("hidden_size_per_layer_input", default, least=0)
    rows = card.size("vocab_size_per_layer_input", 262144)
    return scalar + per_layer_embeddings(base, small=small, rows=rows)


def per_layer_embeddings(base: Frame, *, small: int, rows: int) -> Parts:
    """The embedding, its projection, and what each layer does with its slice of `small` values."""
    if not small:
        return NOTHING
    wide = len(base.layers) * small
    return (
        table("embed_tokens_per_layer", rows, wide, split=Split.VOCABULARY)
        + linear("per_layer.model", base.hidden, wide, split=Split.ROWS, pieces=wide)
        + norm("per_layer.model_norm", small)
        + linear("per_layer.gate", base.hidden, small, base.layers)
        + linear("per_layer.up", small, base.hidden, base.layers)
        + norm("per_layer.norm", base.hidden, base.layers)
    )
