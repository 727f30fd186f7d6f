"""The language model inside a composed model, whichever family it comes from.

In: a nested `text_config`. Out: its `Parts`, or `Text` with its width and context, too. Invariant: its shapes come
from the family whose row names its `model_type`; none are repeated here.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from accord.models.card import Card
from accord.models.families.decoders.dense import with_defaults
from accord.models.families.family import Family
from accord.models.families.naming import expert_count
from accord.models.families.table import FAMILIES
from accord.models.parts.parts import Parts
from accord.terms.architecture import Constraint, Unit
from accord.terms.tensors import Part

DECODER = "decoder"


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A decoder that other stages feed: `hidden` is the width of what takes a token's place."""

    parts: Parts
    card: Card
    hidden: int
    context_max: int | None
    constraints: tuple[Constraint, ...]
    remarks: tuple[str, ...]


def text_parts(card: Card, *, kind: str | None = None, tied: bool | None = None) -> Parts:
    """Embedding, layers, norm and logits of one `text_config`; see `text_of`."""
    return text_of(card, kind=kind, tied=tied).parts


def text_of(card: Card, *, kind: str | None = None, tied: bool | None = None) -> Text:
    """The decoder of one `text_config`. `kind` stands in for a `model_type` that the mapping leaves out.

    `tied` overrides `tie_word_embeddings`, for families whose composed card decides about the head.
    """
    named = card.word("model_type", kind)
    own = card.given(model_type=ALIKE.get(named, named))
    if named in _USUAL:
        own = with_defaults(expert_count(own, "num_experts"), _USUAL[named])
    remarks: tuple[str, ...] = ()
    if tied is not None:
        if card.names("tie_word_embeddings") and card.flag("tie_word_embeddings", tied) is not tied:
            remarks = (f"{card.field('tie_word_embeddings')} says otherwise, but the composed card decides: {tied}",)
        own = own.given(tie_word_embeddings=tied)
    built = _family(own).load()(own, named)
    needs = next(item for item in built.needs if item.unit is Unit.TOKEN)
    return Text(
        parts=Parts(tensors=needs.tensors, operators=needs.operators, cache=needs.cache),
        card=own,
        hidden=next(tensor.columns for tensor in needs.tensors if tensor.part is Part.EMBEDDING),
        context_max=built.context_max,
        constraints=needs.constraints,
        remarks=(*built.remarks, *remarks),
    )


def tying(outer: Card, below: Card, *, default: bool, either: bool = False) -> bool:
    """Whether the head is the embedding: as the composed card says, else as `text_config` says, else `default`.

    `either`: one of them is enough, as for families that once wrote it into `text_config` only.
    """
    key = "tie_word_embeddings"
    inner = below.names(key) and below.flag(key, default)
    if outer.names(key):
        return outer.flag(key, default) or (either and inner)
    return inner if below.names(key) else default


# Decoders of composed models that are another family's to the last weight; only rotary positions differ.
ALIKE: Mapping[str, str] = {
    "qwen2_vl_text": "qwen2",
    "qwen2_5_omni_text": "qwen2",
    "qwen2_5_vl_text": "qwen2",
    "qwen3_omni_moe_text": "qwen3_moe",
    "qwen3_vl_text": "qwen3",
    "qwen3_vl_moe_text": "qwen3_moe",
}

# What they mean where they leave sizes out, which is not what those families mean (transformers' defaults).
_QWEN2_VL: Mapping[str, int] = {
    "vocab_size": 152064, "hidden_size": 8192, "intermediate_size": 29568, "num_hidden_layers": 80,
    "num_attention_heads": 64, "num_key_value_heads": 8, "max_window_layers": 80,
}  # fmt: skip
_USUAL: Mapping[str, Mapping[str, int]] = {
    "qwen2_vl_text": _QWEN2_VL,
    "qwen2_5_vl_text": _QWEN2_VL,
    "qwen2_5_omni_text": {"vocab_size": 152064, "hidden_size": 3584, "intermediate_size": 18944,
                          "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4},
    "qwen3_omni_moe_text": {"vocab_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
                            "num_attention_heads": 28},
    "qwen3_vl_text": {"max_position_embeddings": 128000},
    "qwen3_vl_moe_text": {"intermediate_size": 5632, "num_attention_heads": 16, "num_key_value_heads": 16,
                          "head_dim": 128, "max_position_embeddings": 128000, "moe_intermediate_size": 1408,
                          "num_experts": 60, "num_experts_per_tok": 4},
}  # fmt: skip


def _family(card: Card) -> Family:
    known = {name: family for family in FAMILIES for name in family.model_types}
    return known[card.choice("model_type", sorted(known))]
