"""Vision towers that several families put in front of a language model: CLIP, SigLIP, Pixtral, InternViT.

In: a `vision_config`. Out: `Tower`. Shapes follow transformers' modules of the same `model_type`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from accord.models.card import Card
from accord.models.parts.feedforward import ACTIVATIONS
from accord.models.parts.parts import Parts, norm, vector
from accord.models.parts.vision import NAME, Blocks, blocks, patches, pooling, positions


@dataclass(frozen=True, slots=True, kw_only=True)
class Tower:
    """A tower without its projector: `hidden` is the width of its output, a patch has `values` pixels and channels."""

    parts: Parts
    blocks: Blocks
    values: int

    @property
    def hidden(self) -> int:
        """Width of the output."""
        return self.blocks.hidden


def tower_of(card: Card, *, kind: str | None = None) -> Tower:
    """The tower of one `vision_config`. `kind` stands in for a `model_type` that the mapping leaves out."""
    return TOWERS[card.choice("model_type", tuple(TOWERS), kind)](card)


def sides(card: Card, key: str, default: int) -> tuple[int, int]:
    """Height and width: one number for both, or a list of two."""
    if isinstance(card.raw(key), list):
        height, width = card.sizes(key, least=1, count=2)
        return height, width
    side = card.size(key, default)
    return side, side


def grid(card: Card, *, image: int, patch: int) -> tuple[int, int]:
    """Patches of one picture, and values of one patch."""
    height, width = sides(card, "image_size", image)
    rows, columns = sides(card, "patch_size", patch)
    if height < rows or width < columns:
        card.wrong("patch_size", problem=f"larger than a picture of {height} x {width}", fix="write a smaller patch")
    return (height // rows) * (width // columns), rows * columns * card.size("num_channels", 3)


def figures(card: Card, *, hidden: int, width: int, layers: int, heads: int, picture: int | None, extra: int) -> Blocks:
    """Widths and heads; the figures given are the defaults of the family."""
    card.choice("hidden_act", ACTIVATIONS, "gelu")
    wide = card.size("hidden_size", hidden)
    count = card.size("num_attention_heads", heads)
    card.divides("hidden_size", wide, count, by="num_attention_heads")
    return Blocks(
        layers=tuple(range(card.layers(default=layers))),
        hidden=wide,
        heads=count,
        width=card.size("intermediate_size", width),
        picture=picture,
        extra=extra,
    )


def _clip(card: Card) -> Tower:
    picture, values = grid(card, image=224, patch=32)
    card.skip("projection_dim", "vocab_size")
    made = figures(card, hidden=768, width=3072, layers=12, heads=12, picture=picture, extra=1)
    parts = (
        vector(f"{NAME}.class", made.hidden)
        + patches(made.hidden, values=values)
        + positions(picture + 1, made.hidden)
        + norm(f"{NAME}.norm_before", made.hidden, bias=True)
        + blocks(made)
        + norm(f"{NAME}.norm_after", made.hidden, bias=True)
    )
    return Tower(parts=parts, blocks=made, values=values)


def _siglip(card: Card) -> Tower:
    picture, values = grid(card, image=224, patch=16)
    made = figures(card, hidden=768, width=3072, layers=12, heads=12, picture=picture, extra=0)
    parts = (
        patches(made.hidden, values=values, bias=True)
        + positions(picture, made.hidden)
        + blocks(made)
        + norm(f"{NAME}.norm_after", made.hidden, bias=True)
    )
    if card.flag("vision_use_head", True):
        parts += pooling(made)
    return Tower(parts=parts, blocks=made, values=values)


def _pixtral(card: Card) -> Tower:
    _, values = grid(card, image=1024, patch=16)
    card.skip("head_dim")
    made = figures(card, hidden=1024, width=4096, layers=24, heads=16, picture=None, extra=0)
    parts = (
        patches(made.hidden, values=values)
        + norm(f"{NAME}.norm_before", made.hidden)
        + blocks(made, qkv_bias=False, out_bias=False, mlp_bias=False, norm_bias=False, gated=True)
    )
    return Tower(parts=parts, blocks=made, values=values)


def _intern(card: Card) -> Tower:
    picture, values = grid(card, image=448, patch=14)
    card.skip("layer_scale_init_value", "projection_dropout", "dropout", "drop_path_rate", "use_mean_pooling")
    made = figures(card, hidden=1024, width=4096, layers=24, heads=16, picture=picture, extra=1)
    rms = card.choice("norm_type", ("layer_norm", "rms_norm"), "layer_norm") == "rms_norm"
    if card.flag("use_mask_token", False):
        card.wrong("use_mask_token", problem="only for pre-training", fix="set it to false")
    absolute = card.flag("use_absolute_position_embeddings", True)
    parts = (
        vector(f"{NAME}.class", made.hidden)
        + patches(made.hidden, values=values, bias=True)
        + positions(picture + 1 if absolute else 0, made.hidden)
        + blocks(
            made,
            qkv_bias=card.flag("attention_bias", False),
            norm_bias=not rms,
            qk_norm=made.hidden if card.flag("use_qk_norm", False) else 0,
            scales=2,
        )
    )
    if not card.flag("use_mean_pooling", True):
        parts += norm(f"{NAME}.norm_after", made.hidden, bias=True)
    return Tower(parts=parts, blocks=made, values=values)


TOWERS: Mapping[str, Callable[[Card], Tower]] = {
    "clip_vision_model": _clip,
    "siglip_vision_model": _siglip,
    "pixtral": _pixtral,
    "internvl_vision": _intern,
}
