"""Gemma 3 with its eyes: SigLIP, pooled and projected, in front of Gemma 3's decoder.

In: its composed cards. Out: `Architecture` with the stages `vision` and `decoder`. Shapes follow transformers'
Gemma3ForConditionalGeneration.
"""

import math

from accord.models.card import Card
from accord.models.families.sight.seeing import Sight, composed, whole_spans
from accord.models.families.sight.towers import tower_of
from accord.models.families.text import text_of, tying
from accord.models.parts.vision import projector
from accord.terms.architecture import Architecture

FAMILY = "gemma3-vision"


def build(card: Card, name: str) -> Architecture:
    """The composed model."""
    card.skip("boi_token_index", "eoi_token_index", "image_token_index", "image_token_id", "eoi_token_id")
    below = card.sub("text_config")
    text = text_of(below, kind="gemma3_text", tied=tying(card, below, default=True))
    vision = card.sub("vision_config")
    tower = tower_of(vision, kind="siglip_vision_model")
    picture = tower.blocks.picture
    if picture is None:
        vision.wrong("model_type", problem="its pictures have no fixed size", fix="write siglip_vision_model")
    tokens = card.size("mm_tokens_per_image", 256)
    if math.isqrt(tokens) ** 2 != tokens or math.isqrt(picture) % math.isqrt(tokens):
        card.wrong(
            "mm_tokens_per_image",
            problem=f"a picture of {picture} patches can't be pooled into a square of so many tokens",
            fix="write a square number whose root divides the picture's side in patches",
        )
    sight = Sight(
        parts=tower.parts
        + projector(tower.hidden, text.hidden, rate=tokens / picture, bias=False, normed=tower.hidden, norm_bias=False),
        card=vision,
        values=tower.values,
        token_values=text.hidden,
        picture=picture,
        tokens=tokens,
    )
    return composed(card, name=name, family=FAMILY, sight=sight, text=text, constraints=(whole_spans(tokens),))
