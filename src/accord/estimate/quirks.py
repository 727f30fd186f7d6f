"""What a device's known faults mean for a model: which of its shapes they hit, and what the way round costs.

In: quirks, a kind of device, points (or a stage's operators and a load, for `points`). Out: `Hit`s.
Invariant: what a point doesn't say (overload, data, library version) is taken to be as the fault needs it, so that
ignorance never hides a fault; `Hit.certain` tells the difference.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from accord.estimate.work import applications, experts_touched, phase_of, runs
from accord.terms.quirk import Atom, Fact, Is, Modulo, Point, Quirk, Range, Region, Trait, Workaround
from accord.terms.work import Attention, Experts, Load, Lookup, MatMul, Operator, Scan

ANY_DEVICE = "*"  # a quirk of a library that runs on every kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One quirk over the points that it hits.

    `cost_ratio`: what an operator takes with its fastest workaround, over the native time, on the worst of these
    points. None: at least one of them has no workaround, so the kind must not run the stage.
    `certain`: the points say all that the quirk's region asks for, at least one of them.
    """

    quirk: Quirk
    points: tuple[Point, ...]
    cost_ratio: float | None
    certain: bool


def hits(quirks: Iterable[Quirk], kind_name: str, points: Iterable[Point]) -> tuple[Hit, ...]:
    """The quirks of this kind of device that hit at least one of the points, in the order of `quirks`."""
    asked = tuple(points)
    found = (_hit(quirk, asked) for quirk in quirks if quirk.device in (kind_name, ANY_DEVICE))
    return tuple(hit for hit in found if hit is not None)


def points(operators: Iterable[Operator], load: Load, *, dtype: str, ranks: int = 1) -> tuple[Point, ...]:
    """The calls that a step makes, with the sides that one of `ranks` tensor-parallel ranks sees.

    `linear`: (M, K) x (K, N). `embedding`: M rows of N values from V. `sdpa`: B sequences, H heads of keys, G of
    queries for each, L queries, S keys, D values a head. A scan has no operator of its own in the libraries that we
    sweep, so it gives none.
    """
    phase = phase_of(load)
    found = (point for item in operators if runs(item, phase) for point in _points(item, load, dtype, ranks=ranks))
    return tuple(dict.fromkeys(found))


def _hit(quirk: Quirk, asked: tuple[Point, ...]) -> Hit | None:
    met = tuple(item for item in asked if item.operator == quirk.operator and may_hold(quirk.region, item))
    if not met:
        return None
    costs = [_cost_ratio(quirk.workarounds, item) for item in met]
    known = [cost for cost in costs if cost is not None]
    return Hit(
        quirk=quirk,
        points=met,
        cost_ratio=max(known) if len(known) == len(costs) else None,
        certain=any(quirk.region.holds(item) for item in met),
    )


def _cost_ratio(workarounds: Iterable[Workaround], point: Point) -> float | None:
    return min((item.cost_ratio for item in workarounds if may_hold(item.region, point)), default=None)


def may_hold(region: Region, point: Point) -> bool:
    """Whether the point could lie inside if what it doesn't say were as the region wants it."""
    return any(all(_may(atom, point) for atom in case) for case in region.cases)


def _may(atom: Atom, point: Point) -> bool:
    match atom:
        case Range() | Modulo():
            silent = any(point.fact(name) is None for name in atom.factors)
        case Is():
            silent = point.trait(atom.trait) is None
    return silent or Region(cases=((atom,),)).holds(point)


def _points(item: Operator, load: Load, dtype: str, *, ranks: int) -> Iterator[Point]:
    match item:
        case MatMul():
            # Rows or columns are divided, as the weight says; a planner's rough question is answered for both.
            rows = math.ceil(applications(item.per, load) * item.rate)
            for n, k in _shares(item.weight.rows, item.weight.columns, ranks):
                yield _point("linear", dtype, M=rows, N=n, K=k)
        case Experts():
            units = load.new * load.batch
            touched = max(1.0, experts_touched(item.experts, item.chosen, units))
            rows = max(1, round(units * item.chosen / touched))
            for weight in item.weights:
                yield _point("linear", dtype, M=rows, N=weight.rows, K=weight.columns)
        case Attention():
            heads, group = max(1, item.key_heads // ranks), max(1, item.heads // item.key_heads)
            keys = load.new + load.context
            sides = {"B": load.batch, "H": heads, "G": group, "L": load.new, "S": keys, "D": item.key_dim}
            yield _point("sdpa", dtype, **sides)
        case Lookup():
            rows = applications(item.per, load)
            yield _point("embedding", dtype, M=rows, V=item.weight.rows, N=item.weight.columns)
        case Scan():
            return


def _shares(rows: int, columns: int, ranks: int) -> tuple[tuple[int, int], ...]:
    if ranks == 1:
        return ((rows, columns),)
    return (max(1, rows // ranks), columns), (rows, max(1, columns // ranks))


def _point(operator: str, dtype: str, **sides: int) -> Point:
    facts = tuple(Fact(name=name, value=value) for name, value in sides.items())
    return Point(operator=operator, facts=facts, traits=(Trait(name="dtype", word=dtype),))
