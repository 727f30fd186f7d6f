"""Qwen3.5 and Qwen3.6: Qwen3-VL's vision tower in front of a hybrid decoder.

In: their composed cards. Out: `Architecture` with the stages `vision` and `decoder`. Shapes follow transformers'
Qwen3_5ForConditionalGeneration and Qwen3_5MoeForConditionalGeneration.
"""

from accord.models.card import Card
from accord.models.families.sight.qwen_vl import sight_of
from accord.models.families.sight.seeing import composed
from accord.models.families.text import text_of
from accord.terms.architecture import Architecture

FAMILY = "qwen-hybrid-vl"


def build(card: Card, name: str) -> Architecture:
    """The composed model."""
    kind = card.word("model_type")
    card.skip("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id", "language_model_only")
    vision = card.sub("vision_config")
    if "deepstack_visual_indexes" not in vision:  # unlike Qwen3-VL, none unless a card says so
        vision = vision.given(deepstack_visual_indexes=[])
    text = text_of(card.sub("text_config"), kind=f"{kind}_text", tied=card.flag("tie_word_embeddings", False))
    sight = sight_of(vision, kind="qwen3_vl", hidden=text.hidden)
    return composed(card, name=name, family=FAMILY, sight=sight, text=text)
