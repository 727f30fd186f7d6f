"""Products of matrices: mm, addmm, bmm, baddbmm, linear, matmul, grouped experts, weights in blocks of 4 bits.

In: points. Out: cases, wanted in float64. Invariant: the bound of each element is that of a sum of K products
(Ipsen and Zhou, arXiv 1906.10465: errors grow with the root of K).
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
    factors,
    indices,
    numbers,
    operand,
    poisoned,
    side,
    some,
    space,
)
from accord.verify.operators.row import Case, Fill, OperatorRow
from accord.verify.space import Axis, Choice
from accord.verify.tensor import Dtype, Floats, Tensor, of_bits, plain

_MKN = (Axis(name="M", high=1 << 16), Axis(name="K", high=1 << 17), Axis(name="N", high=1 << 18))
# Kernels for groups want rows of whole 16 bytes.
_GROUPED = ((("E", 4), ("M", 64), ("K", 64), ("N", 128)), (("E", 16), ("M", 100), ("K", 128), ("N", 64)))
_USUAL = ((("M", 17), ("K", 33), ("N", 64)), (("M", 1), ("K", 4096), ("N", 512)), (("M", 128), ("K", 128), ("N", 128)))


def _pair(point: Point, rng: np.random.Generator, fill: Fill, *, lead: tuple[int, ...] = ()) -> tuple[Floats, Floats]:
    m, k, n = side(point, "M"), side(point, "K"), side(point, "N")
    left, right = numbers((*lead, m, k), rng, fill, terms=k, dtype=dtype_of(point)), factors((*lead, k, n), rng, fill)
    if fill is Fill.POISON:
        left = np.moveaxis(poisoned(np.moveaxis(left, -2, 0), some(m, rng), rng), 0, -2)
    return left, right


def _product(left: Tensor, right: Tensor, *, add: Tensor | None = None) -> tuple[Floats, Floats, Floats]:
    """Wanted, its scale, and what is rounded to the output's format on the way: the sum, if something is added."""
    a, b = left.floats(), right.floats()
    with np.errstate(invalid="ignore", over="ignore"):
        wanted, scale = a @ b, np.abs(a) @ np.abs(b)
        rounded = np.abs(wanted)
        if add is not None:
            scale, rounded = scale + np.abs(add.floats()), rounded + np.abs(add.floats())
            wanted = wanted + add.floats()
    return wanted, scale, rounded


def _mm(point: Point, rng: np.random.Generator, fill: Fill) -> Case | None:
    if fill is Fill.POISON and side(point, "M") < 2:
        return None
    dtype, layout = dtype_of(point), point.trait(LAYOUT) or PLAIN
    left, right = _pair(point, rng, fill, lead=(side(point, "B"),) if point.fact("B") else ())
    operands = [operand(left, dtype, layout), operand(right, dtype, layout)]
    added = None
    if point.operator in ("addmm", "baddbmm"):
        shape = (*left.shape[:-2], left.shape[-2], right.shape[-1]) if point.operator == "baddbmm" else right.shape[-1:]
        added = operand(factors(shape, rng, fill), dtype)
        operands.insert(0, added)
    wanted, scale, rounded = _product(*operands[-2:], add=added)
    return case(
        call_of(point, operands),
        wanted,
        scale=scale,
        rounded=rounded,
        terms=side(point, "K"),
        exact=fill is Fill.INTEGERS,
    )


def _linear(point: Point, rng: np.random.Generator, fill: Fill) -> Case | None:
    """Weights lie as outputs x inputs, and the bias is added last."""
    if fill is Fill.POISON and side(point, "M") < 2:
        return None
    dtype, layout = dtype_of(point), point.trait(LAYOUT) or PLAIN
    left, right = _pair(point, rng, fill)
    operands = [operand(left, dtype, layout), operand(right.T, dtype, layout)]
    added = None
    if point.trait("bias") == "yes":
        added = operand(factors((right.shape[-1],), rng, fill), dtype)
        operands.append(added)
    turned = plain(operands[1].floats().T, Dtype.F64)
    wanted, scale, rounded = _product(operands[0], turned, add=added)
    return case(
        call_of(point, operands),
        wanted,
        scale=scale,
        rounded=rounded,
        terms=side(point, "K"),
        exact=fill is Fill.INTEGERS,
    )


