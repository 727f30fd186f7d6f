"""Small functions that compilers fuse: what is right operator by operator can be wrong in one piece.

In: points. Out: cases. Invariant: operands are integers whose results are exact in every order.
"""

import numpy as np

from accord.terms.quirk import Point
from accord.verify.operators.making import call_of, case, dtype_of, operand, side, space
from accord.verify.operators.row import Case, Fill, OperatorRow
from accord.verify.space import Axis, Choice
from accord.verify.tensor import Dtype

_ROUNDINGS = 8.0  # of the row, the product, the square and the sum, some of them squared: in low precision alone


def _turned_square(point: Point, rng: np.random.Generator, fill: Fill) -> Case | None:
    """For each row r of n: the squared length of m r, with m the unit matrix of d x d."""
    if fill is not Fill.INTEGERS:
        return None
    count, width = side(point, "n"), side(point, "d")
    rows = np.zeros((count, width))
    rows[:, 0] = rng.integers(1, 1000, count)  # squares stay below 2^24
    given, matrix = operand(rows, dtype_of(point)), operand(np.eye(width), dtype_of(point))
    wanted = (given.floats() ** 2).sum(axis=1)
    return case(call_of(point, (given, matrix)), wanted, rounded=_ROUNDINGS * wanted, exact=True)


def rows() -> tuple[OperatorRow, ...]:
    """All rows of this group."""
    made = space(
        "turned_square",
        (Axis(name="n", high=1 << 17), Axis(name="d", low=1, high=8)),
        values=lambda at: at["n"] * at["d"],
        dtypes=(Dtype.F32, Dtype.F64),
        other=(Choice(name="mode", words=("eager", "compile")),),
    )
    usual = ((("n", 100), ("d", 3)), (("n", 20000), ("d", 3)))
    return (
        OperatorRow(
            name="turned_square", group="composed", space=made, build=_turned_square, sides=("n", "d"), usual=usual
        ),
    )
