"""Failing points -> the region in which an operator fails, tested on points that were never asked before.

In: an oracle, failing points, their space. Out: `Learned`. Invariant: no point that is known to fail lies outside the
region; what fresh points said of it is reported, also where the budget ended before they were content.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from accord.terms.quirk import Point, Region
from accord.verify.border import close_gaps, doubts, held_out
from accord.verify.fit import fit
from accord.verify.lines import lines, scattered
from accord.verify.oracle import Oracle
from accord.verify.shrink import shrink, volume
from accord.verify.space import Space

_ROUNDS_MAX = 20
_CONTENT = 2  # rounds without a surprise before the region is tested
_SEEDS = 3
_SCATTERED_MAX = 120
_FRESH_MIN, _FRESH_MAX = 12, 80
_MANY = 600  # questions with which lines may be dense
_EXPLORED, _REFINED = 0.4, 0.7  # parts of the budget after which the next step must begin
_OVER_COVER_MAX = 0.05
_TESTS_MAX = 4
_STABLE = 4  # rounds in which the region stays, though some points inside are right


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """`missed` of `fresh` new points failed outside the region; `over_cover` of the new ones inside were right.

    `complete` is False where the budget ended before a test on fresh points was passed.
    """

    region: Region
    smallest: Point
    points: int
    failing: int
    fresh: int
    missed: int
    over_cover: float
    asked: int
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Test:
    inside: int
    false: int
    outside: int
    missed: int


def learn(oracle: Oracle, failing: Sequence[Point], space: Space, *, rng: random.Random) -> Learned:
    """Learns from at least one failing point."""
    smallest = shrink(oracle, min(failing, key=lambda point: volume(point, space)), space)
    fresh = min(_FRESH_MAX, max(_FRESH_MIN, oracle.left // 10))
    _explore(oracle, smallest, failing, space, rng=rng)
    region, test, complete = _fitted(oracle, space), _Test(inside=0, false=0, outside=0, missed=0), False
    for _ in range(_TESTS_MAX):
        before, region = region, _refined(oracle, space, reserved=3 * fresh, rng=rng)
        test = _tested(oracle, region, space, count=fresh, rng=rng)
        # What can't be told apart by the facts at hand stays inside, and is reported as over-cover.
        content = test.false <= max(1, _OVER_COVER_MAX * test.inside) or region == before
        if not test.missed and content and test.inside + test.outside >= 2 * _FRESH_MIN:
            complete = True
            break
        if oracle.spent:
            break
    if test.missed:
        region = _fitted(oracle, space)
    known = oracle.labelled()
    fails = [point for point, answer in known if answer]
    return Learned(
        region=region,
        smallest=min([smallest, *fails], key=lambda point: volume(point, space)),
        points=len(known),
        failing=len(fails),
        fresh=test.inside + test.outside,
        missed=test.missed,
        over_cover=test.false / test.inside if test.inside else 0.0,
        asked=oracle.asked,
        complete=complete,
    )


def _explore(oracle: Oracle, smallest: Point, failing: Sequence[Point], space: Space, *, rng: random.Random) -> None:
    """Lines and scattered points, as many as the questions that are left allow."""
    left = oracle.left
    many = left >= _MANY
    ordered = sorted(failing, key=lambda point: volume(point, space))
    _ask(oracle, lines(smallest, space, dense=many), at_most=left // 2, rng=rng)
    if many:
        seeds = dict.fromkeys(ordered[len(ordered) * part // _SEEDS] for part in range(_SEEDS))
        for seed in (*seeds, ordered[-1]):
            _ask(oracle, lines(seed, space, dense=False), at_most=left // 8, rng=rng)
    _ask(oracle, scattered(space, tuple(failing), rng, count=_SCATTERED_MAX), at_most=left // 6, rng=rng)


def _fitted(oracle: Oracle, space: Space, before: Region | None = None) -> Region:
    known = oracle.labelled()
    return fit([point for point, _ in known], [answer for _, answer in known], space, before=before)


def _refined(oracle: Oracle, space: Space, *, reserved: int, rng: random.Random) -> Region:
    """Fits, asks where the fit could be wrong, and fits again, until nothing surprises or nothing changes."""
    region, content, stable = _fitted(oracle, space), 0, 0
    for _ in range(_ROUNDS_MAX):
        if oracle.left < reserved or oracle.gone > _REFINED or content >= _CONTENT or stable >= _STABLE:
            break
        asked = oracle.asked
        close_gaps(oracle, region, space, rng)
        missed, surprised = _surprises(oracle, region, doubts(oracle, region, space, rng))
        before = region
        if oracle.asked > asked:
            region = _fitted(oracle, space) if surprised else _fitted(oracle, space, before)
        content = 0 if surprised or region != before else content + 1
        stable = 0 if missed or region != before else stable + 1
    return region


def _surprises(oracle: Oracle, region: Region, points: Iterable[Point]) -> tuple[bool, bool]:
    """Whether a point failed outside, and whether that or too many right ones inside surprise."""
    answers = [(oracle.ask(point), region.holds(point)) for point in points if not oracle.knows(point)]
    missed = any(answer and not inside for answer, inside in answers)
    false = sum(1 for answer, inside in answers if answer is False and inside)
    return missed, missed or false > _OVER_COVER_MAX * sum(1 for _, inside in answers if inside)


def _tested(oracle: Oracle, region: Region, space: Space, *, count: int, rng: random.Random) -> _Test:
    """Asks points that nobody asked before, and counts where the region and the answer differ."""
    inside = false = outside = missed = 0
    points = held_out(oracle, region, space, rng, count=count)
    for point in rng.sample(points, len(points)):  # a budget that ends halfway must not leave one kind out
        answer = oracle.ask(point)
        if answer is None:
            continue
        if region.holds(point):
            inside, false = inside + 1, false + (not answer)
        else:
            outside, missed = outside + 1, missed + answer
    return _Test(inside=inside, false=false, outside=outside, missed=missed)


def _ask(oracle: Oracle, points: Sequence[Point], *, at_most: int, rng: random.Random) -> None:
    """Asks the points, or so many of them, in any order, so that those left out at the end are as good as any."""
    for point in rng.sample(points, min(len(points), max(1, at_most))):
        if oracle.gone > _EXPLORED:
            return
        oracle.ask(point)
