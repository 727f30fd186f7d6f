"""Blocks of variational autoencoders: convolutions over pictures and clips.

In: channels, and how many output positions there are for each unit. Out: `Parts`. Invariant: the unit is the
denoiser's position, so that a stage's latent flows on unchanged; what isn't run (rate 0) has weights only.
"""

from dataclasses import dataclass, replace

from accord.models.parts.parts import NOTHING, Parts, convolution, linear, norm
from accord.terms.work import Attention, Reach


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How one autoencoder convolves: `kernel` over all dimensions, then `then` over time alone."""

    kernel: int
    then: int = 0
    norm_bias: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """What is decoded: `area` latent positions for each of the denoiser's, in `frames` frames of the latent.

    `plane` is how many latent positions a frame has; None for a picture, whose positions all are of one frame.
    """

    area: float
    frames: int = 1
    plane: int | None = None


def weights_only(parts: Parts) -> Parts:
    """What is loaded, but not run."""
    return Parts(tensors=tuple(replace(tensor, idle=True) for tensor in parts.tensors))


def convolve(name: str, inputs: int, outputs: int, *, kernel: int, rate: float) -> Parts:
    """One convolution with its offset."""
    made = convolution(name, inputs, outputs, kernel=kernel, rate=rate)
    return made if rate else weights_only(made)


def filters(name: str, style: Style, inputs: int, outputs: int, *, rate: float) -> Parts:
    """A convolution of the autoencoder's style."""
    made = convolve(name, inputs, outputs, kernel=style.kernel, rate=rate)
    return made + convolve(f"{name}.time", outputs, outputs, kernel=style.then, rate=rate) if style.then else made


def residual(name: str, style: Style, inputs: int, outputs: int, *, rate: float) -> Parts:
    """Two convolutions, and a third past them where the channels change."""
    made = (
        norm(f"{name}.norm1", inputs, bias=style.norm_bias)
        + filters(f"{name}.1", style, inputs, outputs, rate=rate)
        + norm(f"{name}.norm2", outputs, bias=style.norm_bias)
        + filters(f"{name}.2", style, outputs, outputs, rate=rate)
    )
    if inputs != outputs:
        made += convolve(f"{name}.shortcut", inputs, outputs, kernel=1, rate=rate)
    return made


def residuals(name: str, style: Style, inputs: int, outputs: int, *, count: int, rate: float) -> Parts:
    """A row of them."""
    made = NOTHING
    for index in range(count):
        made += residual(f"{name}.{index}", style, inputs if index == 0 else outputs, outputs, rate=rate)
    return made


def attention(name: str, channels: int, *, rate: float, span: int | None, norm_bias: bool) -> Parts:
    """One head over the `span` positions of a frame, or of a place in time; over all where it is None."""
    scores = Attention(
        name=name,
        layers=(0,),
        heads=1,
        key_heads=1,
        key_dim=channels,
        value_dim=channels,
        reach=Reach.BLOCK,
        span=span,
        rate=rate,
    )
    made = norm(f"{name}.norm", channels, bias=norm_bias)
    for side in ("q", "k", "v"):
        made += linear(f"{name}.{side}", channels, channels, bias=True, rate=rate, quantizable=False)
    made += Parts(operators=(scores,))
    return made + linear(f"{name}.o", channels, channels, bias=True, rate=rate, quantizable=False)
