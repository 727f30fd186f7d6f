"""Draws where an operator fails: its two telling sides as a heat map, and remainders as bars.

In: the marks of an operator, its quirks, its space. Out: SVG to be placed in a page. Invariant: a cell's colour is the
part of its asked points that failed, nothing else; the outline is the learned region, as points drawn there say.
"""

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass
from xml.sax.saxutils import escape

from accord.terms.quirk import Atom, Modulo, Point, Range, Region
from accord.verify.findings import Mark, OperatorFindings, Verdict
from accord.verify.space import Axis, Space

_CELL, _LEFT, _TOP, _FOOT = 24, 64, 12, 44
_DRAWS = 12
_BAR = 11
_BARS_MAX = 64

Cell = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Count:
    asked: int = 0
    failing: int = 0
    drifting: int = 0

    def plus(self, mark: Mark) -> "_Count":
        return _Count(
            asked=self.asked + (mark.verdict in (Verdict.RIGHT, Verdict.FAULT, Verdict.PRECISION)),
            failing=self.failing + (mark.verdict is Verdict.FAULT),
            drifting=self.drifting + (mark.verdict is Verdict.PRECISION),
        )


def heat_map(findings: OperatorFindings) -> str:
    """The map over the two sides that the faults speak of most; with one side, a single row."""
    across, up = _sides(findings)
    columns, rows = _bins(across), _bins(up)
    counts: dict[Cell, _Count] = {}
    for mark in findings.marks:
        cell = _cell(mark.point, across, up)
        counts[cell] = counts.get(cell, _Count()).plus(mark)
    covered = _covered(findings, across, up)
    parts = [_drawn(cell, counts.get(cell, _Count()), rows) for cell in _cells(columns, rows)]
    parts += [_edges(cell, covered, rows) for cell in sorted(covered)]
    parts += _legends(across, up, columns=columns, rows=rows)
    width = _LEFT + columns * _CELL + 12
    height = _TOP + rows * _CELL + _FOOT
    told = f"{findings.space.operator}: failing points by {across.name}" + (f" and {up.name}" if up else "")
    return _svg(width, height, parts, told=told)


def remainder_bars(findings: OperatorFindings) -> tuple[str, ...]:
    """For each remainder that a quirk speaks of: which remainders failed, among points that meet all else."""
    drawn: dict[tuple[tuple[str, ...], int], str] = {}
    for quirk in findings.quirks:
        for case in quirk.region.cases:
            for atom in case:
                if isinstance(atom, Modulo) and atom.modulus <= _BARS_MAX:
                    others = tuple(other for other in case if other is not atom)
                    drawn.setdefault((atom.factors, atom.modulus), _bars(findings.marks, atom, others))
    return tuple(drawn.values())


def _sides(findings: OperatorFindings) -> tuple[Axis, Axis | None]:
    """The sides that the quirks bound, then those that they divide, then the longest ones."""
    axes = [axis for axis in findings.space.axes if axis.high > axis.low or len(axis.values) > 1]
    order = {axis.name: (3, number) for number, axis in enumerate(axes)}
    for quirk in findings.quirks:
        for case in quirk.region.cases:
            for atom in case:
                match atom:
                    case Range(factors=factors) | Modulo(factors=factors):
                        rank = (0 if isinstance(atom, Range) else 1) if len(factors) == 1 else 2
                        order |= {name: min(order[name], (rank, order[name][1])) for name in factors if name in order}
                    case _:
                        continue
    ranked = sorted(axes, key=lambda axis: order[axis.name])
    return (ranked[0], ranked[1] if len(ranked) > 1 else None) if ranked else (findings.space.axes[0], None)


def _bins(axis: Axis | None) -> int:
    if axis is None:
        return 1
    return len(axis.values) or axis.high.bit_length() - axis.low.bit_length() + 1


def _bin(value: int, axis: Axis) -> int:
    """One for each power of two up to the next; permitted values have one each."""
    if axis.values:
        return axis.values.index(axis.nearest(value))
    return axis.nearest(value).bit_length() - axis.low.bit_length()


def _first(axis: Axis, number: int) -> int:
    """The least number of a bin."""
    return (1 << number + axis.low.bit_length()) >> 1


def _cell(point: Point, across: Axis, up: Axis | None) -> Cell:
    first, second = point.fact(across.name) or 0, (point.fact(up.name) or 0) if up else 0
    return _bin(first, across), _bin(second, up) if up else 0


def _cells(columns: int, rows: int) -> list[Cell]:
    return [(column, row) for row in range(rows) for column in range(columns)]


def _covered(findings: OperatorFindings, across: Axis, up: Axis | None) -> set[Cell]:
    """Cells in which the learned region holds for some point: asked ones, and ones drawn around failing ones."""
    regions = [quirk.region for quirk in findings.quirks]
    failing = [mark.point for mark in findings.marks if mark.verdict is Verdict.FAULT]
    rng = random.Random(0)
    drawn: list[Point | None] = [mark.point for mark in findings.marks]
    for cell in _cells(_bins(across), _bins(up)) if failing else ():
        for _ in range(_DRAWS):
            drawn.append(_moved(rng.choice(failing), findings.space, (across, up), cell, rng=rng))
    points = [point for point in drawn if point is not None]
    return {_cell(point, across, up) for point in points if any(region.holds(point) for region in regions)}


