"""Conformers with chunked attention (Universal Speech Model, arXiv 2303.01037), as Gemma hears.

In: figures of an encoder, already checked. Out: `Parts`, whose unit is one mel frame. Invariant: two convolutions of
stride 2 leave a quarter of the frames, at which pace everything after them runs.
"""

from dataclasses import dataclass

from accord.models.parts.pace import paced
from accord.models.parts.parts import NOTHING, Layers, Parts, convolution, linear, norm, vector
from accord.terms.work import Attention, Per, Reach

NAME = "audio"
PACE = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Conformer:
    """`chunk` positions at a time attend to themselves, `left` before and `right` after; `reach` positions have keys.

    `bins` are mel bins; `channels` those of the two convolutions; `kernel` that of the convolution in each layer.
    """

    layers: Layers
    hidden: int
    heads: int
    chunk: int
    left: int
    right: int
    kernel: int
    channels: tuple[int, int]
    bins: int

    @property
    def head_dim(self) -> int:
        """Size of one head."""
        return self.hidden // self.heads

    @property
    def pitches(self) -> tuple[int, int]:
        """Bins that each convolution leaves."""
        first = (self.bins + 1) // 2
        return first, (first + 1) // 2


def conformer(figures: Conformer) -> Parts:
    """Convolutions, a projection, and all layers."""
    return _front(figures) + paced(_layers(figures), PACE) + _distances(figures)


def _front(figures: Conformer) -> Parts:
    first, second = figures.channels
    high, low = figures.pitches
    return (
        convolution(f"{NAME}.conv1", 1, first, kernel=9, rate=high / 2, bias=False)
        + norm(f"{NAME}.conv1.norm", first)
        + convolution(f"{NAME}.conv2", first, second, kernel=9, rate=low / 4, bias=False)
        + norm(f"{NAME}.conv2.norm", second)
        + linear(f"{NAME}.conv_out", second * low, figures.hidden, rate=PACE, quantizable=False)
    )


def _layers(figures: Conformer) -> Parts:
    hidden, layers = figures.hidden, figures.layers
    made = NOTHING
    for name in ("mlp1", "mlp2"):
        made += norm(f"{NAME}.{name}.norm_before", hidden, layers) + norm(f"{NAME}.{name}.norm_after", hidden, layers)
        made += linear(f"{NAME}.{name}.up", hidden, 4 * hidden, layers, quantizable=False)
        made += linear(f"{NAME}.{name}.down", 4 * hidden, hidden, layers, quantizable=False)
    for side in ("q", "k", "v", "o"):
        made += linear(f"{NAME}.attention.{side}", hidden, hidden, layers, quantizable=False)
    made += vector(f"{NAME}.attention.scale", figures.head_dim, layers)
    for name in ("attention.norm_before", "attention.norm_after", "conv.norm_before", "conv.norm_after", "norm"):
        made += norm(f"{NAME}.{name}", hidden, layers)
    made += linear(f"{NAME}.conv.in", hidden, 2 * hidden, layers, quantizable=False)
    made += convolution(
        f"{NAME}.conv", hidden, hidden, layers, kernel=figures.kernel, rate=1.0, groups=hidden, bias=False
    )
    made += linear(f"{NAME}.conv.out", hidden, hidden, layers, quantizable=False)
    seen = figures.chunk + figures.left + figures.right
    return made + Parts(
        operators=(
            _scores(figures, name="attention", span=seen, value_dim=figures.head_dim),
            _scores(figures, name="attention.distance", span=figures.left + figures.right + 1, value_dim=0),
        )
    )


def _scores(figures: Conformer, *, name: str, span: int, value_dim: int) -> Attention:
    """Each query meets `span` keys, masked or not: chunks are computed as rectangles."""
    return Attention(
        name=f"{NAME}.{name}",
        layers=figures.layers,
        heads=figures.heads,
        key_heads=figures.heads,
        key_dim=figures.head_dim,
        value_dim=value_dim,
        reach=Reach.CROSS,
        span=span,
    )


def _distances(figures: Conformer) -> Parts:
    """Keys of all distances, once a step."""
    return linear(
        f"{NAME}.attention.distances",
        figures.hidden,
        figures.hidden,
        figures.layers,
        per=Per.SEQUENCE,
        rate=float(figures.left + figures.right + 1),
        quantizable=False,
    )
