"""Draws a stage graph with boxes and arrows: the door on the left, stages as boxes, edges between stages on the right.

In: boxes and arrows, their words made already. Out: lines of text. Invariant: no line is longer than it needs to be;
a reader can follow each edge from its box to the next.
"""

from collections.abc import Sequence
from dataclasses import dataclass

_UP, _DOWN, _LEFT, _RIGHT = 1, 2, 4, 8
_LINES = {
    _UP: "│", _DOWN: "│", _LEFT: "─", _RIGHT: "─", _UP | _DOWN: "│", _LEFT | _RIGHT: "─", _UP | _LEFT: "┘",
    _DOWN | _LEFT: "┐", _UP | _RIGHT: "└", _DOWN | _RIGHT: "┌", _UP | _DOWN | _LEFT: "┤", _UP | _DOWN | _RIGHT: "├",
    _UP | _LEFT | _RIGHT: "┴", _DOWN | _LEFT | _RIGHT: "┬", _UP | _DOWN | _LEFT | _RIGHT: "┼",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """One stage: its name, and what stands in its box."""

    name: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    """One edge with its words. None stands for the door."""

    source: str | None
    target: str | None
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """A box and the first row of it in the drawing; what comes and goes on either side, row by row."""

    box: Box
    top: int
    left: tuple[Arrow, ...]
    gives: tuple[Arrow, ...]
    takes: bool

    @property
    def height(self) -> int:
        """Rows between the borders."""
        return max(1, len(self.box.lines), len(self.left), len(self.gives) + self.takes)


def draw(boxes: Sequence[Box], arrows: Sequence[Arrow], *, door: str = "door") -> tuple[str, ...]:
    """The lines of the drawing."""
    placed = _placed(boxes, arrows)
    words = max((len(arrow.words) for arrow in arrows if None in (arrow.source, arrow.target)), default=0)
    margin = len(door) + words + 6 if words else 0
    inner = max(max(len(line) for line in (*box.lines, box.name + "    ")) for box in boxes)
    edge = margin + inner + 4
    lanes = _lanes(placed)
    said = max((len(arrow.words) for item in placed for arrow in item.gives), default=0)
    first = edge + said + 3
    canvas = _Canvas(rows=placed[-1].top + placed[-1].height + 2, columns=first + 2 * len(set(lanes.values())) + 1)
    for item in placed:
        _box(canvas, item, column=margin, width=inner + 4)
        for row, arrow in enumerate(item.left, start=item.top + 1):
            canvas.put(row, 0, _to_the_door(arrow, door, width=words))
    for item in placed:
        _give_and_take(canvas, item, placed, edge=edge, lanes={name: first + 2 * lane for name, lane in lanes.items()})
    return canvas.lines()


def _placed(boxes: Sequence[Box], arrows: Sequence[Arrow]) -> tuple[_Rows, ...]:
    placed: list[_Rows] = []
    top = 0
    for box in boxes:
        mine = [arrow for arrow in arrows if box.name in (arrow.source, arrow.target)]
        item = _Rows(
            box=box,
            top=top,
            left=tuple(arrow for arrow in mine if None in (arrow.source, arrow.target)),
            gives=tuple(arrow for arrow in mine if arrow.source == box.name and arrow.target is not None),
            takes=any(arrow.target == box.name and arrow.source is not None for arrow in mine),
        )
        placed.append(item)
        top += item.height + 2
    return tuple(placed)


def _lanes(placed: Sequence[_Rows]) -> dict[str, int]:
    """A column for each box that takes something, such that no two columns' lines lie upon each other."""
    order = {item.box.name: number for number, item in enumerate(placed)}
    spans: dict[str, tuple[int, int]] = {}
    for item in placed:
        for arrow in item.gives:
            target = str(arrow.target)
            ends = (order[item.box.name], order[target], *spans.get(target, (order[target],)))
            spans[target] = (min(ends), max(ends))
    lanes: dict[str, int] = {}
    for target, (low, high) in sorted(spans.items(), key=lambda item: item[1][1] - item[1][0]):
        taken = {lanes[name] for name in lanes if low <= spans[name][1] and spans[name][0] <= high}
        lanes[target] = next(lane for lane in range(len(spans)) if lane not in taken)
    return lanes


def _box(canvas: "_Canvas", item: _Rows, *, column: int, width: int) -> None:
    name = f"─ {item.box.name} "
    canvas.put(item.top, column, "┌" + name + "─" * (width - 2 - len(name)) + "┐")
    for row in range(item.height):
        line = item.box.lines[row] if row < len(item.box.lines) else ""
        canvas.put(item.top + 1 + row, column, f"│ {line.ljust(width - 4)} │")
    canvas.put(item.top + 1 + item.height, column, "└" + "─" * (width - 2) + "┘")


def _to_the_door(arrow: Arrow, door: str, *, width: int) -> str:
    filled = f"─ {arrow.words} ".ljust(width + 3, "─")
    return f"{door} {filled}─▶" if arrow.source is None else f"{door} ◀{filled}─"


def _give_and_take(
    canvas: "_Canvas", item: _Rows, placed: Sequence[_Rows], *, edge: int, lanes: dict[str, int]
) -> None:
    if item.takes:
        column = lanes[item.box.name]
        canvas.put(item.top + 1, edge, "◀")
        canvas.wire(item.top + 1, edge + 1, column)
    for row, arrow in enumerate(item.gives, start=item.top + 1 + item.takes):
        target = next(other for other in placed if other.box.name == arrow.target)
        column = lanes[target.box.name]
        canvas.put(row, edge - 1, "├")
        canvas.put(row, edge, f"─ {arrow.words} ")
        canvas.wire(row, edge + len(arrow.words) + 3, column)
        canvas.climb(column, row, target.top + 1)


class _Canvas:
    """A sheet of characters, and lines that know how they cross."""

    def __init__(self, *, rows: int, columns: int) -> None:
        self._cells = [[" "] * columns for _ in range(rows)]
        self._wires = [[0] * columns for _ in range(rows)]

    def put(self, row: int, column: int, text: str) -> None:
        self._cells[row][column : column + len(text)] = text

    def wire(self, row: int, start: int, end: int) -> None:
        """A line to the right, from `start` to the middle of `end`."""
        for column in range(start, end):
            self._wires[row][column] |= _LEFT | _RIGHT
        self._wires[row][end] |= _LEFT

    def climb(self, column: int, start: int, end: int) -> None:
        """A line between two rows' middles."""
        low, high = min(start, end), max(start, end)
        for row in range(low, high + 1):
            self._wires[row][column] |= (_UP if row > low else 0) | (_DOWN if row < high else 0)

    def lines(self) -> tuple[str, ...]:
        rows = zip(self._cells, self._wires, strict=True)
        return tuple(
            "".join(_LINES[wire] if wire else cell for cell, wire in zip(*row, strict=True)).rstrip() for row in rows
        )
