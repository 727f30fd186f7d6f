"""The causal autoencoder of Cosmos (arXiv 2501.03575): wavelets, then convolutions over space and over time apart.

In: a `vae` mapping, a `Clip`. Out: both halves' weights and the decoder's work. The wavelets have no weights, and less
than a hundredth of the work of the convolution before them, so they aren't counted.
"""

from dataclasses import dataclass
from itertools import pairwise

from accord.models.card import Card
from accord.models.parts.parts import Parts, norm
from accord.models.parts.vae import Clip, Style, attention, convolve, filters, residual, residuals, weights_only

_APART = Style(kernel=9, then=3)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Figures:
    """How often space and time are halved after the wavelets, and how deep each scale is."""

    space: int
    time: int
    count: int
    latent: int
    values: int


def cosmos_compression(card: Card) -> tuple[int, int, int]:
    """Channels, pixels a side, frames."""
    return (
        card.size("latent_channels", 16),
        _power(card, "spatial_compression_ratio", 8),
        _power(card, "temporal_compression_ratio", 8),
    )


def cosmos_decoder(card: Card, clip: Clip) -> Parts:
    """All weights, and the work of decoding."""
    latent, space, time = cosmos_compression(card)
    patch = _power(card, "patch_size", 4)
    if patch > min(space, time):
        card.wrong("patch_size", problem="beyond the compression ratios", fix=f"write at most {min(space, time)}")
    card.choice("patch_type", ("haar", "rearrange"), "haar")
    encoder = card.sizes("encoder_block_out_channels", least=1) or (128, 256, 512, 512)
    decoder = card.sizes("decode_block_out_channels", least=1) or (256, 512, 512, 512)
    for key, widths in (("encoder_block_out_channels", encoder), ("decode_block_out_channels", decoder)):
        if not 3 <= len(widths) <= 8:
            card.wrong(key, problem="not 3 to 8 scales", fix="list the channels of each scale")
        _no_attention(card, side=card.size("resolution", 1024) // patch, scales=len(widths) - 1)
    figures = _Figures(
        space=(space // patch).bit_length() - 1,
        time=(time // patch).bit_length() - 1,
        count=card.size("num_layers", 2, most=64),
        latent=latent,
        values=patch**3,
    )
    inputs, outputs = card.size("in_channels", 3), card.size("out_channels", 3)
    return weights_only(_encoder(figures, encoder, inputs=inputs)) + _decoder(
        figures, decoder, outputs=outputs, clip=clip
    )


def _encoder(figures: _Figures, widths: tuple[int, ...], *, inputs: int) -> Parts:
    parts = filters("encoder.in", _APART, inputs * figures.values, widths[0], rate=1.0)
    for index, (before, width) in enumerate(pairwise(widths)):
        name = f"encoder.{index}"
        parts += residuals(name, _APART, before, width, count=figures.count, rate=1.0)
        if index < len(widths) - 2:
            parts += _resample(f"{name}.down", width, index < figures.space, index < figures.time, rates=(1.0, 1.0))
    parts += _middle("encoder", widths[-1], rate=1.0, clip=Clip(area=1)) + norm("encoder.norm", widths[-1], bias=True)
    return (
        parts
        + filters("encoder.out", _APART, widths[-1], figures.latent, rate=1.0)
        + convolve("encoder.quant", figures.latent, figures.latent, kernel=1, rate=1.0)
    )


def _decoder(figures: _Figures, widths: tuple[int, ...], *, outputs: int, clip: Clip) -> Parts:
    area, frames = clip.area, clip.frames
    parts = convolve("decoder.quant", figures.latent, figures.latent, kernel=1, rate=area)
    parts += filters("decoder.in", _APART, figures.latent, widths[-1], rate=area)
    parts += _middle("decoder", widths[-1], rate=area, clip=clip)
    upward = tuple(reversed(widths))
    for index, (before, width) in enumerate(pairwise(upward)):
        name = f"decoder.{index}"
        parts += residuals(name, _APART, before, width, count=figures.count + 1, rate=area * frames / clip.frames)
        if index < len(widths) - 2:
            longer = 0 < index < figures.time + 1
            larger = longer or (index < figures.space and figures.space > figures.time)
            frames = 2 * frames - 1 if longer else frames
            small, area = area * frames / clip.frames, area * 4 if larger else area
            rates = (small, area * frames / clip.frames)
            parts += _resample(f"{name}.up", width, larger, longer, rates=rates)
    rate = area * frames / clip.frames
    out = outputs * figures.values
    return (
        parts + norm("decoder.norm", widths[0], bias=True) + filters("decoder.out", _APART, widths[0], out, rate=rate)
    )


def _resample(name: str, width: int, space: bool, time: bool, *, rates: tuple[float, float]) -> Parts:
    """Convolutions past a change of scale: over time at the first rate, over space and mixing at the second."""
    parts = Parts()
    if time:
        parts += convolve(f"{name}.time", width, width, kernel=3, rate=rates[0])
    if space:
        parts += convolve(f"{name}.space", width, width, kernel=9, rate=rates[1])
    if time or space:
        parts += convolve(f"{name}.mix", width, width, kernel=1, rate=rates[1])
    return parts


def _middle(half: str, width: int, *, rate: float, clip: Clip) -> Parts:
    """Attention over each frame, then over each place in time."""
    return (
        residual(f"{half}.middle.0", _APART, width, width, rate=rate)
        + attention(f"{half}.attention", width, rate=rate, span=clip.plane, norm_bias=True)
        + attention(f"{half}.attention.time", width, rate=rate, span=clip.frames, norm_bias=True)
        + residual(f"{half}.middle.1", _APART, width, width, rate=rate)
    )


def _no_attention(card: Card, *, side: int, scales: int) -> None:
    """BadInput where a scale would attend, which no released autoencoder's does."""
    asked = card.sizes("attention_resolutions", least=1) or (32,)
    if any(side // 2**scale in asked for scale in range(scales)):
        card.wrong("attention_resolutions", problem="attention outside the middle isn't known", fix="write [32]")


def _power(card: Card, key: str, default: int) -> int:
    value = card.size(key, default, most=64)
    if value & (value - 1):
        card.wrong(key, problem="not a power of two", fix="write 1, 2, 4, 8 or 16")
    return value
