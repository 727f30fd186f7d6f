"""Products of quantized matrices: 8-bit integers into 32 bits, and 8-bit floats with a scale for each side.

In: points. Out: cases. Invariant: integer products are exact; the answer of scaled floats is judged as bf16, in which
it comes, from sums in f32.
"""

import numpy as np

from accord.terms.quirk import Point
from accord.verify.operators.making import (
    PLAIN,
    TRANSPOSED,
    call_of,
    case,
    factors,
    numbers,
    operand,
    side,
    some,
    space,
    tag,
)
from accord.verify.operators.row import Case, Fill, OperatorRow
from accord.verify.space import Axis
from accord.verify.tensor import Dtype, plain

_MKN = (Axis(name="M", high=1 << 14), Axis(name="K", high=1 << 14), Axis(name="N", high=1 << 16))
# Multiples of 16, as kernels for 8 bits ask for; other sides may be lacking.
_USUAL = ((("M", 32), ("K", 64), ("N", 64)), (("M", 1), ("K", 1024), ("N", 256)), (("M", 17), ("K", 48), ("N", 80)))


def _whole(point: Point, rng: np.random.Generator, fill: Fill) -> Case | None:
    """int8 x int8 -> int32."""
    if fill is not Fill.INTEGERS:
        return None
    m, k, n = (side(point, name) for name in "MKN")
    left = operand(rng.integers(-128, 128, (m, k)).astype(np.float64), Dtype.I8)
    right = operand(rng.integers(-128, 128, (k, n)).astype(np.float64), Dtype.I8, tag(point, "layout"))
    return case(call_of(point, (left, right)), left.floats() @ right.floats(), exact=True)


def _scaled(point: Point, rng: np.random.Generator, fill: Fill) -> Case | None:
    """(a b) times both scales, in bf16. The right side lies by columns, as kernels for 8-bit floats ask for."""
    m, k, n = (side(point, name) for name in "MKN")
    if fill is Fill.POISON and m < 2:
        return None
    a, b = numbers((m, k), rng, fill, terms=k), factors((k, n), rng, fill)
    if fill is Fill.POISON:
        a[some(m, rng)] = np.nan
    scales = np.ones(2) if fill is Fill.INTEGERS else rng.uniform(0.25, 1.0, 2)
    left, right = operand(a, Dtype.F8E4M3), operand(b, Dtype.F8E4M3, TRANSPOSED)
    sides = [plain(np.asarray(scale), Dtype.F32) for scale in scales]
    factor = float(sides[0].floats() * sides[1].floats())
    with np.errstate(invalid="ignore"):
        wanted = left.floats() @ right.floats() * factor
        scale = np.abs(left.floats()) @ np.abs(right.floats()) * factor
    call = call_of(point, (left, right, *sides))
    return case(call, wanted, scale=scale, terms=k, exact=fill is Fill.INTEGERS)


def rows() -> tuple[OperatorRow, ...]:
    """All rows of this group."""
    found = []
    for name, build, dtype, layouts in (
        ("int_mm", _whole, Dtype.I8, (PLAIN, TRANSPOSED)),
        ("scaled_mm", _scaled, Dtype.F8E4M3, (PLAIN,)),
    ):
        made = space(
            name,
            _MKN,
            values=lambda at: at["M"] * at["K"] + at["K"] * at["N"] + at["M"] * at["N"],
            work=lambda at: at["M"] * at["K"] * at["N"],
            dtypes=(dtype,),
            layouts=layouts,
        )
        found.append(
            OperatorRow(name=name, group="quantized", space=made, build=build, sides=("M", "K", "N"), usual=_USUAL)
        )
    return tuple(found)
