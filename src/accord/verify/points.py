"""Which points of an operator to ask, and in which order.

In: an operator's row, a model's points, randomness. Out: an endless series of points. Invariant: what a model really
calls takes turns with all else, the usual first; words, boundaries and random points take turns; none comes twice.
"""

import itertools
import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence

from accord.terms.quirk import Point
from accord.verify.operators.row import OperatorRow
from accord.verify.space import Axis, Space, existing

# Tiles, vectors and cache lines of kernels, in elements.
_TILES = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
# Widths of counters: 16 bits, 24 (the integers of f32) and 31; the last two only where work grows faster than memory.
_PRODUCTS = (1 << 12, 1 << 16, 1 << 20)
_LARGE = (1 << 24, 1 << 31)
_CHEAP = 3  # of so many random points the smallest is asked two times in three
_DRY = 200  # random draws in a row that gave nothing new: the space is all asked


def series(row: OperatorRow, model: Sequence[Point], rng: random.Random) -> Iterator[Point]:
    """All points to ask, each once."""
    asked: set[Point] = set()
    rest = _mixed(_worded_usual(row), boundaries(row, rng), _random(row.space, rng))
    for point in _mixed(_cheapest_first(model, row.space), itertools.chain(_plain(row), rest)):
        if point not in asked:
            asked.add(point)
            yield point


def _cheapest_first(model: Sequence[Point], space: Space) -> list[Point]:
    """A model's calls, so that a short sweep sees as many as it can: a call for one token shows as much as for many."""
    fitted = [point for one in model if (point := fit(one, space)) is not None]
    return sorted(fitted, key=lambda point: _size(point, space))