def _grouped(point: Point, rng: np.random.Generator, fill: Fill) -> Case | None:
    """Rows in order of their experts, `offsets` where each expert's rows end; an expert may have none."""
    experts, m, k, n = (side(point, name) for name in ("E", "M", "K", "N"))
    if fill is Fill.POISON and m < 2:
        return None
    dtype = dtype_of(point)
    ends = np.sort(rng.integers(0, m + 1, experts))
    ends[-1] = m
    left, right = numbers((m, k), rng, fill, terms=k, dtype=dtype), factors((experts, k, n), rng, fill)
    if fill is Fill.POISON:
        left = poisoned(left, some(m, rng), rng)
    operands = (operand(left, dtype), operand(right, dtype), indices(ends))
    a, b = operands[0].floats(), operands[1].floats()
    whose = np.searchsorted(ends, np.arange(m), side="right")
    wanted, scale = np.zeros((m, n)), np.zeros((m, n))
    with np.errstate(invalid="ignore"):
        for expert in np.unique(whose):
            rows = whose == expert
            wanted[rows], scale[rows] = a[rows] @ b[expert], np.abs(a[rows]) @ np.abs(b[expert])
    return case(call_of(point, operands), wanted, scale=scale, terms=k, exact=fill is Fill.INTEGERS)


def _nbits(point: Point, rng: np.random.Generator, fill: Fill) -> Case | None:
    """Weights in blocks of 4 bits along K: (q - 8) * scale, as ONNX Runtime's MatMulNBits has them."""
    if fill is Fill.POISON:
        return None
    m, n, block = side(point, "M"), side(point, "N"), side(point, "block")
    k = side(point, "blocks") * block
    codes = rng.integers(0, 16, (n, k // block, block), dtype=np.uint8)
    scales = rng.choice([0.5, 1.0, 2.0], (n, k // block)) if fill is Fill.INTEGERS else rng.random((n, k // block))
    packed = (codes[..., ::2] | (codes[..., 1::2] << 4)).astype(np.uint8)
    weight = ((codes.astype(np.float64) - 8) * scales.astype(np.float32).astype(np.float64)[..., None]).reshape(n, k)
    left = numbers((m, k), rng, fill, terms=4 * k)
    operands = (plain(left, Dtype.F32), of_bits(packed, Dtype.U8), plain(scales, Dtype.F32))
    a = operands[0].floats()
    call = call_of(point, operands, block_size=block, k=k, n=n)
    return case(call, a @ weight.T, scale=np.abs(a) @ np.abs(weight.T), terms=k)


def _row(name: str) -> OperatorRow:
    batch = (Axis(name="B", high=64),) if name in ("bmm", "baddbmm") else ()
    overloads = ("default", "out") if name in ("mm", "bmm", "addmm") else ("default",)
    return OperatorRow(
        name=name,
        group="products",
        space=space(
            name,
            (*batch, *_MKN),
            values=lambda at: at.get("B", 1) * (at["M"] * at["K"] + at["K"] * at["N"] + at["M"] * at["N"]),
            work=lambda at: at.get("B", 1) * at["M"] * at["K"] * at["N"],
            layouts=LAYOUTS,
            overloads=overloads,
        ),
        build=_mm,
        sides=("B", "M", "K", "N") if batch else ("M", "K", "N"),
        usual=_USUAL if not batch else tuple((("B", 3), *sides) for sides in _USUAL),
    )


def rows() -> tuple[OperatorRow, ...]:
    """All rows of this group."""

    linear = space(
        "linear",
        _MKN,
        values=lambda at: at["M"] * at["K"] + at["K"] * at["N"] + at["M"] * at["N"],
        work=lambda at: at["M"] * at["K"] * at["N"],
        layouts=LAYOUTS,
        other=(Choice(name="bias", words=("no", "yes")),),
    )
    grouped = space(
        "grouped_mm",
        (Axis(name="E", high=64), *_MKN),
        values=lambda at: at["M"] * at["K"] + at["E"] * at["K"] * at["N"] + at["M"] * at["N"],
        work=lambda at: at["M"] * at["K"] * at["N"],
    )
    blocks = Axis(name="block", values=(16, 32, 64, 128, 256, 512, 1024))
    nbits = space(
        "matmul_nbits",
        (Axis(name="M", high=64), Axis(name="N", high=2048), Axis(name="blocks", high=16), blocks),
        values=lambda at: (at["M"] + at["N"]) * at["blocks"] * at["block"],
        work=lambda at: at["M"] * at["N"] * at["blocks"] * at["block"],
        dtypes=(Dtype.F32,),
    )
    return (
        *(_row(name) for name in ("mm", "matmul", "addmm", "bmm", "baddbmm")),
        OperatorRow(name="linear", group="products", space=linear, build=_linear, sides=("M", "K", "N"), usual=_USUAL),
        OperatorRow(
            name="grouped_mm",
            group="products",
            space=grouped,
            build=_grouped,
            sides=("M", "K", "N"),
            usual=_GROUPED,
        ),
        OperatorRow(
            name="matmul_nbits",
            group="products",
            space=nbits,
            build=_nbits,
            sides=("M", "N", "blocks", "block"),
            usual=((("M", 1), ("N", 64), ("blocks", 2), ("block", 32)),),
            # Runtimes may round activations to 8 bits: half a step is 1/254 of the largest, some 4 times the usual.
            low=2.0**-6,
        ),
    )