def _moved(
    point: Point, space: Space, axes: tuple[Axis, Axis | None], cell: Cell, *, rng: random.Random
) -> Point | None:
    sides = {axis.name: _within(axis, number, rng) for axis, number in zip(axes, cell, strict=True) if axis}
    return space.changed(point, sides)


def _within(axis: Axis, number: int, rng: random.Random) -> int:
    if axis.values:
        return axis.values[number]
    low = _first(axis, number)
    return axis.nearest(rng.randint(low, max(low, 2 * low - 1)))


def _at(cell: Cell, rows: int) -> tuple[int, int]:
    return _LEFT + cell[0] * _CELL, _TOP + (rows - 1 - cell[1]) * _CELL


def _drawn(cell: Cell, count: _Count, rows: int) -> str:
    x, y = _at(cell, rows)
    if not count.asked:
        return f'<rect class="none" x="{x}" y="{y}" width="{_CELL - 1}" height="{_CELL - 1}"/>'
    share = count.failing / count.asked
    told = f"{count.failing} of {count.asked} failed" + (f", {count.drifting} drift" if count.drifting else "")
    # A cell with a single failing point among many must still be seen.
    heat = 0 if not count.failing else 25 + round(75 * share)
    dot = f'<circle class="drift" cx="{x + _CELL - 6}" cy="{y + 6}" r="2.5"/>' if count.drifting else ""
    fill = f"color-mix(in oklab, var(--bad) {heat}%, var(--good))"
    body = f'<rect x="{x}" y="{y}" width="{_CELL - 1}" height="{_CELL - 1}" style="fill:{fill}"/>'
    return f"<g><title>{escape(told)}</title>{body}{dot}</g>"


def _edges(cell: Cell, covered: set[Cell], rows: int) -> str:
    """The sides of a covered cell at which the region ends."""
    x, y = _at(cell, rows)
    right, below = x + _CELL - 0.5, y + _CELL - 0.5
    column, row = cell
    lines = {
        (column - 1, row): (x - 0.5, y - 0.5, x - 0.5, below),
        (column + 1, row): (right, y - 0.5, right, below),
        (column, row + 1): (x - 0.5, y - 0.5, right, y - 0.5),
        (column, row - 1): (x - 0.5, below, right, below),
    }
    ends = [line for beside, line in lines.items() if beside not in covered]
    return "".join(f'<line class="edge" x1="{a:g}" y1="{b:g}" x2="{c:g}" y2="{d:g}"/>' for a, b, c, d in ends)


def _legends(across: Axis, up: Axis | None, *, columns: int, rows: int) -> list[str]:
    floor = _TOP + rows * _CELL
    parts = [
        _label(_LEFT + number * _CELL + _CELL / 2, floor + 14, _tick(across, number), anchor="middle")
        for number in range(columns)
        if number % 2 == 0 or across.values
    ]
    parts.append(_label(_LEFT + columns * _CELL / 2, floor + 34, across.name, anchor="middle", kind="side"))
    if up is not None:
        parts += [
            _label(_LEFT - 8, _at((0, number), rows)[1] + 16, _tick(up, number), anchor="end") for number in range(rows)
        ]
        parts.append(_label(14, _TOP + rows * _CELL / 2, up.name, anchor="middle", kind="side"))
    return parts


def _tick(axis: Axis, number: int) -> str:
    value = axis.values[number] if axis.values else _first(axis, number)
    return f"{value >> 10}k" if value >= 1024 and value % 1024 == 0 else str(value)


def _bars(marks: Iterable[Mark], atom: Modulo, others: tuple[Atom, ...]) -> str:
    """One bar for each remainder: its height is the part that failed of the points that meet all other conditions."""
    beside = Region(cases=(others,))
    counts = [_Count()] * atom.modulus
    for mark in marks:
        if beside.holds(mark.point):
            rest = math.prod(mark.point.fact(name) or 0 for name in atom.factors) % atom.modulus
            counts[rest] = counts[rest].plus(mark)
    name, high = "*".join(atom.factors), 60
    parts = [_label(_LEFT - 8, 18, "all fail", anchor="end"), _label(_LEFT - 8, high + 4, "none", anchor="end")]
    for rest, count in enumerate(counts):
        x = _LEFT + rest * _BAR
        share = count.failing / count.asked if count.asked else 0.0
        told = f"{name} % {atom.modulus} == {rest}: {count.failing} of {count.asked} failed"
        kind = "none" if not count.asked else "bad" if count.failing else "good"
        tall = max(3, round((high - 10) * share))
        body = f'<rect class="{kind}" x="{x}" y="{high - tall}" width="{_BAR - 1}" height="{tall}"/>'
        parts.append(f"<g><title>{escape(told)}</title>{body}</g>")
        if rest % (8 if atom.modulus > 16 else 2) == 0:
            parts.append(_label(x + _BAR / 2, high + 14, str(rest), anchor="middle"))
    parts.append(_label(_LEFT, high + 32, f"{name} % {atom.modulus}", kind="side"))
    told = f"Which remainders of {name} by {atom.modulus} fail"
    return _svg(_LEFT + atom.modulus * _BAR + 24, high + 40, parts, told=told)


def _label(x: float, y: float, words: str, *, anchor: str = "start", kind: str = "tick") -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(words)}</text>'


def _svg(width: float, height: float, parts: Iterable[str], *, told: str) -> str:
    return (
        f'<svg width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}" role="img">'
        f"<title>{escape(told)}</title>{''.join(parts)}</svg>"
    )
