"""What to ask first: the lines through a failing point, and points all over the space.

In: a failing point, its space. Out: points. Invariant: every word is tried, and along each side its neighbours, a run
of numbers that shows remainders, and round numbers with both of their neighbours.
"""

import math
import random
from collections.abc import Iterator

from accord.terms.quirk import Point
from accord.verify.space import Axis, Space, existing, sides_of

_RUN = 17


def lines(point: Point, space: Space, *, dense: bool) -> list[Point]:
    """Points that differ from `point` in one side or one word; `dense`: with runs and more round numbers."""
    sides = sides_of(point, space)
    along = [
        space.changed(point, {axis.name: value})
        for axis in space.axes
        for value in _values(axis, sides[axis.name], dense=dense)
    ]
    worded = [space.changed(point, {}, {choice.name: word}) for choice in space.choices for word in choice.words]
    return existing([*along, *worded])


def scattered(space: Space, failing: tuple[Point, ...], rng: random.Random, *, count: int) -> list[Point]:
    """Points all over, every third of them a failing one with two sides or words drawn anew."""
    found: list[Point | None] = []
    for number in range(count):
        fresh = _cheap(space, rng) if number % 3 == 1 else space.random_point(rng)
        if fresh is not None and failing and number % 3 == 0:
            fresh = _mixed(rng.choice(failing), fresh, space, rng)
        found.append(fresh)
    return existing(found)


def _cheap(space: Space, rng: random.Random) -> Point | None:
    """The smallest of three random points: small ones cost a device less."""
    drawn = [point for _ in range(3) if (point := space.random_point(rng)) is not None]
    return min(drawn, key=lambda point: math.prod(1 + side for side in sides_of(point, space).values()), default=None)


def _mixed(point: Point, other: Point, space: Space, rng: random.Random) -> Point | None:
    """`point` with two of its sides or words taken from `other`."""
    names = [axis.name for axis in space.axes] + [choice.name for choice in space.choices]
    taken = set(rng.sample(names, k=min(2, len(names))))
    sides = {name: side for name, side in sides_of(other, space).items() if name in taken}
    words = {name: word for name in taken if (word := other.trait(name)) is not None}
    return space.changed(point, sides, words)


def _values(axis: Axis, value: int, *, dense: bool) -> Iterator[int]:
    if axis.values:
        yield from axis.values
        return
    nears = (-2, -1, 1, 2) if not dense else (*range(-4, 0), *range(1, _RUN))
    yield from (value + near for near in nears if axis.low <= value + near <= axis.high)
    yield from (axis.low, axis.high)
    for bits in range(0, axis.high.bit_length(), 1 if dense else 2):
        around = (-1, 0, 1) if dense else (0, 1)
        yield from ((1 << bits) + near for near in around if axis.low <= (1 << bits) + near <= axis.high)
