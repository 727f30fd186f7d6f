"""What adds at places that indices name: scatter_add along rows, index_add of whole rows.

In: points. Out: cases. Invariant: operands are integers whose sums are exact in every order, though places come twice;
so an order that changes shows in nothing, and a lost update shows.
"""

import numpy as np

from accord.terms.quirk import Point
from accord.verify.operators.making import (
    LAYOUT,
    LAYOUTS,
    PLAIN,
    call_of,
    case,
    dtype_of,
    indices,
    operand,
    side,
    space,
)
from accord.verify.operators.row import Case, Fill, OperatorRow
from accord.verify.space import Axis
from accord.verify.tensor import Floats

_FEW = 60  # updates that aren't zero, in one place at most: sums stay below 256


def _scatter_add(point: Point, rng: np.random.Generator, fill: Fill) -> Case | None:
    if fill is not Fill.INTEGERS:
        return None
    rows, width, count = side(point, "rows"), side(point, "N"), min(side(point, "k"), side(point, "N"))
    places = rng.integers(0, width, (rows, count))
    return _added(point, rng, places, _updates((rows, count), count, rng))


def _index_add(point: Point, rng: np.random.Generator, fill: Fill) -> Case | None:
    if fill is not Fill.INTEGERS:
        return None
    rows, width, count = side(point, "rows"), side(point, "N"), side(point, "k")
    places = rng.integers(0, rows, count)
    return _added(point, rng, places, _updates((width, count), count, rng).T)


def _updates(shape: tuple[int, int], count: int, rng: np.random.Generator) -> Floats:
    """-1, 0 and 1 along the last side, few of them not 0; the last never is."""
    there = rng.random(shape) < _FEW / count
    there[..., -1] = True
    return np.where(there, rng.integers(0, 2, shape) * 2.0 - 1.0, 0.0)


def _added(point: Point, rng: np.random.Generator, places: np.ndarray, updates: Floats) -> Case:
    values = rng.integers(-64, 65, (side(point, "rows"), side(point, "N"))).astype(np.float64)
    given = operand(values, dtype_of(point), point.trait(LAYOUT) or PLAIN)
    source = operand(updates, dtype_of(point))
    wanted = given.floats()
    if places.ndim == 1:
        np.add.at(wanted, places, source.floats())
    else:
        np.add.at(wanted, (np.arange(len(places))[:, None], places), source.floats())
    return case(call_of(point, (given, indices(places), source)), wanted, exact=True)


def rows() -> tuple[OperatorRow, ...]:
    """All rows of this group."""
    axes = (Axis(name="rows", high=1 << 16), Axis(name="N", high=1 << 18), Axis(name="k", high=4096))
    found = []
    for name, build in (("scatter_add", _scatter_add), ("index_add", _index_add)):
        made = space(name, axes, values=lambda at: 2 * (at["rows"] + at["k"]) * at["N"], layouts=LAYOUTS)
        usual = ((("rows", 3), ("N", 128), ("k", 5)), (("rows", 17), ("N", 1000), ("k", 300)))
        found.append(OperatorRow(name=name, group="adding", space=made, build=build, sides=("rows", "N"), usual=usual))
    return tuple(found)
