"""Gemma 3n with its ears: a conformer in front of the decoder. Its eyes are another library's, and aren't counted.

In: its composed cards. Out: `Architecture` with the stages `audio` and `decoder`. Shapes follow transformers'
Gemma3nForConditionalGeneration.
"""

from accord.models.card import Card
from accord.models.families.omni.gemma_sound import gemma3n_sound
from accord.models.families.sight.seeing import composed
from accord.models.families.text import text_of, tying
from accord.terms.architecture import Architecture

FAMILY = "gemma3n-omni"


def build(card: Card, name: str) -> Architecture:
    """The composed model, without its vision tower."""
    card.skip("boi_token_id", "eoi_token_id", "image_token_id", "boa_token_id", "eoa_token_id", "audio_token_id")
    card.skip("audio_soft_tokens_per_image", "vision_soft_tokens_per_image", "vision_config")
    below = card.sub("text_config")
    text = text_of(below, kind="gemma3n_text", tied=tying(card, below, default=True))
    heard = card.sub("audio_config") if "audio_config" in card else Card({}, path="audio_config")
    remark = "the vision tower (MobileNet-V5, of the timm library) and its projection aren't counted"
    sound = gemma3n_sound(heard, hidden=text.hidden)
    return composed(card, name=name, family=FAMILY, sound=sound, text=text, remarks=(remark,))
