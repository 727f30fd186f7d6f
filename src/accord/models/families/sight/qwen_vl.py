"""Qwen2-VL, Qwen2.5-VL and Qwen3-VL: a tower whose patches are merged by squares, in front of a Qwen decoder.

In: their composed cards. Out: `Architecture` with the stages `vision` and `decoder`. Shapes follow transformers'
Qwen2VL, Qwen2_5_VL, Qwen3VL and Qwen3VLMoe ForConditionalGeneration; `sight_of` serves other Qwen families, too.
"""

from collections.abc import Callable, Mapping

from accord.models.card import Card
from accord.models.families.naming import one_name
from accord.models.families.sight.seeing import Sight, composed
from accord.models.families.sight.towers import sides
from accord.models.families.text import Text, text_of, tying
from accord.models.parts.feedforward import ACTIVATIONS
from accord.models.parts.parts import Parts
from accord.models.parts.vision import Blocks, blocks, patches, positions, projector
from accord.terms.architecture import Architecture

FAMILY = "qwen-vl"


def build(card: Card, name: str) -> Architecture:
    """The composed model."""
    kind = card.word("model_type")
    card.skip("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id", "vision_token_id")
    vision = card.sub("vision_config")
    text = _text(card, kind)
    return composed(card, name=name, family=FAMILY, sight=sight_of(vision, kind=kind, hidden=text.hidden), text=text)


def sight_of(card: Card, *, kind: str, hidden: int) -> Sight:
    """The tower and its mergers; `hidden` is the width of the decoder behind them, `kind` the composed model type."""
    card.skip("model_type", "tokens_per_second", "in_chans", "spatial_patch_size")
    card = one_name(card, {"num_attention_heads": "num_heads", "num_hidden_layers": "depth"})
    patch = sides(card, "patch_size", _PATCH.get(kind, 16))
    values = card.size("in_channels", 3) * card.size("temporal_patch_size", 2) * patch[0] * patch[1]
    return _SIGHTS.get(kind, _qwen3)(card, values, hidden)


_PATCH: Mapping[str, int] = {"qwen2_vl": 14, "qwen2_5_vl": 14}
_TEXTS: Mapping[str, str] = {
    "qwen2_vl": "qwen2_vl_text",
    "qwen2_5_vl": "qwen2_5_vl_text",
    "qwen3_vl": "qwen3_vl_text",
    "qwen3_vl_moe": "qwen3_vl_moe_text",
}


def _text(card: Card, kind: str) -> Text:
    if "text_config" not in card:
        return text_of(card.given(model_type=_TEXTS[kind]))
    below = card.sub("text_config")
    tied = tying(card, below, default=False, either=kind in ("qwen2_vl", "qwen2_5_vl"))
    return text_of(below, kind=_TEXTS[kind], tied=tied)


def _qwen3(card: Card, values: int, hidden: int) -> Sight:
    made = _blocks(card, wide=card.size("hidden_size", 1152), width=card.size("intermediate_size", 4304), depth=27)
    group = card.size("spatial_merge_size", 2) ** 2
    out = _out(card, hidden)
    levels = _levels(card, made)
    parts = (
        patches(made.hidden, values=values, bias=True)
        + positions(card.size("num_position_embeddings", 2304), made.hidden)
        + blocks(made)
        + _merger(made, group=group, out=out)
    )
    if levels:
        wide = made.hidden * group
        parts += projector(wide, wide, out, rate=1 / group, normed=wide, name="deepstack", copies=levels)
    return Sight(parts=parts, card=card, values=values, token_values=out * (1 + levels), group=group)


def _levels(card: Card, made: Blocks) -> int:
    """How many inner layers' outputs go along to the decoder's first layers (8, 16 and 24 where a card is silent)."""
    if not card.names("deepstack_visual_indexes"):
        return 3
    found = card.sizes("deepstack_visual_indexes")
    if any(layer not in made.layers for layer in found):
        card.wrong("deepstack_visual_indexes", problem="names a layer beyond `depth`", fix="write layers that exist")
    return len(found)


def _qwen25(card: Card, values: int, hidden: int) -> Sight:
    found = card.sizes("fullatt_block_indexes") if card.names("fullatt_block_indexes") else (7, 15, 23, 31)
    made = _blocks(card, wide=card.size("hidden_size", 3584), width=card.size("intermediate_size", 3420), depth=32)
    merge = card.size("spatial_merge_size", 2)
    side = card.size("window_size", 112) // sides(card, "patch_size", 14)[0] // merge * merge
    if not side:
        card.wrong("window_size", problem="smaller than one merged token", fix="write a larger window")
    figures = Blocks(
        layers=made.layers,
        hidden=made.hidden,
        heads=made.heads,
        width=made.width,
        windows=tuple(layer for layer in made.layers if layer not in found),
        window=side * side,
    )
    out = _out(card, hidden)
    parts = (
        patches(made.hidden, values=values)
        + blocks(figures, norm_bias=False, gated=True)
        + _merger(made, group=merge**2, out=out, norm_bias=False)
    )
    return Sight(parts=parts, card=card, values=values, token_values=out, group=merge**2)


def _qwen2(card: Card, values: int, hidden: int) -> Sight:
    wide = card.size("embed_dim", 1280)
    made = _blocks(card, wide=wide, width=wide * card.size("mlp_ratio", 4), depth=32)
    group = card.size("spatial_merge_size", 2) ** 2
    out = _out(card, hidden, key="hidden_size")
    parts = patches(made.hidden, values=values) + blocks(made) + _merger(made, group=group, out=out)
    return Sight(parts=parts, card=card, values=values, token_values=out, group=group)


_SIGHTS: Mapping[str, Callable[[Card, int, int], Sight]] = {"qwen2_vl": _qwen2, "qwen2_5_vl": _qwen25}


def _blocks(card: Card, *, wide: int, width: int, depth: int) -> Blocks:
    card.choice("hidden_act", ACTIVATIONS, "gelu")
    heads = card.size("num_heads", 16)
    if wide % heads:
        card.wrong("num_heads", problem=f"doesn't divide the width {wide}", fix=f"write a divisor of {wide}")
    return Blocks(layers=tuple(range(card.layers("depth", depth))), hidden=wide, heads=heads, width=width)


def _out(card: Card, hidden: int, *, key: str = "out_hidden_size") -> int:
    out = card.size(key, 3584)
    if out != hidden:
        card.wrong(key, problem=f"the decoder's hidden size is {hidden}", fix=f"write {hidden}")
    return out


def _merger(made: Blocks, *, group: int, out: int, norm_bias: bool = True) -> Parts:
    wide = made.hidden * group
    return projector(wide, wide, out, rate=1 / group, normed=made.hidden, norm_bias=norm_bias, name="merger")
