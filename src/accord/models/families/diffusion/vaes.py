"""Autoencoders of image and video pipelines: AutoencoderKL, Wan's and Qwen-Image's, Cosmos's.

In: a pipeline's nested `vae` mapping. Out: `Compression`, and the parts of decoding a `Clip`. Both halves are loaded;
the decoder's alone is run. Shapes follow the diffusers class that `_class_name` names.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from accord.models.card import Card
from accord.models.families.diffusion.cosmos_vae import cosmos_compression, cosmos_decoder
from accord.models.families.diffusion.wan_vae import wan_compression, wan_decoder
from accord.models.parts.parts import Parts, norm
from accord.models.parts.vae import Clip, Style, attention, convolve, residual, residuals, weights_only

_FLAT = Style(kernel=9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compression:
    """`channels` of the latent; pixels a side and frames for each of its positions."""

    channels: int
    space: int
    time: int


def compression(card: Card) -> Compression:
    """What one `vae` mapping makes of a picture or clip."""
    kind = card.choice("_class_name", tuple(_VAES))
    card.skip("_diffusers_version", "latents_mean", "latents_std", "scaling_factor", "shift_factor")
    channels, space, time = _VAES[kind][0](card)
    return Compression(channels=channels, space=space, time=time)


def decoder(card: Card, clip: Clip) -> Parts:
    """All weights of one `vae` mapping, and the work of decoding."""
    return _VAES[card.choice("_class_name", tuple(_VAES))][1](card, clip)


def _kl_compression(card: Card) -> tuple[int, int, int]:
    return card.size("latent_channels", 4), 2 ** (len(_widths(card)) - 1), 1


def _kl_decoder(card: Card, clip: Clip) -> Parts:
    """The autoencoder of latent diffusion (arXiv 2112.10752)."""
    widths, latent = _widths(card), card.size("latent_channels", 4)
    count = card.size("layers_per_block", 1, most=64)
    card.words("down_block_types", known=("DownEncoderBlock2D",), count=len(widths))
    card.words("up_block_types", known=("UpDecoderBlock2D",), count=len(widths))
    card.skip("act_fn", "norm_num_groups", "sample_size", "force_upcast", "latents_mean", "latents_std")
    attend = card.flag("mid_block_add_attention", True)
    rate = clip.area
    encoder = _kl_encoder(widths, count=count, inputs=card.size("in_channels", 3), latent=latent, attend=attend)
    if card.flag("use_quant_conv", True):
        encoder += convolve("encoder.quant", 2 * latent, 2 * latent, kernel=1, rate=1.0)
    parts = weights_only(encoder)
    if card.flag("use_post_quant_conv", True):
        parts += convolve("decoder.quant", latent, latent, kernel=1, rate=rate)
    parts += convolve("decoder.in", latent, widths[-1], kernel=9, rate=rate)
    parts += _kl_middle("decoder", widths[-1], rate=rate, span=clip.plane, attend=attend)
    before = widths[-1]
    for index, width in enumerate(reversed(widths)):
        name = f"decoder.{index}"
        parts += residuals(name, _FLAT, before, width, count=count + 1, rate=rate)
        if index < len(widths) - 1:
            rate *= 4
            parts += convolve(f"{name}.up", width, width, kernel=9, rate=rate)
        before = width
    out = card.size("out_channels", 3)
    return parts + norm("decoder.norm", before, bias=True) + convolve("decoder.out", before, out, kernel=9, rate=rate)


def _kl_encoder(widths: tuple[int, ...], *, count: int, inputs: int, latent: int, attend: bool) -> Parts:
    parts = convolve("encoder.in", inputs, widths[0], kernel=9, rate=1.0)
    before = widths[0]
    for index, width in enumerate(widths):
        name = f"encoder.{index}"
        parts += residuals(name, _FLAT, before, width, count=count, rate=1.0)
        if index < len(widths) - 1:
            parts += convolve(f"{name}.down", width, width, kernel=9, rate=1.0)
        before = width
    parts += _kl_middle("encoder", before, rate=1.0, span=None, attend=attend) + norm("encoder.norm", before, bias=True)
    return parts + convolve("encoder.out", before, 2 * latent, kernel=9, rate=1.0)


def _kl_middle(half: str, width: int, *, rate: float, span: int | None, attend: bool) -> Parts:
    parts = residual(f"{half}.middle.0", _FLAT, width, width, rate=rate)
    if attend:
        parts += attention(f"{half}.attention", width, rate=rate, span=span, norm_bias=True)
    return parts + residual(f"{half}.middle.1", _FLAT, width, width, rate=rate)


def _widths(card: Card) -> tuple[int, ...]:
    widths = card.sizes("block_out_channels", least=1) or (64,)
    if len(widths) > 8:
        card.wrong("block_out_channels", problem="more than 8 scales", fix="list the channels of each scale")
    return widths


_VAES: Mapping[str, tuple[Callable[[Card], tuple[int, int, int]], Callable[[Card, Clip], Parts]]] = {
    "AutoencoderKL": (_kl_compression, _kl_decoder),
    "AutoencoderKLQwenImage": (wan_compression, wan_decoder),
    "AutoencoderKLWan": (wan_compression, wan_decoder),
    "AutoencoderKLCosmos": (cosmos_compression, cosmos_decoder),
}
