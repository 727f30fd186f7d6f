"""Shapes ordered by size, with the time of each way -> classes of shapes, each with its fastest way.

In: a table of ratios. Out: `Class`es in order. Invariant: the way of a class is right on all its points; points that no
way serves are in no class.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from accord.verify.attempts import Attempt

CLASSES_MAX = 4
GAIN = 0.05  # a further class must save this part of the time of all, or it is noise
_UNSERVED = 50.0  # the cost of a point without a way: more than any way's


@dataclass(frozen=True, slots=True, kw_only=True)
class Class:
    """Points `start` up to but not `stop`. `ratio`: the geometric mean of its way's time over the native one."""

    start: int
    stop: int
    attempt: Attempt
    ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    start: int
    stop: int
    attempt: Attempt | None
    cost: float


def classes(ratios: Mapping[Attempt, Sequence[float | None]], points: int) -> tuple[Class, ...]:
    """The cheapest division into a few classes; a single one unless more are worth it."""
    if not points:
        return ()
    pieces = {(a, b): _piece(ratios, a, b) for a, b in itertools.combinations(range(points + 1), 2)}
    nothing: list[_Piece] = []
    best = [(0.0, nothing)] + [(math.inf, nothing)] * points
    found: list[tuple[float, list[_Piece]]] = []
    for count in range(1, CLASSES_MAX + 1):
        best = [_extended(best, pieces, stop) for stop in range(points + 1)]
        cost, division = best[points]
        found.append((cost + count * points * math.log1p(GAIN), division))
    _, division = min(found, key=lambda item: item[0])
    return tuple(
        Class(
            start=piece.start,
            stop=piece.stop,
            attempt=piece.attempt,
            ratio=math.exp(piece.cost / (piece.stop - piece.start)),
        )
        for piece in division
        if piece.attempt is not None
    )


def _extended(
    best: Sequence[tuple[float, list[_Piece]]], pieces: Mapping[tuple[int, int], _Piece], stop: int
) -> tuple[float, list[_Piece]]:
    """The cheapest division of the first `stop` points with one piece more."""
    options = [
        (best[start][0] + pieces[start, stop].cost, [*best[start][1], pieces[start, stop]])
        for start in range(stop)
        if best[start][0] < math.inf
    ]
    return min(options, key=lambda item: item[0], default=(math.inf, []))


def _piece(ratios: Mapping[Attempt, Sequence[float | None]], start: int, stop: int) -> _Piece:
    """The fastest way that is right on all of these points."""
    attempt, cost = None, _UNSERVED * (stop - start)
    for tried, row in ratios.items():
        part = row[start:stop]
        if all(part):
            sum_log = sum(math.log(ratio) for ratio in part if ratio)
            if sum_log < cost:
                attempt, cost = tried, sum_log
    return _Piece(start=start, stop=stop, attempt=attempt, cost=cost)
