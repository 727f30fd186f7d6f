"""LLaVA, InternVL and Mistral 3: any tower, a projector, and any language model.

In: their composed cards. Out: `Architecture` with the stages `vision` and `decoder`. Shapes follow transformers'
Llava, InternVL and Mistral3 ForConditionalGeneration; the decoder is whatever family `text_config` names.
"""

from collections.abc import Callable, Mapping

from accord.models.card import Card
from accord.models.families.sight.seeing import Sight, composed
from accord.models.families.sight.towers import Tower, tower_of
from accord.models.families.text import Text, text_of, tying
from accord.models.parts.feedforward import ACTIVATIONS
from accord.models.parts.parts import linear, norm
from accord.models.parts.vision import NAME, projector
from accord.terms.architecture import Architecture

FAMILY = "llava"


def build(card: Card, name: str) -> Architecture:
    """The composed model."""
    card.skip("image_token_index", "image_token_id", "image_seq_length", "ignore_index", "video_token_id")
    card.skip("image_grid_pinpoints", "use_image_newline_parameter", "projector_dropout")
    card.choice("projector_hidden_act", ACTIVATIONS, "gelu")
    make, kind, tower_kind, tied = _KINDS[card.word("model_type")]
    below = card.sub("text_config")
    text = text_of(below, kind=kind, tied=tying(card, below, default=tied, either=not tied))
    vision = card.sub("vision_config")
    tower = tower_of(vision, kind=tower_kind)
    sight = make(card, vision, tower, text)
    idle = len(tower.blocks.layers) - max(_chosen(card, tower))
    remark = f"{idle} of the vision layers are counted, though nothing reads their output; an engine may leave them out"
    return composed(card, name=name, family=FAMILY, sight=sight, text=text, remarks=(remark,) if idle else ())


def _llava(card: Card, vision: Card, tower: Tower, text: Text) -> Sight:
    kept, width = _tokens(card, tower), tower.hidden * len(_chosen(card, tower))
    picture = tower.blocks.picture
    parts = tower.parts + projector(
        width,
        text.hidden,
        text.hidden,
        rate=kept / picture if picture else 1.0,
        bias=card.flag("multimodal_projector_bias", True),
    )
    return Sight(
        parts=parts,
        card=vision,
        values=tower.values,
        token_values=text.hidden,
        picture=picture,
        tokens=kept if picture else None,
    )


def _intern(card: Card, vision: Card, tower: Tower, text: Text) -> Sight:
    ratio = card.number("downsample_ratio", 0.5)
    if ratio not in (1.0, 0.5, 0.25):
        card.wrong("downsample_ratio", problem="patches can't be merged so", fix="write 0.5, or 1 or 0.25")
    if len(_chosen(card, tower)) > 1:
        card.wrong("vision_feature_layer", problem="more than one layer", fix="write -1")
    group = int(1 / ratio) ** 2
    kept = _tokens(card, tower)
    if kept % group:
        card.wrong("downsample_ratio", problem=f"{kept} patches aren't a multiple of {group}", fix="write 1")
    wide = tower.hidden * group
    parts = tower.parts + projector(
        wide, text.hidden, text.hidden, rate=kept / group / (tower.blocks.picture or kept), normed=wide, parallel=False
    )
    return Sight(
        parts=parts,
        card=vision,
        values=tower.values,
        token_values=text.hidden,
        picture=tower.blocks.picture,
        tokens=kept // group,
    )


def _mistral(card: Card, vision: Card, tower: Tower, text: Text) -> Sight:
    group = card.size("spatial_merge_size", 2) ** 2
    width = tower.hidden * len(_chosen(card, tower))
    parts = (
        tower.parts
        + norm(f"{NAME}.projector.norm", tower.hidden)
        + linear(f"{NAME}.merger", tower.hidden * group, tower.hidden, rate=1 / group, quantizable=False)
        + projector(
            width,
            text.hidden,
            text.hidden,
            rate=1 / group,
            bias=card.flag("multimodal_projector_bias", False),
        )
    )
    return Sight(parts=parts, card=vision, values=tower.values, token_values=text.hidden, group=group)


def _chosen(card: Card, tower: Tower) -> tuple[int, ...]:
    """After how many layers each output is taken that goes on; a card's negative numbers count from the last."""
    key, depth = "vision_feature_layer", len(tower.blocks.layers)
    usual = -2 if card.word("model_type") == "llava" else -1
    listed = isinstance(card.raw(key), list)
    found = card.sizes(key, least=-4096) if listed else (card.size(key, usual, least=-4096),)
    if not found or any(not -depth - 1 <= layer <= depth for layer in found):
        card.wrong(key, problem=f"the tower has {depth} layers", fix="write -1 or -2")
    return tuple(layer if layer >= 0 else depth + 1 + layer for layer in found)


def _tokens(card: Card, tower: Tower) -> int:
    """Positions of one picture that go on: all, or all but the class token."""
    strategy = card.choice("vision_feature_select_strategy", ("default", "full"), "default")
    figures = tower.blocks
    if figures.picture is None:
        return 1
    if strategy == "full":
        return figures.picture + figures.extra
    return figures.picture + figures.extra - 1


_Make = Callable[[Card, Card, Tower, Text], Sight]
# How the patches go on, the decoder and the tower that a card means by default, and whether its head is tied.
_KINDS: Mapping[str, tuple[_Make, str, str, bool]] = {
    "llava": (_llava, "llama", "clip_vision_model", False),
    "internvl": (_intern, "qwen2", "internvl_vision", True),
    "mistral3": (_mistral, "mistral", "pixtral", True),
}
