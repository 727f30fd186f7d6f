"""Draws points for which some conditions hold and others don't, near their bounds or anywhere.

In: a space, conditions with the answer that is wanted of each, points to start from, a source of randomness.
Out: points. Invariant: a point that comes out answers every condition as wanted; None if no try gave one.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from accord.terms.quirk import Atom, Is, Modulo, Point, Range, Region
from accord.verify.space import Axis, Choice, Space, sides_of, spread

_TRIES = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A condition, and whether it shall hold."""

    atom: Atom
    holds: bool = True

    def met(self, point: Point) -> bool:
        """Whether the point answers it as wanted."""
        return Region(cases=((self.atom,),)).holds(point) == self.holds


def wishes(case: tuple[Atom, ...], *, but: int | None = None) -> tuple[Wish, ...]:
    """All conditions of a case; the one numbered `but` the other way round."""
    return tuple(Wish(atom=atom, holds=number != but) for number, atom in enumerate(case))


def draw(space: Space, wanted: Sequence[Wish], seeds: Sequence[Point], rng: random.Random) -> Point | None:
    """A point that answers all wishes: some tries change a seed a little, others start afresh."""
    for _ in range(_TRIES):
        start = rng.choice(seeds) if seeds and rng.random() < 0.6 else None
        tried = _try(space, wanted, start, rng)
        if tried is not None and all(wish.met(tried) for wish in wanted):
            return tried
    return None


def _try(space: Space, wanted: Sequence[Wish], start: Point | None, rng: random.Random) -> Point | None:
    free = {axis.name: axis for axis in space.axes}
    sides = dict(sides_of(start, space)) if start else {}
    moved = set(free) if start is None else set(rng.sample(sorted(free), k=rng.randint(1, min(2, len(free)))))
    for name in moved | {name for wish in wanted if not wish.holds for name in _factors(wish.atom) if name in free}:
        sides[name] = _side(free[name], wanted, rng)
    for wish in rng.sample(list(wanted), k=len(wanted)):
        _mend(sides, wish, free, rng)
    words = {choice.name: _word(choice, wanted, start, rng) for choice in space.choices}
    return space.point(sides, words)


def _side(axis: Axis, wanted: Sequence[Wish], rng: random.Random) -> int:
    """A number that meets the bounds on this side alone; half the time close to one of them."""
    low, high = axis.low, axis.high
    for wish in wanted:
        if isinstance(wish.atom, Range) and wish.atom.factors == (axis.name,):
            least, most = _window(wish, rng)
            low, high = max(low, least), high if most is None else min(high, most)
    if rng.random() < 0.4:
        near = rng.choice((low, high)) + rng.choice((-2, -1, 0, 1, 2))
        return axis.nearest(min(max(near, low), high) if low <= high else low)
    return spread(axis, rng, low=low, high=high)


def _window(wish: Wish, rng: random.Random) -> tuple[int, int | None]:
    """The numbers that answer a wish about a product, as one interval; of two intervals, either."""
    assert isinstance(wish.atom, Range)
    low, high = wish.atom.low, wish.atom.high
    if wish.holds:
        return low or 0, high
    if low is None or (high is not None and rng.random() < 0.5):
        return (high or 0) + 1, None
    return 0, low - 1


def _mend(sides: dict[str, int], wish: Wish, free: dict[str, Axis], rng: random.Random) -> None:
    """Moves one side so that it meets a wish about remainders or about a product."""
    names = [name for name in _factors(wish.atom) if name in free]
    if not names:
        return
    name = rng.choice(names)
    match wish.atom:
        case Modulo(modulus=modulus, remainders=inside):
            rest = sides[name] % modulus
            if (rest in inside) != wish.holds:
                wanted = inside if wish.holds else tuple(set(range(modulus)) - set(inside))
                if wanted:
                    sides[name] += _residue(wanted, modulus, rng) - rest
        case Range(factors=factors) if len(factors) == len(names) > 1:
            others = math.prod(sides[other] for other in names if other != name)
            least, most = _window(wish, rng)
            low = -(-least // max(others, 1))
            high = free[name].high if most is None else most // max(others, 1)
            if not low <= sides[name] <= high and low <= high:
                sides[name] = rng.choice((low, high, spread(free[name], rng, low=low, high=high)))
        case _:
            return


def _residue(wanted: Sequence[int], modulus: int, rng: random.Random) -> int:
    """One of these remainders; half the time one that shares a divisor with the modulus, so 64 is tried against 32."""
    if rng.random() < 0.5:
        divisor = rng.choice([number for number in range(2, modulus + 1) if modulus % number == 0])
        wanted = [number for number in wanted if number % divisor == 0] or wanted
    return rng.choice(wanted)


def _word(choice: Choice, wanted: Sequence[Wish], start: Point | None, rng: random.Random) -> str:
    allowed = list(choice.words)
    for wish in wanted:
        if isinstance(wish.atom, Is) and wish.atom.trait == choice.name:
            allowed = [word for word in allowed if (word in wish.atom.words) == wish.holds]
    kept = start.trait(choice.name) if start else None
    if kept in allowed and rng.random() < 0.7:
        return kept
    return rng.choice(allowed or list(choice.words))


def _factors(atom: Atom) -> tuple[str, ...]:
    return () if isinstance(atom, Is) else atom.factors
