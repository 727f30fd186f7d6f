"""Where a fitted region could be wrong: around its bounds, and where it was never tried.

In: an oracle, a region, its space. Out: points to ask; bounds with closed gaps. Invariant: a point that is drawn for a
condition meets all other conditions of its case, so its answer speaks of that condition alone.
"""

import math
import random
from collections.abc import Sequence

from accord.terms.quirk import Atom, Point, Range, Region
from accord.verify.lines import scattered
from accord.verify.oracle import Oracle
from accord.verify.sample import Wish, draw, wishes
from accord.verify.space import Space

_BISECTIONS = 20
_SEEDS_MAX = 200


def doubts(oracle: Oracle, region: Region, space: Space, rng: random.Random) -> list[Point]:
    """Points for which one condition alone decides, points inside, and points anywhere."""
    inside = _within(oracle, region, space, rng, each=10)
    anywhere = scattered(space, _failing(oracle), rng, count=15)
    return [*_beside(oracle, region, space, rng, each=5), *inside, *anywhere]


def held_out(oracle: Oracle, region: Region, space: Space, rng: random.Random, *, count: int) -> list[Point]:
    """Points that were never asked: `count` inside, as many just outside, as many anywhere."""
    cases = max(1, len(region.cases))
    conditions = max(1, sum(len(case) for case in region.cases))
    drawn = [
        *_within(oracle, region, space, rng, each=-(-count // cases)),
        *_beside(oracle, region, space, rng, each=-(-count // conditions)),
        *scattered(space, _failing(oracle), rng, count=count),
    ]
    return [point for point in dict.fromkeys(drawn) if not oracle.knows(point)]


def close_gaps(oracle: Oracle, region: Region, space: Space, rng: random.Random) -> None:
    """Bisects between the last failing and the first right value of each bound, all other conditions held."""
    for case in region.cases:
        for atom in case:
            if isinstance(atom, Range):
                for lower in (True, False):
                    if (atom.low if lower else atom.high) is not None:
                        _close(oracle, case, atom, space=space, lower=lower, rng=rng)


def _beside(oracle: Oracle, region: Region, space: Space, rng: random.Random, *, each: int) -> list[Point]:
    drawn: list[Point | None] = []
    for case in region.cases:
        seeds = _covered(case, _failing(oracle))
        for number in range(len(case)):
            drawn += [draw(space, wishes(case, but=number), seeds, rng) for _ in range(each)]
    return [point for point in drawn if point is not None]


def _within(oracle: Oracle, region: Region, space: Space, rng: random.Random, *, each: int) -> list[Point]:
    drawn: list[Point | None] = []
    for case in region.cases:
        seeds = _covered(case, _failing(oracle))
        drawn += [draw(space, wishes(case), seeds, rng) for _ in range(each)]
    return [point for point in drawn if point is not None]


def _close(
    oracle: Oracle, case: tuple[Atom, ...], atom: Range, *, space: Space, lower: bool, rng: random.Random
) -> None:
    others = tuple(other for other in case if other is not atom)
    gap = _gap(oracle, others, atom, lower=lower)
    seeds = _covered(case, _failing(oracle))
    for _ in range(_BISECTIONS):
        if gap is None or abs(gap[0] - gap[1]) <= 1 or oracle.spent:
            return
        between = _between(gap, atom.factors, others, space=space, seeds=seeds, rng=rng)
        answer = None if between is None else oracle.ask(between)
        if between is None or answer is None:
            return
        value = _value(between, atom.factors)
        gap = (gap[0], value) if answer else (value, gap[1])


def _gap(oracle: Oracle, others: tuple[Atom, ...], atom: Range, *, lower: bool) -> tuple[int, int] | None:
    """The nearest (right, failing) values on both sides of the bound; None if nothing right lies beyond it."""
    beside = Region(cases=(others,))
    values = [(_value(point, atom.factors), answer) for point, answer in oracle.labelled() if beside.holds(point)]
    low, high = atom.low or 0, math.inf if atom.high is None else atom.high
    failing = [value for value, answer in values if answer and low <= value <= high]
    if not failing:
        return None
    edge = min(failing) if lower else max(failing)
    right = [value for value, answer in values if not answer and (value < edge if lower else value > edge)]
    return ((max(right) if lower else min(right)), edge) if right else None


def _between(
    gap: tuple[int, int],
    factors: tuple[str, ...],
    others: tuple[Atom, ...],
    *,
    space: Space,
    seeds: Sequence[Point],
    rng: random.Random,
) -> Point | None:
    """A point in the middle of the gap if there is one, else anywhere in it."""
    low, high = min(gap) + 1, max(gap) - 1
    middle, near = (low + high) // 2, (high - low) // 8
    held = wishes(others)
    for least, most in ((middle - near, middle + near), (low, high)):
        aimed = Wish(atom=Range(factors=factors, low=least, high=most))
        if (found := draw(space, (*held, aimed), seeds, rng)) is not None:
            return found
    return None


def _failing(oracle: Oracle) -> tuple[Point, ...]:
    return tuple(point for point, answer in oracle.labelled() if answer)


def _covered(case: tuple[Atom, ...], failing: Sequence[Point]) -> tuple[Point, ...]:
    region = Region(cases=(case,))
    return tuple(point for point in failing if region.holds(point))[-_SEEDS_MAX:]


def _value(point: Point, factors: tuple[str, ...]) -> int:
    return math.prod(point.fact(name) or 0 for name in factors)
