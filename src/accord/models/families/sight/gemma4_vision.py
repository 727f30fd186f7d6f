"""Gemma 4 with its eyes and ears: a tower that pools its patches by squares, a conformer in the small sizes.

In: its composed cards. Out: `Architecture` with the stages `vision`, `audio` and `decoder`. Shapes follow transformers'
Gemma4ForConditionalGeneration.
"""

from accord.models.card import Card
from accord.models.families.omni.gemma_sound import gemma4_sound
from accord.models.families.sight.seeing import Sight, composed, whole_spans
from accord.models.families.text import text_of, tying
from accord.models.parts.feedforward import ACTIVATIONS
from accord.models.parts.parts import vector
from accord.models.parts.vision import NAME, Blocks, blocks, patches, positions, projector
from accord.terms.architecture import Architecture

FAMILY = "gemma4-vision"
_NORMS = ("input_norm", "post_attention_norm", "pre_mlp_norm", "post_mlp_norm")


def build(card: Card, name: str) -> Architecture:
    """The composed model."""
    card.skip("image_token_id", "video_token_id", "boi_token_id", "eoi_token_id", "eoi_token_index", "audio_token_id")
    card.skip("boa_token_id", "eoa_token_id", "eoa_token_index", "audio_token_index", "image_token_index")
    below = card.sub("text_config")
    text = text_of(below, kind="gemma4_text", tied=tying(card, below, default=True))
    tokens = card.size("vision_soft_tokens_per_image", 280)
    both = below.word("use_bidirectional_attention", "") == "vision"
    card.skip("vision_config", "audio_config")
    seen, heard = "vision_config" in card, "audio_config" in card
    return composed(
        card,
        name=name,
        family=FAMILY,
        text=text,
        sight=_sight(card.sub("vision_config"), hidden=text.hidden) if seen else None,
        sound=gemma4_sound(card.sub("audio_config"), hidden=text.hidden) if heard else None,
        constraints=(whole_spans(tokens),) if both and seen else (),
    )


def _sight(card: Card, *, hidden: int) -> Sight:
    card.choice("hidden_activation", ACTIVATIONS, "gelu_pytorch_tanh")
    card.skip("attention_bias", "max_position_embeddings", "global_head_dim", "model_type")
    card.skip("default_output_length", "image_seq_length", "video_seq_length")
    heads = card.size("num_attention_heads", 12)
    figures = Blocks(
        layers=tuple(range(card.layers(default=16))),
        hidden=card.size("hidden_size", 768),
        heads=heads,
        kv_heads=card.size("num_key_value_heads", 12),
        head_dim=card.size("head_dim", 64),
        width=card.size("intermediate_size", 3072),
    )
    values = 3 * card.size("patch_size", 16) ** 2
    group = card.size("pooling_kernel_size", 3) ** 2
    parts = (
        patches(figures.hidden, values=values, convolved=False)
        + positions(2 * card.size("position_embedding_size", 10240), figures.hidden)
        + blocks(
            figures,
            qkv_bias=False,
            out_bias=False,
            mlp_bias=False,
            norm_bias=False,
            norms=_NORMS,
            gated=True,
            qk_norm=figures.head_dim or 0,
        )
    )
    if card.flag("use_clipped_linears", False):
        parts += vector(f"{NAME}.bounds", 4 * 7, figures.layers, buffer=True)
    if card.flag("standardize", False):
        parts += vector(f"{NAME}.standard", 2 * figures.hidden, buffer=True)
    parts += projector(figures.hidden, hidden, rate=1 / group, bias=False)
    return Sight(parts=parts, card=card, values=values, token_values=hidden, group=group)
