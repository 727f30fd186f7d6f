"""A failing point -> the smallest one that still fails.

In: an oracle, a failing point, its space. Out: a failing point. Invariant: what comes out failed when it was asked;
making any one side smaller by one of the tried steps no longer fails, unless the budget ran out.
"""

import math
from collections.abc import Iterator

from accord.terms.quirk import Point
from accord.verify.oracle import Oracle
from accord.verify.space import Axis, Space, sides_of

_ROUNDS_MAX = 6
_FEW = 24  # below this a side is tried number by number, which sees through remainders
_MODULI = (2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512)


def shrink(oracle: Oracle, failing: Point, space: Space) -> Point:
    """The smallest failing point that steps along single sides, and then along pairs, reach from `failing`."""
    best = failing
    for _ in range(_ROUNDS_MAX):
        before = best
        for axis in sorted(space.axes, key=lambda axis: -sides_of(best, space)[axis.name]):
            best = _least(oracle, best, space, axis)
        best = _plainer_words(oracle, best, space)
        if best == before:
            break
    return best


def volume(point: Point, space: Space) -> float:
    """The logarithm of the product of the sides: what shrinking makes smaller."""
    return sum(math.log2(1 + side) for side in sides_of(point, space).values())


def _least(oracle: Oracle, point: Point, space: Space, axis: Axis) -> Point:
    """The point with the smallest failing value of one side that was found."""
    best = point
    for value in _smaller(axis, sides_of(point, space)[axis.name]):
        if value >= sides_of(best, space)[axis.name]:
            break
        tried = space.changed(point, {axis.name: value})
        if tried is not None and oracle.ask(tried):
            best = tried
            break
    return _descend(oracle, best, space, axis)


def _smaller(axis: Axis, value: int) -> Iterator[int]:
    """Values to try, from the smallest up."""
    if axis.values:
        yield from sorted(known for known in axis.values if known < value)
        return
    few = range(axis.low, min(axis.low + _FEW, value))
    powers = [(1 << bits) + near for bits in range(3, value.bit_length() + 1) for near in (-1, 0, 1)]
    yield from sorted({*few, *(power for power in powers if axis.low <= power < value)})


def _descend(oracle: Oracle, point: Point, space: Space, axis: Axis) -> Point:
    """Bisects down to a failing value whose smaller neighbours pass, in steps that keep remainders."""
    if axis.values:
        return point
    best = _bisect(oracle, point, space, axis=axis, step=1)
    for step in _MODULI:
        near = space.changed(best, {axis.name: sides_of(best, space)[axis.name] - step})
        if near is not None and volume(near, space) < volume(best, space) and oracle.ask(near):
            best = _bisect(oracle, near, space, axis=axis, step=step)
    return best


def _bisect(oracle: Oracle, point: Point, space: Space, *, axis: Axis, step: int) -> Point:
    high = sides_of(point, space)[axis.name]
    best, fails, passes = point, 0, (high - axis.low) // step + 1  # counted in steps below `high`
    while passes - fails > 1:
        middle = (fails + passes) // 2
        tried = space.changed(point, {axis.name: high - middle * step})
        if tried is not None and oracle.ask(tried):
            best, fails = tried, middle
        else:
            passes = middle
        if oracle.spent:
            break
    return best


def _plainer_words(oracle: Oracle, point: Point, space: Space) -> Point:
    """The point with the first word of each choice for which it still fails: choices list their plainest word first."""
    best = point
    for choice in space.choices:
        for word in choice.words:
            if word == best.trait(choice.name):
                break
            tried = space.changed(best, {}, {choice.name: word})
            if tried is not None and oracle.ask(tried):
                best = tried
                break
    return best
