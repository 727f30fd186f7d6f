"""The causal autoencoder of Wan (arXiv 2503.20314), which Qwen-Image shares.

In: a `vae` mapping, a `Clip`. Out: both halves' weights and the decoder's work. Invariant: the first frame of a latent
becomes one frame, each later one as many as time is compressed by, so that rates hold for clips of this many frames.
"""

from dataclasses import dataclass

from accord.models.card import Card
from accord.models.parts.parts import Parts, norm
from accord.models.parts.vae import Clip, Style, attention, convolve, filters, residual, residuals, weights_only

_CAUSAL = Style(kernel=27, norm_bias=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Figures:
    """`factors` are the widths of each scale, in units of the base width; `slower` says where time is compressed."""

    latent: int
    factors: tuple[int, ...]
    slower: tuple[bool, ...]
    count: int
    residual: bool


def wan_compression(card: Card) -> tuple[int, int, int]:
    """Channels, pixels a side, frames."""
    slower = _slower(card)
    return card.size("z_dim", 16), 2 ** len(slower) * card.size("patch_size", 1, most=16), 2 ** sum(slower)


def wan_decoder(card: Card, clip: Clip) -> Parts:
    """All weights, and the work of decoding."""
    slower = _slower(card)
    figures = _Figures(
        latent=card.size("z_dim", 16),
        factors=card.sizes("dim_mult", least=1, most=64, count=len(slower) + 1) or (1, 2, 4, 4),
        slower=slower,
        count=card.size("num_res_blocks", 2, most=64),
        residual=card.flag("is_residual", False),
    )
    card.skip("dropout", "patch_size", "scale_factor_temporal", "scale_factor_spatial", "clip_output")
    if card.raw("attn_scales") not in (None, []):
        card.wrong("attn_scales", problem="attention outside the middle isn't known", fix="write []")
    base = card.size("base_dim", 96)
    inputs = card.size("in_channels", card.size("input_channels", 3))
    outputs = card.size("out_channels", card.size("input_channels", 3))
    return weights_only(_encoder(figures, base, inputs=inputs)) + _decoder(
        figures, card.size("decoder_base_dim", base), outputs=outputs, clip=clip
    )


def _encoder(figures: _Figures, base: int, *, inputs: int) -> Parts:
    before = base
    parts = filters("encoder.in", _CAUSAL, inputs, before, rate=1.0)
    for index, factor in enumerate(figures.factors):
        name, width = f"encoder.{index}", factor * base
        parts += residuals(name, _CAUSAL, before, width, count=figures.count, rate=1.0)
        if index < len(figures.slower):
            parts += convolve(f"{name}.down", width, width, kernel=9, rate=1.0)
            if figures.slower[index]:
                parts += convolve(f"{name}.down.time", width, width, kernel=3, rate=1.0)
        before = width
    parts += _middle("encoder", before, rate=1.0, span=None) + norm("encoder.norm", before)
    both = 2 * figures.latent
    return (
        parts
        + filters("encoder.out", _CAUSAL, before, both, rate=1.0)
        + convolve("encoder.quant", both, both, kernel=1, rate=1.0)
    )


def _decoder(figures: _Figures, base: int, *, outputs: int, clip: Clip) -> Parts:
    area, level, before = clip.area, 0, figures.factors[-1] * base
    parts = convolve("decoder.quant", figures.latent, figures.latent, kernel=1, rate=area)
    parts += filters("decoder.in", _CAUSAL, figures.latent, before, rate=area)
    parts += _middle("decoder", before, rate=area, span=clip.plane)
    for index, factor in enumerate(reversed(figures.factors)):
        name, width = f"decoder.{index}", factor * base
        rate = area * _frames(clip, level) / clip.frames
        parts += residuals(name, _CAUSAL, before, width, count=figures.count + 1, rate=rate)
        before = width
        if index < len(figures.slower):
            if figures.slower[-1 - index]:
                later = area * (_frames(clip, level) - 1) / clip.frames
                parts += convolve(f"{name}.up.time", width, 2 * width, kernel=3, rate=later)
                level += 1
            area *= 4
            before = width if figures.residual else width // 2
            parts += convolve(f"{name}.up", width, before, kernel=9, rate=area * _frames(clip, level) / clip.frames)
    rate = area * _frames(clip, level) / clip.frames
    return parts + norm("decoder.norm", before) + filters("decoder.out", _CAUSAL, before, outputs, rate=rate)


def _middle(half: str, width: int, *, rate: float, span: int | None) -> Parts:
    return (
        residual(f"{half}.middle.0", _CAUSAL, width, width, rate=rate)
        + attention(f"{half}.attention", width, rate=rate, span=span, norm_bias=False)
        + residual(f"{half}.middle.1", _CAUSAL, width, width, rate=rate)
    )


def _frames(clip: Clip, level: int) -> int:
    """Frames after `level` doublings of time."""
    return 1 + ((clip.frames - 1) << level)


def _slower(card: Card) -> tuple[bool, ...]:
    value = card.raw("temperal_downsample")  # diffusers' spelling
    if value is None:
        return (False, True, True)
    if not isinstance(value, list | tuple) or len(value) > 8 or not all(isinstance(item, bool) for item in value):
        card.wrong("temperal_downsample", problem="not a list of at most 8 true or false", fix="write one a scale")
    return tuple(item is True for item in value)
