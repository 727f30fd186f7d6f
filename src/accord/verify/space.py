"""The space in which an operator's calls differ: its sides, its words, and what follows from them.

In: axes and choices, as an operator's row states them. Out: `Space`, points of it. Invariant: every point that leaves
here is complete, so a region may speak of derived facts (strides, bytes) as of the sides themselves.
"""

import math
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from accord.terms.quirk import Fact, Point, Trait

Complete = Callable[[Point], Point | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A number that may be chosen: all of `low` to `high`, or only `values` if there are any."""

    name: str
    low: int = 1
    high: int = 1 << 17
    values: tuple[int, ...] = ()

    def nearest(self, value: int) -> int:
        """The permitted number nearest to this one; of two, the smaller."""
        if self.values:
            return min(self.values, key=lambda known: (abs(known - value), known))
        return min(max(value, self.low), self.high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A word that may be chosen, such as a dtype or an overload."""

    name: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """`complete` adds derived facts to a point of axes and choices; None where no such call exists or it is too big.

    `whole` does so for calls that a model makes, which may be larger than what is worth trying by chance.
    """

    operator: str
    axes: tuple[Axis, ...]
    choices: tuple[Choice, ...] = ()
    complete: Complete | None = None
    whole: Complete | None = None

    def point(self, sides: Mapping[str, int], words: Mapping[str, str]) -> Point | None:
        """The complete point with these sides and words; None where no such call exists."""
        facts = tuple(Fact(name=axis.name, value=axis.nearest(sides[axis.name])) for axis in self.axes)
        traits = tuple(Trait(name=choice.name, word=words[choice.name]) for choice in self.choices)
        bare = Point(operator=self.operator, facts=facts, traits=traits)
        return bare if self.complete is None else self.complete(bare)

    def call(self, sides: Mapping[str, int], words: Mapping[str, str]) -> Point | None:
        """The complete point of a model's call; None where it is too big even so."""
        bare = replace(self, complete=None).point(sides, words)
        return bare if self.whole is None or bare is None else self.whole(bare)

    def changed(self, point: Point, sides: Mapping[str, int], words: Mapping[str, str] | None = None) -> Point | None:
        """The point with some sides and words changed."""
        kept_sides = {axis.name: _side(point, axis) for axis in self.axes}
        kept_words = {choice.name: point.trait(choice.name) or choice.words[0] for choice in self.choices}
        return self.point({**kept_sides, **sides}, {**kept_words, **(words or {})})

    def random_point(self, rng: random.Random, *, tries: int = 50) -> Point | None:
        """A point whose sides are spread over orders of magnitude; None if no try gave one that exists."""
        for _ in range(tries):
            sides = {axis.name: spread(axis, rng) for axis in self.axes}
            words = {choice.name: rng.choice(choice.words) for choice in self.choices}
            if (found := self.point(sides, words)) is not None:
                return found
        return None


def spread(axis: Axis, rng: random.Random, *, low: int | None = None, high: int | None = None) -> int:
    """A number of the axis within these bounds: log-uniform, and half the time close to a round one."""
    least = max(axis.low, axis.low if low is None else low)
    most = min(axis.high, axis.high if high is None else high)
    if axis.values:
        inside = [value for value in axis.values if least <= value <= most] if (low, high) != (None, None) else []
        return rng.choice(inside or axis.values)
    if most <= least:
        return least
    if least == 0 and rng.random() < 0.2:
        return 0
    drawn = round(2 ** rng.uniform(math.log2(max(least, 1)), math.log2(most)))
    if rng.random() < 0.5:
        step = 1 << rng.randrange(max(1, drawn.bit_length()))
        drawn = drawn // step * step + rng.choice((-1, 0, 0, 1))
    return min(max(drawn, least), most)


def sides_of(point: Point, space: Space) -> Mapping[str, int]:
    """The chosen numbers of a point."""
    return {axis.name: _side(point, axis) for axis in space.axes}


def existing(points: Iterable[Point | None]) -> list[Point]:
    """Those that exist, each once."""
    return list(dict.fromkeys(point for point in points if point is not None))


def _side(point: Point, axis: Axis) -> int:
    value = point.fact(axis.name)
    return axis.low if value is None else value
