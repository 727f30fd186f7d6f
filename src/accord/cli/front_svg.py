"""Draws what more money buys: the plans that no other beats, as one SVG file.

In: `FrontPoint`s, the plan that was chosen, the intent. Out: the text of an SVG. Invariant: every point stands where
its figures say, and is listed with its words; between two points the cheaper plan holds, so the line is a staircase.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from accord.cli.svg import COLOURS, box, file, text, wide
from accord.terms import units
from accord.terms.account import FrontPoint
from accord.terms.intent import Intent

_WIDTH, _MARGIN = 960, 28
_LEFT, _PLOT_HEIGHT, _PANEL_HEIGHT, _LINE, _GAP = 74, 220, 296, 18, 14
_DOT, _DOT_CHOSEN = COLOURS[0], COLOURS[1]
_TICKS = 5
_RATE = "workload.rate_rps"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Axis:
    """Figures from `low` to `high` on places from `start` to `end`, with round figures as `ticks`."""

    low: float
    high: float
    start: float
    end: float
    ticks: tuple[float, ...]

    def at(self, value: float) -> float:
        part = (value - self.low) / (self.high - self.low)
        return round(self.start + part * (self.end - self.start), 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Where the plan that was chosen stands, for one field of the front."""

    field: str
    value: float
    cost: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Front:
    """The points of one field by their cost, and where the plan that was chosen stands among them."""

    field: str
    points: tuple[FrontPoint, ...]
    chosen: Chosen | None

    @property
    def priced(self) -> bool:
        """Whether costs are dollars an hour; else devices."""
        return all(point.cost_usd_per_hour is not None for point in self.points)


def front_svg(points: Sequence[FrontPoint], *, intent: Intent, title: str, chosen: Sequence[Chosen]) -> str:
    """One panel for each field that the points are about, two side by side; then the list of each one's plans."""
    y: float = _MARGIN + 62
    parts = [
        text(_MARGIN, _MARGIN + 18, f"What more money buys: {intent.name}", size=22, kind="strong"),
        text(_MARGIN, _MARGIN + 40, title, size=13, kind="soft"),
    ]
    fronts = _fronts(points, chosen)
    across = _WIDTH - 2 * _MARGIN
    width = across if len(fronts) == 1 else (across - _GAP) / 2
    for place, front in enumerate(fronts):
        x, row = _MARGIN + (place % 2) * (width + _GAP), place // 2
        panel = "".join(_panel(front, intent=intent, across=width))
        parts.append(f'<g transform="translate({x:g},{y + row * (_PANEL_HEIGHT + _GAP):g})">{panel}</g>')
    y += math.ceil(len(fronts) / 2) * (_PANEL_HEIGHT + _GAP)
    for front in fronts:
        listed, height = _list(front)
        parts.append(f'<g transform="translate({_MARGIN},{y:g})">{"".join(listed)}</g>')
        y += height + 16
    return file(_WIDTH, y + _MARGIN - 16, parts, title=f"What more money buys: {intent.name}")


def _fronts(points: Sequence[FrontPoint], chosen: Sequence[Chosen]) -> list[_Front]:
    fronts = []
    for field, group in itertools.groupby(points, key=lambda point: point.field):
        mine = next((one for one in chosen if one.field == field), None)
        its = list(group)
        # Fronts are searched at some rates and bounds; the plan itself may lie on the line between them.
        if mine is not None and not any(_same(mine, point) or _beats(point, mine) for point in its):
            its.append(_as_point(mine, priced=its[0].cost_usd_per_hour is not None))
        fronts.append(_Front(field=field, points=tuple(sorted(its, key=_cost)), chosen=mine))
    return fronts


def _beats(point: FrontPoint, chosen: Chosen) -> bool:
    better = point.value >= chosen.value if point.field == _RATE else point.value <= chosen.value
    return better and _cost(point) <= chosen.cost * (1 + 1e-9)


def _as_point(chosen: Chosen, *, priced: bool) -> FrontPoint:
    cost = chosen.cost if priced else None
    return FrontPoint(
        field=chosen.field, value=chosen.value, cost_usd_per_hour=cost, devices=chosen.cost, words="the plan itself"
    )


def _cost(point: FrontPoint) -> float:
    """Dollars an hour; devices where the price isn't known."""
    return point.devices if point.cost_usd_per_hour is None else point.cost_usd_per_hour


def _panel(front: _Front, *, intent: Intent, across: float) -> list[str]:
    field, points, chosen = front.field, front.points, front.chosen
    unit = "dollars an hour" if front.priced else "devices"
    bound, budget = _bound(intent, field), intent.budget.cost_usd_per_hour_max if front.priced else None
    costs = [*map(_cost, points), *([budget] if budget is not None else [])]
    values = [*(point.value for point in points), *([bound] if bound is not None else [])]
    x = _axis(costs, start=_LEFT, end=across - 20)
    y = _axis(values, start=_PLOT_HEIGHT + 34, end=34.0)
    parts = [
        box(0, 0, across, _PANEL_HEIGHT, fill="--rack", radius=10),
        text(16, 22, _field_words(field), size=13, kind="strong"),
        text(across - 16, _PLOT_HEIGHT + 66, unit, size=12, kind="soft", end=True),
        *_grid(x, y, field),
        *_bounds(x, y, bound=bound, budget=budget, field=field),
        *_staircase(points, x, y),
    ]
    if chosen is not None:
        place = f'cx="{x.at(chosen.cost):g}" cy="{y.at(chosen.value):g}"'
        parts.append(f'<circle {place} r="11" fill="none" stroke="var(--ink)" stroke-width="2"/>')
    for number, point in enumerate(points, 1):
        parts += _dot(number, x.at(_cost(point)), y.at(point.value), here=_same(chosen, point))
    return parts