def fit(point: Point, space: Space) -> Point | None:
    """A point that knows the sides of a call, and perhaps its dtype, as one of the space; None if there is none.

    Of a call that is too large the second largest side is halved until it fits: the largest shows most.
    """
    if point.operator != space.operator:
        return None
    sides = {axis.name: point.fact(axis.name) for axis in space.axes}
    words = {choice.name: point.trait(choice.name) or choice.words[0] for choice in space.choices}
    known = {name: side for name, side in sides.items() if side is not None}
    if any(words[choice.name] not in choice.words for choice in space.choices):
        return None
    filled = {axis.name: known.get(axis.name, _least(axis)) for axis in space.axes}
    while (found := space.call(filled, words)) is None and max(filled.values()) > 1:
        second = sorted(filled, key=lambda name: -filled[name])[min(1, len(filled) - 1)]
        filled[second] = max(1, filled[second] // 2)
    return found


def usual(row: OperatorRow) -> Iterator[Point]:
    """At the row's usual sides: every value of a side that has few, every word, and all pairs of words."""
    yield from _plain(row)
    yield from _worded_usual(row)


def _plain(row: OperatorRow) -> Iterator[Point]:
    """The usual sides, and every value of a side that has few, in plain words."""
    space = row.space
    words = {choice.name: choice.words[0] for choice in space.choices}
    for sides in _usual_sides(row):
        for changed in ({}, *({axis.name: value} for axis in space.axes for value in axis.values)):
            if (point := space.point({**sides, **changed}, words)) is not None:
                yield point
    free = [axis for axis in space.axes if not axis.values]
    yield from existing(_end(row, axis, word) for axis in free for word in space.choices[0].words)


def _end(row: OperatorRow, axis: Axis, word: str) -> Point | None:
    """The largest that a side may be, in this dtype (the first choice); the others shrink until there is a call."""
    space = row.space
    words = {choice.name: choice.words[0] for choice in space.choices}
    words[space.choices[0].name] = word
    sides = {**_usual_sides(row)[0], axis.name: axis.nearest(axis.high)}
    others = [other for other in space.axes if other.name != axis.name and not other.values]
    while (point := space.point(sides, words)) is None:
        other = max(others, key=lambda one: sides[one.name], default=None)
        if other is None or sides[other.name] <= other.low:
            return None
        sides[other.name] = max(other.low, sides[other.name] // 2)
    return point


def _worded_usual(row: OperatorRow) -> Iterator[Point]:
    """Every word at all the usual sides, then all pairs of words."""
    space = row.space
    plain = {choice.name: choice.words[0] for choice in space.choices}
    pairs = itertools.combinations(space.choices, 2)
    worded = [{choice.name: word} for choice in space.choices for word in choice.words]
    worded += [{one.name: a, two.name: b} for one, two in pairs for a in one.words for b in two.words]
    for words in worded:
        for sides in _usual_sides(row):
            if (point := space.point(sides, {**plain, **words})) is not None:
                yield point


def _usual_sides(row: OperatorRow) -> list[Mapping[str, int]]:
    least = {axis.name: _least(axis) for axis in row.space.axes}
    return [dict(sides) for sides in row.usual] or [least]


def boundaries(row: OperatorRow, rng: random.Random) -> list[Point]:
    """One side at a boundary, then two alike; the others usual, words at random.

    Each boundary of each side comes once before any comes again, and both parts are shuffled, so a short sweep is fair.
    """
    space = row.space
    everywhere = _usual_sides(row)
    ones, twos = [], []
    for axis in space.axes:
        for value in edges(axis):
            ones.append(_worded(space, rng.choice(everywhere), {axis.name: value}, rng))
            for usual_sides in everywhere:
                other = rng.choice(space.axes)
                both = {axis.name: value, other.name: other.nearest(value + rng.choice((-1, 0, 1)))}
                twos.append(_worded(space, usual_sides, both, rng))
    ones += [_product(row, total, rng, above=above) for total in _PRODUCTS for above in (False, True)]
    rng.shuffle(ones)
    rng.shuffle(twos)
    dear = _LARGE if "K" in row.sides else ()
    large = [_product(row, total, rng, above=above) for total in dear for above in (False, True)]
    return existing([*ones, *large, *twos])


def _product(row: OperatorRow, total: int, rng: random.Random, *, above: bool) -> Point | None:
    """A point the product of whose sides is just above `total`, or just below."""
    space = row.space
    free = [axis for axis in space.axes if axis.name in row.sides and not axis.values]
    if len(free) < 2:
        return None
    sides, left = dict(rng.choice(row.usual)) if row.usual else {axis.name: _least(axis) for axis in space.axes}, total
    order = rng.sample(free, len(free))
    for number, axis in enumerate(order, start=1 - len(free)):
        share = math.exp(math.log(max(left, 1)) / (1 - number) * rng.uniform(0.7, 1.3)) if number else left
        sides[axis.name] = axis.nearest(math.ceil(share))
        left = total // math.prod(sides[done.name] for done in order[: number + len(free)]) + above
    return space.call(sides, {choice.name: rng.choice(choice.words) for choice in space.choices})


def _worded(space: Space, sides: Mapping[str, int], changed: Mapping[str, int], rng: random.Random) -> Point | None:
    """With words at random, and sides that have few values, too, where there is such a call."""
    words = {choice.name: rng.choice(choice.words) for choice in space.choices}
    few = {axis.name: rng.choice(axis.values) for axis in space.axes if axis.values}
    return space.point({**sides, **few, **changed}, words) or space.point({**sides, **changed}, words)


def edges(axis: Axis) -> list[int]:
    """Powers of two and tiles with their neighbours, and the ends."""
    if axis.values:
        return list(axis.values)
    powers = [1 << bits for bits in range(axis.high.bit_length())]
    around = {number + near for number in (*powers, *_TILES) for near in (-1, 0, 1)}
    return sorted(number for number in {*around, axis.low, axis.high} if axis.low <= number <= axis.high)


def _mixed(*series: Iterable[Point]) -> Iterator[Point]:
    """A point of each in turn, so that a short sweep has seen of all; those that end drop out."""
    turns = [iter(points) for points in series]
    while turns:
        for turn in tuple(turns):
            point = next(turn, None)
            if point is None:
                turns.remove(turn)
            else:
                yield point


def _random(space: Space, rng: random.Random) -> Iterator[Point]:
    """Small ones more often: they cost less, and most faults show there."""
    seen: set[Point] = set()
    dry = 0
    while dry < _DRY:
        drawn = [point for _ in range(_CHEAP) if (point := space.random_point(rng)) is not None]
        dry += 1
        if not drawn:
            continue
        point = min(drawn, key=lambda one: _size(one, space)) if rng.random() < 2 / 3 else drawn[0]
        if point not in seen:
            seen.add(point)
            dry = 0
            yield point


def _size(point: Point, space: Space) -> float:
    return sum(math.log(max(1, point.fact(axis.name) or 1)) for axis in space.axes)


def _least(axis: Axis) -> int:
    return axis.values[0] if axis.values else axis.low
