"""Draws how two engines drift: the error of each layer, and the divergence of every position, as one SVG file.

In: a `Drift`. Out: the text of an SVG. Invariant: both axes of errors are logarithmic and say their figures; a broken
position (infinite divergence) stands at the top, in the colour of faults.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from accord.cli.svg import COLOURS, file, text
from accord.verify.drift import Drift

_WIDTH, _HEIGHT, _MARGIN = 960, 420, 28
_PANEL, _TOP, _BOTTOM = 400, 110, 360
_DOTS_MAX = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scale:
    """Powers of ten from `low` to `high` on the height of a panel."""

    low: int
    high: int

    def at(self, value: float) -> float:
        power = self.high if not math.isfinite(value) else math.log10(max(value, 10.0**self.low))
        part = (min(power, self.high) - self.low) / (self.high - self.low)
        return round(_BOTTOM - part * (_BOTTOM - _TOP), 1)


def drift_svg(found: Drift, *, model: str) -> str:
    """Two panels under a title."""
    parts = [
        text(_MARGIN, 42, f"{found.b} against {found.a}: {model}", size=20, kind="strong"),
        text(_MARGIN, 66, _summary(found), size=13, kind="soft"),
        *_layers(found, x=_MARGIN + 44),
        *_positions(found, x=_MARGIN + 44 + _PANEL + 76),
    ]
    return file(_WIDTH, _HEIGHT, parts, title=f"Drift of {found.b} from {found.a}")


def _summary(found: Drift) -> str:
    first = "no layer diverges" if found.first_divergent is None else f"{found.first_divergent} diverges first"
    return (
        f"{found.positions} positions · top-1 {found.top1:.1%} · KL median {found.kl_median:.2g}, "
        f"p99.9 {found.kl_p999:.2g} nats · {first}"
    )


def _layers(found: Drift, *, x: float) -> list[str]:
    """Lines of the median and the largest error; a mark on the first divergent layer."""
    scale = _scale([value for layer in found.layers for value in (layer.median, layer.largest)])
    step = _PANEL / max(1, len(found.layers) - 1)
    parts = [text(x, _TOP - 16, "error of each layer, relative to its length", size=13), *_grid(scale, x)]
    for name, colour, values in (
        ("largest", COLOURS[1], [layer.largest for layer in found.layers]),
        ("median", COLOURS[0], [layer.median for layer in found.layers]),
    ):
        places = " ".join(f"{x + step * number:.1f},{scale.at(value):g}" for number, value in enumerate(values))
        parts.append(f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(text(x + _PANEL, scale.at(values[-1]) - 6, name, size=12, end=True))
    for number, layer in enumerate(found.layers):
        if layer.name == found.first_divergent:
            at = x + step * number
            parts.append(f'<line x1="{at:.1f}" y1="{_TOP}" x2="{at:.1f}" y2="{_BOTTOM}" stroke="{COLOURS[1]}"/>')
            parts.append(text(at, _BOTTOM + 36, f"{layer.name} diverges", size=12, middle=True))
    parts.append(text(x, _BOTTOM + 18, "first layer", size=12, kind="soft"))
    parts.append(text(x + _PANEL, _BOTTOM + 18, "last layer", size=12, kind="soft", end=True))
    return parts


def _positions(found: Drift, *, x: float) -> list[str]:
    """All positions in the order of their divergence, so that the tail can be seen."""
    ordered = sorted(found.kl)
    scale = _scale(ordered)
    every = max(1, len(ordered) // _DOTS_MAX)
    shown = [
        (number, value) for number, value in enumerate(ordered) if number % every == 0 or number > len(ordered) - 50
    ]
    parts = [text(x, _TOP - 16, "KL divergence of each position, in nats", size=13), *_grid(scale, x)]
    for number, value in shown:
        at = x + _PANEL * number / max(1, len(ordered) - 1)
        colour = COLOURS[0] if math.isfinite(value) else COLOURS[1]
        parts.append(f'<circle cx="{at:.1f}" cy="{scale.at(value):g}" r="2" fill="{colour}"/>')
    parts.append(text(x, _BOTTOM + 18, "least", size=12, kind="soft"))
    parts.append(text(x + _PANEL, _BOTTOM + 18, f"most of {len(ordered)}", size=12, kind="soft", end=True))
    return parts


def _scale(values: Sequence[float]) -> _Scale:
    finite = [value for value in values if math.isfinite(value) and value > 0]
    low = math.floor(math.log10(min(finite, default=1e-6)))
    high = math.ceil(math.log10(max(finite, default=1.0)))
    return _Scale(low=max(low, high - 12), high=max(high, low + 1))


def _grid(scale: _Scale, x: float) -> list[str]:
    parts = []
    for power in range(scale.low, scale.high + 1):
        y = scale.at(10.0**power)
        parts.append(f'<line x1="{x:g}" y1="{y:g}" x2="{x + _PANEL:g}" y2="{y:g}" stroke="var(--line)"/>')
        parts.append(text(x - 8, y + 4, f"1e{power}", size=11, kind="soft", end=True))
    return parts
