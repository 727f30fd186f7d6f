"""A quirk and a trial of ways round it -> the fastest right way for each class of shapes.

In: a quirk, points inside its region, a `Trial`, a deadline. Out: `Workaround`s. Invariant: a way is offered for a
class only if it was right on every point of it that was tried, fresh ones included; what no way serves gets none.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from accord.terms.quirk import Is, Point, Quirk, Range, Region, Workaround
from accord.verify.attempts import Attempt
from accord.verify.classes import Class, classes

_ROUNDS_MAX = 8  # fresh points may strike a way out so often

Fresh = Callable[[Region], Sequence[Point]]


class Trial(Protocol):
    """Tries ways on a device."""

    def right(self, point: Point, attempt: Attempt) -> bool | None:
        """Whether the device computes the point rightly this way; None if there is no such way for it."""
        ...

    def seconds(self, point: Point, attempt: Attempt | None) -> float | None:
        """How long one call takes this way, or natively; None if it can't be timed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """How to search. `factors`: the sides whose product is a call's size. `fresh`: new points inside a region.

    `deadly`: native calls end or stop the device, so they aren't timed.
    """

    attempts: tuple[Attempt, ...]
    factors: tuple[str, ...]
    fresh: Fresh
    deadline_s: float
    now_s: Callable[[], float] = time.monotonic
    deadly: bool = False

    @property
    def late(self) -> bool:
        """Whether the deadline has passed."""
        return self.now_s() >= self.deadline_s

    def size(self, point: Point) -> int:
        """What points are ordered by."""
        return math.prod(point.fact(name) or 1 for name in self.factors)


def mend(quirk: Quirk, points: Iterable[Point], trial: Trial, search: Search) -> tuple[Workaround, ...]:
    """The workarounds, small shapes first, for each dtype on its own where the region has several.

    When the deadline passes, what has been tried by then decides.
    """
    inside = sorted((point for point in points if quirk.region.holds(point)), key=search.size)
    words = dict.fromkeys(point.trait("dtype") for point in inside)
    made: list[Workaround] = []
    for word in words:
        of_word = [point for point in inside if point.trait("dtype") == word]
        atoms = () if len(words) == 1 or word is None else (Is(trait="dtype", words=(word,)),)
        made += _mended(quirk.region, of_word, trial, _Group(search=search, atoms=atoms))
    return tuple(made)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """Points of one dtype; `atoms` say which, if there are others."""

    search: Search
    atoms: tuple[Is, ...]


def _mended(region: Region, points: Sequence[Point], trial: Trial, group: _Group) -> list[Workaround]:
    search = group.search
    ratios = _ratios(points, trial, search)
    for _ in range(_ROUNDS_MAX):
        found = classes(ratios, len(points))
        made = [_workaround(item, points, group) for item in found]
        tested = [_tested(region, one, item, trial, search=search) for item, one in zip(found, made, strict=True)]
        if None not in tested:
            return [_counted(one, count or 0) for one, count in zip(made, tested, strict=True)]
        for item, count in zip(found, tested, strict=True):
            if count is None:
                ratios = {attempt: row for attempt, row in ratios.items() if attempt != item.attempt}
    return []


def _ratios(points: Sequence[Point], trial: Trial, search: Search) -> Mapping[Attempt, list[float | None]]:
    """For each attempt its time over the native one, point by point; None where it is wrong, unknown or untimed.

    A native call that dies has no time: there, times are over the fastest way's.
    """
    native = [None if search.deadly else trial.seconds(point, None) for point in points]
    table: dict[Attempt, list[float | None]] = {}
    for attempt in search.attempts:
        row: list[float | None] = []
        for point in points:
            if search.late or (len(row) > 1 and not any(row)):
                row.append(None)  # late, or wrong so far
                continue
            row.append(trial.seconds(point, attempt) if trial.right(point, attempt) else None)
        if any(row):
            table[attempt] = row
    usual = [
        native_s or min((row[at] or math.inf for row in table.values()), default=1.0)
        for at, native_s in enumerate(native)
    ]
    return {
        attempt: [None if taken_s is None else taken_s / usual_s for taken_s, usual_s in zip(row, usual, strict=True)]
        for attempt, row in table.items()
    }


def _tested(region: Region, made: Workaround, item: Class, trial: Trial, *, search: Search) -> int | None:
    """How many points of the class were right, fresh ones included; None if a fresh one was wrong."""
    both = Region(cases=tuple((*case, *more) for case in region.cases for more in made.region.cases))
    count = item.stop - item.start
    for point in search.fresh(both):
        if search.late:
            break
        answer = trial.right(point, item.attempt)
        if answer is None and not search.deadly and trial.seconds(point, None) is None:
            continue  # the device lacks the call itself, such as its dtype
        if not answer:
            return None
        count += 1
    return count


def _workaround(item: Class, points: Sequence[Point], group: _Group) -> Workaround:
    """Classes meet in the middle between the nearest points that were tried."""
    search, last = group.search, item.stop == len(points)
    low = None if item.start == 0 else _border(points[item.start - 1 : item.start + 1], search) + 1
    high = None if last else _border(points[item.stop - 1 : item.stop + 1], search)
    bounds = () if low is None and high is None else (Range(factors=search.factors, low=low, high=high),)
    return Workaround(
        way=item.attempt.way,
        detail=item.attempt.detail,
        region=Region(cases=((*group.atoms, *bounds),)),
        cost_ratio=round(item.ratio, 3),
        verified=0,
    )


def _counted(made: Workaround, count: int) -> Workaround:
    return Workaround(way=made.way, detail=made.detail, region=made.region, cost_ratio=made.cost_ratio, verified=count)


def _border(pair: Sequence[Point], search: Search) -> int:
    """The largest size that still belongs to the first of two neighbours."""
    one, other = (search.size(point) for point in pair)
    return max(one, min(other - 1, math.isqrt(one * other)))