def _axis(values: Sequence[float], *, start: float, end: float) -> _Axis:
    """From 0 where the figures reach down to it, with room above."""
    least, most = min(values), max(values)
    low = 0.0 if least < 0.6 * most else least - 0.3 * ((most - least) or most or 1.0)
    step = _round_step(((most - low) or 1.0) / _TICKS)
    first, last = math.floor(low / step), math.ceil(most * 1.02 / step)
    ticks = tuple(number * step for number in range(max(0, first), last + 1))
    return _Axis(low=ticks[0], high=ticks[-1], start=start, end=end, ticks=ticks)


def _round_step(step: float) -> float:
    """The next of 1, 2, 2.5 and 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= step * (1 - 1e-9))


def _grid(x: _Axis, y: _Axis, field: str) -> list[str]:
    parts = []
    for tick in y.ticks:
        parts.append(_line(x.start, y.at(tick), x.end, y.at(tick)))
        parts.append(text(_LEFT - 8, y.at(tick) + 4, _value_words(field, tick), size=11, kind="soft", end=True))
    for tick in x.ticks:
        parts.append(_line(x.at(tick), y.start, x.at(tick), y.start + 5))
        parts.append(text(x.at(tick), y.start + 20, f"{tick:,.6g}", size=11, kind="soft", middle=True))
    return parts


def _bounds(x: _Axis, y: _Axis, *, bound: float | None, budget: float | None, field: str) -> list[str]:
    """What the intent asks for, as broken lines."""
    parts = []
    if bound is not None:
        words = f"asked for: {_value_words(field, bound)}"
        parts.append(_line(x.start, y.at(bound), x.end, y.at(bound), broken=True))
        parts.append(text(x.end, y.at(bound) - 5, words, size=11, kind="soft", end=True))
    if budget is not None:
        parts.append(_line(x.at(budget), y.start, x.at(budget), y.end, broken=True))
        parts.append(text(x.at(budget) - 6, y.end + 10, f"budget: ${budget:,.6g}", size=11, kind="soft", end=True))
    return parts


def _line(x1: float, y1: float, x2: float, y2: float, *, broken: bool = False) -> str:
    look = 'stroke="var(--soft)" stroke-dasharray="5 4"' if broken else 'stroke="var(--line)"'
    return f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" {look}/>'


def _staircase(points: Sequence[FrontPoint], x: _Axis, y: _Axis) -> list[str]:
    path, before = "", 0.0
    for point in points:
        across, up = x.at(_cost(point)), y.at(point.value)
        path += f"M{across:g} {up:g}" if not path else f"L{across:g} {before:g}L{across:g} {up:g}"
        before = up
    path += f"L{x.end:g} {before:g}"
    return [f'<path d="{path}" fill="none" stroke="var(--soft)" stroke-width="1.5"/>']


def _dot(number: int, x: float, y: float, *, here: bool) -> list[str]:
    return [
        f'<circle cx="{x:g}" cy="{y:g}" r="8" fill="{_DOT_CHOSEN if here else _DOT}"/>',
        f'<text x="{x:g}" y="{y + 3.5:g}" font-size="9.5" text-anchor="middle" class="on">{number}</text>',
    ]


def _list(front: _Front) -> tuple[list[str], float]:
    """Each point in words, in a row of its own; what is too long for one goes on below."""
    room = _WIDTH - 2 * _MARGIN - 250
    parts, y = [text(0, 14, _field_words(front.field), size=13, kind="strong")], 38.0
    for number, point in enumerate(front.points, 1):
        cost = f"${_cost(point):,.4g}/h" if front.priced else f"{_cost(point):g} devices"
        here = _same(front.chosen, point)
        parts += _dot(number, 16, y - 4, here=here)
        parts.append(text(104, y, cost, size=12, end=True))
        parts.append(text(196, y, _value_words(front.field, point.value), size=12, end=True))
        for line in _broken(point.words + (" (chosen)" if here else ""), room):
            parts.append(text(216, y, line, size=12, kind="strong" if here else "soft"))
            y += _LINE
    return parts, y - 8


def _same(chosen: Chosen | None, point: FrontPoint) -> bool:
    if chosen is None or not math.isclose(chosen.cost, _cost(point), rel_tol=1e-6):
        return False
    return math.isclose(chosen.value, point.value, rel_tol=1e-3)


def _broken(words: str, room: float) -> list[str]:
    lines = [""]
    for word in words.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and wide(longer, 12) > room:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def _bound(intent: Intent, field: str) -> float | None:
    if field == _RATE:
        return intent.workload.rate_rps
    for item in intent.objectives:
        if field == f"objectives.{item.metric}_{units.format_percentile(item.percentile)}":
            return item.bound
    return None


def _field_words(field: str) -> str:
    """ "ttft p99": an objective; or the rate."""
    return "requests a second" if field == _RATE else field.removeprefix("objectives.").replace("_p", " p")


def _value_words(field: str, value: float) -> str:
    if field == _RATE:
        return f"{value:,.4g} req/s"
    return f"{value:.3g}" if field.startswith("objectives.rtf") else units.format_duration_s(value, digits=3)
