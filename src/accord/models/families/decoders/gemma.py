"""Gemma 1, 2 and 3: dense decoders with a tied embedding, most of whose layers slide.

In: their cards, or the `text_config` of Gemma 3. Out: `Architecture` with one stage. Shapes and defaults follow
transformers' Gemma2ForCausalLM, Gemma3ForCausalLM and GemmaForCausalLM.
"""

from collections.abc import Mapping

from accord.models.card import Card
from accord.models.families.decoders.dense import Frame, Heads, attend, lone, with_defaults
from accord.models.families.decoders.windows import Span, by_kind
from accord.models.families.naming import one_name
from accord.models.parts.feedforward import ACTIVATIONS, gated
from accord.models.parts.parts import Layers, Parts, head, norm, tokens
from accord.terms.architecture import Architecture

FAMILY = "gemma"

# What a nested card that leaves sizes out means.
_GEMMA3: Mapping[str, int] = {
    "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26, "vocab_size": 262208,
}  # fmt: skip

_FULL, _SLIDING = "full_attention", "sliding_attention"
_HEADS: Mapping[str, tuple[int, int]] = {"gemma": (16, 16), "gemma2": (8, 4), "gemma3_text": (8, 4)}
_CONTEXT: Mapping[str, int] = {"gemma": 8192, "gemma2": 8192, "gemma3_text": 131072}
_PATTERN: Mapping[str, int] = {"gemma2": 2, "gemma3_text": 6}
_NORMS: Mapping[str, tuple[str, ...]] = {"gemma": ("input_norm", "post_norm")}
FOUR_NORMS = ("input_norm", "post_attention_norm", "pre_mlp_norm", "post_mlp_norm")


def build(card: Card, name: str) -> Architecture:
    """The architecture of a Gemma decoder."""
    kind = card.word("model_type")
    full = with_defaults(card, _GEMMA3 if kind == "gemma3_text" else {})
    base = frame(full, context=_CONTEXT[kind])
    heads, kv_heads = _HEADS[kind]
    full.skip("final_logit_softcapping", "attn_logit_softcapping", "query_pre_attn_scalar", "cache_implementation")
    if full.flag("use_bidirectional_attention", False):
        full.wrong("use_bidirectional_attention", problem="an encoder, not a decoder", fix="set it to false")
    if kind == "gemma":
        seen = by_kind(base.layers, [_FULL] * len(base.layers))
    else:
        seen = patterned(full, base.layers, every=_PATTERN[kind], window=4096)
    parts = decoder(
        full,
        base,
        attend(base, heads_of(full, heads=heads, kv_heads=kv_heads, qk_norm=kind == "gemma3_text"), seen),
        gated(base.layers, hidden=base.hidden, width=full.size("intermediate_size")),
        norms=_NORMS.get(kind, FOUR_NORMS),
    )
    return lone(card, name, base=base, family=FAMILY, parts=parts)


def frame(card: Card, *, context: int) -> Frame:
    """What all Gemma decoders share."""
    card.skip("hidden_act")
    card.choice("hidden_activation", ACTIVATIONS, "gelu_pytorch_tanh")
    return Frame(
        hidden=card.size("hidden_size"),
        layers=tuple(range(card.layers())),
        vocabulary=card.size("vocab_size"),
        context_max=card.size("max_position_embeddings", context),
    )


def heads_of(card: Card, *, heads: int, kv_heads: int, qk_norm: bool) -> Heads:
    """Heads; the figures given are the defaults of the family."""
    count = card.size("num_attention_heads", heads)
    kv_count = card.size("num_key_value_heads", kv_heads)
    card.divides("num_attention_heads", count, kv_count, by="num_key_value_heads")
    head_dim = card.size("head_dim", 256)
    bias = card.flag("attention_bias", False)
    return Heads(
        heads=count,
        kv_heads=kv_count,
        head_dim=head_dim,
        bias=bias,
        out_bias=bias,
        qk_norm=head_dim if qk_norm else 0,
    )


def patterned(card: Card, layers: Layers, *, every: int, window: int) -> tuple[Span, ...]:
    """Which layers slide: as `layer_types` says, else all but each `every`th."""
    return by_kind(layers, layer_kinds(card, layers, every=every), window=card.size("sliding_window", window))


def layer_kinds(card: Card, layers: Layers, *, every: int) -> tuple[str, ...]:
    """One word a layer."""
    pattern = one_name(card, {"_sliding_window_pattern": "sliding_window_pattern"}).size(
        "sliding_window_pattern", every
    )
    listed = card.words("layer_types", known=(_FULL, _SLIDING), count=len(layers) if "layer_types" in card else None)
    return listed or tuple(_SLIDING if (layer + 1) % pattern else _FULL for layer in layers)


def decoder(card: Card, base: Frame, attention: Parts, mlp: Parts, *, norms: tuple[str, ...] = FOUR_NORMS) -> Parts:
    """Embedding, layers, last norm and logits; the head is the embedding unless a card says otherwise."""
    embedding = tokens(base.vocabulary, base.hidden)
    tied = embedding.tensors[0] if card.flag("tie_word_embeddings", True) else None
    made = embedding
    for name in norms:
        made += norm(name, base.hidden, base.layers)
    return made + attention + mlp + norm("norm", base.hidden) + head(base.vocabulary, base.hidden, tied=tied)
