"""What moves numbers without computing: gather, scatter, embedding, index_select, cat, reshape, permute; topk, argmax.

In: points. Out: cases. Invariant: these are exact for every dtype; where equal values let indices differ, the case's
`consistent` judges them instead.
"""

import numpy as np
import numpy.typing as npt

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
    poisoned,
    side,
    space,
)
from accord.verify.operators.row import Case, Consistent, Fill, OperatorRow
from accord.verify.space import Axis
from accord.verify.tensor import Floats

_AXES = (Axis(name="rows", high=1 << 16), Axis(name="N", high=1 << 18))
_USUAL = ((("rows", 3), ("N", 128)), (("rows", 17), ("N", 1000)))


def _integers(shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Exact in every format from 8 bits of significand on."""
    return rng.integers(-128, 129, shape).astype(np.float64)


def _given(point: Point, rng: np.random.Generator, fill: Fill) -> Floats | None:
    shape = side(point, "rows"), side(point, "N")
    if fill is Fill.INTEGERS:
        return _integers(shape, rng)
    return None


def _choosing(point: Point, rng: np.random.Generator, fill: Fill) -> Case | None:
    """topk and argmax along the last dimension."""
    if fill is Fill.POISON:
        return None
    shape = side(point, "rows"), side(point, "N")
    values = _integers(shape, rng) if fill is Fill.INTEGERS else rng.standard_normal(shape)
    if fill is Fill.INTEGERS:
        values[:, -1] = 200.0  # above all others: an index that reaches the end
    given = operand(values, dtype_of(point), point.trait(LAYOUT) or PLAIN)
    x = given.floats()
    if point.operator == "argmax":
        best = x.max(axis=-1)
        return case(call_of(point, (given,), dim=-1), best, exact=True, consistent=_points_at(x, best[:, None]))
    count = min(side(point, "k"), shape[1])
    wanted = -np.sort(-x, axis=-1)[:, :count]
    return case(call_of(point, (given,), k=count, dim=-1), wanted, exact=True, consistent=_points_at(x, wanted))


def _points_at(x: Floats, wanted: Floats) -> Consistent:
    """Judges the last output, indices: each row's must differ, be in range and point at the values wanted."""

    def judge(outputs: tuple[Floats, ...]) -> str | None:
        found = outputs[-1].reshape(wanted.shape)
        if not ((found >= 0) & (found < x.shape[-1]) & (found == np.floor(found))).all():
            return "an index is out of range"
        places = found.astype(np.int64)
        if any(len(np.unique(row)) < len(row) for row in places):
            return "an index comes twice"
        wrong = np.take_along_axis(x, places, axis=-1) != wanted
        return f"{int(wrong.sum())} of {wrong.size} indices point at another value" if wrong.any() else None

    return judge


def _indexing(point: Point, rng: np.random.Generator, fill: Fill) -> Case | None:
    """gather and index_select along the last dimension; scatter writes where gather would read."""
    values = _given(point, rng, fill)
    if values is None:
        return None
    rows, width = values.shape
    given = operand(values, dtype_of(point), point.trait(LAYOUT) or PLAIN)
    x, count = given.floats(), min(side(point, "k"), width)
    if point.operator == "index_select":
        places = _places(count, width, rng)
        return case(call_of(point, (given, indices(places)), dim=1), x[:, places], exact=True)
    if point.operator == "gather":
        places = _places((rows, count), width, rng)
        return case(call_of(point, (given, indices(places)), dim=1), np.take_along_axis(x, places, axis=1), exact=True)
    places = np.stack([_chosen(width, count, rng) for _ in range(rows)])
    source = operand(_integers((rows, count), rng), dtype_of(point))
    wanted = x.copy()
    np.put_along_axis(wanted, places, source.floats(), axis=1)
    return case(call_of(point, (given, indices(places), source), dim=1), wanted, exact=True)


def _places(shape: int | tuple[int, ...], size: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Indices below `size`. The last one is always there, since that is where a counter's width ends."""
    places = rng.integers(0, size, shape)
    places[..., -1] = size - 1
    return places


def _chosen(size: int, count: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """`count` different indices below `size`, the last one among them."""
    return np.roll(np.append(rng.permutation(size - 1)[: count - 1], size - 1), int(rng.integers(0, count)))


def _embedding(point: Point, rng: np.random.Generator, fill: Fill) -> Case | None:
    vocabulary, width, count = side(point, "V"), side(point, "N"), side(point, "M")
    if fill is Fill.NORMAL or (fill is Fill.POISON and vocabulary < 2):
        return None
    values, places = _integers((vocabulary, width), rng), _places(count, vocabulary, rng)
    if fill is Fill.POISON:
        bad = int(rng.integers(0, vocabulary))
        values, places = poisoned(values, bad, rng), np.where(places == bad, (bad + 1) % vocabulary, places)
    table = operand(values, dtype_of(point))
    return case(call_of(point, (table, indices(places))), table.floats()[places], exact=True)


def _moving(point: Point, rng: np.random.Generator, fill: Fill) -> Case | None:
    values = _given(point, rng, fill)
    if values is None:
        return None
    dtype, layout = dtype_of(point), point.trait(LAYOUT) or PLAIN
    given = operand(values, dtype, layout)
    x = given.floats()
    match point.operator:
        case "cat":
            other = operand(values[::-1].copy(), dtype, layout)
            return case(call_of(point, (given, other), dim=1), np.concatenate([x, other.floats()], axis=1), exact=True)
        case "permute":
            return case(call_of(point, (given,)), x.T.copy(), exact=True)
        case _:
            return case(call_of(point, (given,)), x.reshape(-1).copy(), exact=True)


def rows() -> tuple[OperatorRow, ...]:
    """All rows of this group."""
    few = Axis(name="k", high=4096)
    found = []
    for name, build in (
        ("topk", _choosing),
        ("gather", _indexing),
        ("index_select", _indexing),
        ("scatter", _indexing),
    ):
        made = space(
            name, (*_AXES, few), values=lambda at: 2 * at["rows"] * (at["N"] + min(at["k"], at["N"])), layouts=LAYOUTS
        )
        usual = tuple((*sides, ("k", 5)) for sides in _USUAL)
        found.append(OperatorRow(name=name, group="moving", space=made, build=build, sides=("rows", "N"), usual=usual))
    for name, build in (("argmax", _choosing), ("cat", _moving), ("reshape", _moving), ("permute", _moving)):
        made = space(name, _AXES, values=lambda at: 3 * at["rows"] * at["N"], layouts=LAYOUTS)
        found.append(OperatorRow(name=name, group="moving", space=made, build=build, sides=("rows", "N"), usual=_USUAL))
    table = (Axis(name="V", high=1 << 18), Axis(name="N", high=8192), Axis(name="M", high=4096))
    embedding = space("embedding", table, values=lambda at: (at["V"] + at["M"]) * at["N"])
    usual = ((("V", 1000), ("N", 64), ("M", 17)),)
    found.append(
        OperatorRow(
            name="embedding", group="moving", space=embedding, build=_embedding, sides=("V", "N", "M"), usual=usual
        )
    )
    return tuple(found)
