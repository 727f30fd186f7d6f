"""Llama 4 with its eyes: a tower, a pixel shuffle and two projections, in front of Llama 4's language model.

In: its composed cards. Out: `Architecture` with the stages `vision` and `decoder`. Shapes and defaults follow
transformers' Llama4ForConditionalGeneration.
"""

from accord.models.card import Card
from accord.models.families.sight.seeing import Sight, composed
from accord.models.families.sight.towers import figures, grid
from accord.models.families.text import text_of
from accord.models.parts.parts import linear, norm, vector
from accord.models.parts.vision import NAME, blocks, patches, positions, projector
from accord.terms.architecture import Architecture
from accord.terms.tensors import Split

FAMILY = "llama4-vision"


def build(card: Card, name: str) -> Architecture:
    """The composed model."""
    card.skip("boi_token_index", "eoi_token_index", "image_token_index", "tie_word_embeddings")
    text = text_of(card.sub("text_config"), kind="llama4_text")
    told = "vision_config" in card
    vision = card.sub("vision_config") if told else Card({}, path="vision_config")
    remark = "vision_config is absent: the vision stage has the figures that transformers takes by default"
    sight = _sight(vision, hidden=text.hidden)
    return composed(card, name=name, family=FAMILY, sight=sight, text=text, remarks=() if told else (remark,))


def _sight(card: Card, *, hidden: int) -> Sight:
    picture, values = grid(card, image=448, patch=14)
    card.skip("model_type", "vision_feature_layer", "vision_feature_select_strategy", "projector_dropout")
    card.skip("multi_modal_projector_bias")
    ratio = card.number("pixel_shuffle_ratio", 0.5)
    if not 0 < ratio <= 1:
        card.wrong("pixel_shuffle_ratio", problem="not from 0 to 1", fix="write 0.5")
    made = figures(card, hidden=768, width=5632, layers=34, heads=16, picture=picture, extra=1)
    inner, outer = card.size("projector_input_dim", 4096), card.size("projector_output_dim", 4096)
    rate = ratio**2
    parts = (
        patches(made.hidden, values=values, convolved=False)
        + vector(f"{NAME}.class", made.hidden)
        + positions(picture + 1, made.hidden)
        + norm(f"{NAME}.norm_before", made.hidden, bias=True)
        + blocks(made)
        + norm(f"{NAME}.norm_after", made.hidden, bias=True)
        + linear(f"{NAME}.adapter.in", made.width, inner, rate=rate, split=Split.ROWS, pieces=inner, quantizable=False)
        + linear(f"{NAME}.adapter.out", outer, outer, rate=rate, split=Split.COLUMNS, pieces=outer, quantizable=False)
        + projector(card.size("vision_output_dim", 7680), hidden, rate=rate, bias=False)
    )
    return Sight(
        parts=parts,
        card=card,
        values=values,
        token_values=hidden,
        picture=picture,
        tokens=round(picture * rate),
    )
