"""Along rows and by elements: softmax, norms, reductions; activations, sums and products, casts, rotary positions.

In: points. Out: cases, wanted in float64 by the textbook's formulas. Invariant: a row decides its own answer and no
other's (save where rows are summed), so NaN in one row stays there.
"""

import functools
import math
from collections.abc import Callable, Mapping

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
    numbers,
    operand,
    side,
    some,
    space,
    tag,
)
from accord.verify.operators.row import Build, Case, Fill, OperatorRow
from accord.verify.space import Axis, Choice
from accord.verify.tensor import Dtype, Floats, Tensor

EPS = 1e-5
_TINY_F16 = 2.0**-13  # half a step of the subnormal numbers over the roundoff
_AXES = (Axis(name="rows", high=1 << 16), Axis(name="N", high=1 << 18))
_USUAL = ((("rows", 3), ("N", 128)), (("rows", 17), ("N", 1000)))
_SMALL = (Axis(name="rows", high=1 << 16), Axis(name="half", high=1024))

# A formula gives what is wanted, and what errors are proportional to.
Formula = Callable[[Floats], tuple[Floats, Floats]]


def _softmax(x: Floats) -> tuple[Floats, Floats]:
    """The exponent's argument is rounded, so errors grow with its size."""
    shifted = x - x.max(axis=-1, keepdims=True)
    raised = np.exp(shifted)
    soft = raised / raised.sum(axis=-1, keepdims=True)
    return soft, soft * (1.0 + np.abs(shifted))


def _log_softmax(x: Floats) -> tuple[Floats, Floats]:
    shifted = x - x.max(axis=-1, keepdims=True)
    wanted = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return wanted, 1.0 + np.abs(shifted) + np.abs(wanted)


def _sigmoid(x: Floats) -> Floats:
    return 1.0 / (1.0 + np.exp(-x))


def _gelu(x: Floats) -> tuple[Floats, Floats]:
    return 0.5 * x * (1.0 + _erf(x / math.sqrt(2.0))), 1.0 + np.abs(x)


def _gelu_tanh(x: Floats) -> tuple[Floats, Floats]:
    inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1.0 + np.tanh(inner)), 1.0 + np.abs(x)


def _erf(x: Floats) -> Floats:
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x))


_FORMULAS: Mapping[str, Formula] = {
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "mean": lambda x: (x.mean(axis=-1), 2.0 * np.abs(x).mean(axis=-1)),
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "silu": lambda x: (x * _sigmoid(x), 1.0 + np.abs(x)),
    "sigmoid": lambda x: (_sigmoid(x), np.ones_like(x)),
    "tanh": lambda x: (np.tanh(x), np.ones_like(x)),
    "exp": lambda x: (np.exp(x), np.exp(x) * (1.0 + np.abs(x))),
}
# These are exact on integers, too.
_EXACT: Mapping[str, Formula] = {
    "sum": lambda x: (x.sum(axis=-1), np.abs(x).sum(axis=-1)),
    "sum_rows": lambda x: (x.sum(axis=0), np.abs(x).sum(axis=0)),
    "cumsum": lambda x: (x.cumsum(axis=-1), np.abs(x).cumsum(axis=-1)),
    "amax": lambda x: (x.max(axis=-1), np.zeros(x.shape[:-1])),
    "amin": lambda x: (x.min(axis=-1), np.zeros(x.shape[:-1])),
    "relu": lambda x: (np.maximum(x, 0.0), np.zeros_like(x)),
}
_SUMS = ("sum", "sum_rows")
_EXTREMES = {"amax": 2.0, "amin": -2.0}
_BY_ELEMENT = ("gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "exp", "relu")


def _one(point: Point, rng: np.random.Generator, fill: Fill, *, formula: Formula, exact: bool) -> Case | None:
    rows, width = side(point, "rows"), side(point, "N")
    if (fill is Fill.INTEGERS and not exact) or (fill is Fill.POISON and rows < 2):
        return None
    summed = {"sum_rows": rows}.get(point.operator, width)
    values = numbers((rows, width), rng, fill, terms=summed)
    if fill is Fill.INTEGERS and point.operator in _SUMS:
        return _whole_sum(point, rng, formula)
    if fill is Fill.INTEGERS and point.operator in _EXTREMES:
        values[:, -1] = _EXTREMES[point.operator]  # the last number decides: it is where a counter's width ends
    given = _spoiled(point, values, rng, fill)
    with np.errstate(all="ignore"):
        wanted, scale = formula(given.floats())
    terms = 1.0 if point.operator in _BY_ELEMENT else float(summed)
    return case(
        call_of(point, (given,)),
        wanted,
        scale=scale,
        rounded=np.abs(wanted) if exact else _rounded(point, wanted, scale),
        terms=terms,
        exact=exact and fill is Fill.INTEGERS,
    )


def _whole_sum(point: Point, rng: np.random.Generator, formula: Formula) -> Case:
    """Integers as large as the format has all of; their sum is exact in f32, so only the answer may be rounded."""
    most = 15 if dtype_of(point) is Dtype.F16 else 127  # 65,504 is the end in f16
    values = rng.integers(-most, most + 1, (side(point, "rows"), side(point, "N"))).astype(np.float64)
    given = operand(values, dtype_of(point), point.trait(LAYOUT) or PLAIN)
    wanted, _ = formula(given.floats())
    return case(call_of(point, (given,)), wanted, scale=np.zeros_like(wanted))


def _rounded(point: Point, wanted: Floats, scale: Floats) -> Floats:
    """In half precision libraries may round each part by itself: exponent and quotient, difference and logarithm."""
    parts = 2.0 * (scale if point.operator == "log_softmax" else np.abs(wanted))
    return parts + _tiny(point)


def _spoiled(point: Point, values: Floats, rng: np.random.Generator, fill: Fill) -> Tensor:
    """With some rows made NaN. Not infinity: what becomes of that in its own row, libraries answer differently."""
    if fill is Fill.POISON:
        values = values.copy()
        values[some(len(values), rng)] = np.nan
    return operand(values, dtype_of(point), point.trait(LAYOUT) or PLAIN)


def _tiny(point: Point) -> float:
    """What underflows to zero, or is subnormal, over the roundoff: f16 has few digits below 6e-5."""
    return _TINY_F16 if dtype_of(point) is Dtype.F16 else 2.0**-100


def _norm(point: Point, rng: np.random.Generator, fill: Fill) -> Case | None:
    """layer_norm and rms_norm with weights, layer_norm with a bias, too."""
    rows, width = side(point, "rows"), side(point, "N")
    if fill is Fill.INTEGERS or (fill is Fill.POISON and rows < 2):
        return None
    given = _spoiled(point, rng.standard_normal((rows, width)), rng, fill)
    weight = operand(rng.standard_normal(width), dtype_of(point))
    x, w = given.floats(), weight.floats()
    operands = [given, weight]
    with np.errstate(all="ignore"):
        centre = x.mean(axis=-1, keepdims=True) if point.operator == "layer_norm" else 0.0
        spread = np.sqrt(((x - centre) ** 2).mean(axis=-1, keepdims=True) + EPS)
        normed = (x - centre) / spread
        # Near a row's mean the difference is small and its error is not: it is that of the row's largest number.
        largest = np.abs(x).max(axis=-1, keepdims=True) / spread
        wanted, scale = normed * w, (np.abs(normed) * (1.0 + largest**2) + largest) * np.abs(w)
    rounded = 2.0 * np.abs(wanted) + _tiny(point)
    if point.operator == "layer_norm":
        bias = operand(rng.standard_normal(width), dtype_of(point))
        operands.append(bias)
        rounded, wanted, scale = rounded + np.abs(bias.floats()), wanted + bias.floats(), scale + np.abs(bias.floats())
    return case(call_of(point, operands, eps=EPS), wanted, scale=scale, rounded=rounded, terms=width)


def _two(point: Point, rng: np.random.Generator, fill: Fill) -> Case | None:
    """add and mul of two tensors of one shape."""
    shape = side(point, "rows"), side(point, "N")
    if fill is Fill.POISON and shape[0] < 2:
        return None
    given = _spoiled(point, numbers(shape, rng, fill), rng, fill)
    other = operand(factors(shape, rng, fill), dtype_of(point))
    with np.errstate(invalid="ignore"):
        x, y = given.floats(), other.floats()
        wanted = x + y if point.operator == "add" else x * y
    return case(call_of(point, (given, other)), wanted, rounded=np.abs(wanted) + _tiny(point))


def _cast(point: Point, rng: np.random.Generator, fill: Fill) -> Case | None:
    """To a narrower, a wider or a whole number: rounded to nearest, ties to even; toward zero for integers."""
    shape, target = (side(point, "rows"), side(point, "N")), Dtype(tag(point, "to"))
    if fill is Fill.POISON:
        return None
    values = numbers(shape, rng, fill) * (100.0 if target is Dtype.I32 else 1.0)
    given = operand(values, dtype_of(point), point.trait(LAYOUT) or PLAIN)
    x = given.floats()
    wanted = np.trunc(x) if target is Dtype.I32 else x
    exact = fill is Fill.INTEGERS or target is Dtype.I32
    tiny = _TINY_F16 if target is Dtype.F16 else _tiny(point)
    return case(call_of(point, (given,), to=target.value), wanted, rounded=np.abs(x) + tiny, exact=exact)


def _rope(point: Point, rng: np.random.Generator, fill: Fill) -> Case | None:
    """x cos + rotate_half(x) sin; both products may be rounded before they are added."""
    rows, half = side(point, "rows"), side(point, "half")
    if fill is Fill.INTEGERS or (fill is Fill.POISON and rows < 2):
        return None
    angles = np.tile(rng.uniform(0.0, 6.0, (rows, half)), 2)
    given = _spoiled(point, rng.standard_normal((rows, 2 * half)), rng, fill)
    cos, sin = operand(np.cos(angles), dtype_of(point)), operand(np.sin(angles), dtype_of(point))
    with np.errstate(invalid="ignore"):
        x = given.floats()
        turned = np.concatenate([-x[:, half:], x[:, :half]], axis=1)
        wanted = x * cos.floats() + turned * sin.floats()
        parts = np.abs(x * cos.floats()) + np.abs(turned * sin.floats())
    return case(call_of(point, (given, cos, sin)), wanted, scale=parts, rounded=np.abs(wanted) + parts + _tiny(point))


def rows() -> tuple[OperatorRow, ...]:
    """All rows of this group."""
    found = [_row(name, functools.partial(_one, formula=made, exact=False)) for name, made in _FORMULAS.items()]
    found += [_row(name, functools.partial(_one, formula=made, exact=True)) for name, made in _EXACT.items()]
    found += [_row(name, build) for name, build in (("layer_norm", _norm), ("rms_norm", _norm))]
    found += [_row(name, build) for name, build in (("add", _two), ("mul", _two))]
    found.append(_row("cast", _cast, other=(Choice(name="to", words=("f32", "bf16", "f16", "i32")),)))
    rope = space("rope", _SMALL, values=lambda at: 8 * at["rows"] * at["half"], layouts=LAYOUTS)
    usual = ((("rows", 17), ("half", 32)),)
    found.append(
        OperatorRow(name="rope", group="rowwise", space=rope, build=_rope, sides=("rows", "half"), usual=usual)
    )
    return tuple(found)


def _row(name: str, build: Build, *, other: tuple[Choice, ...] = ()) -> OperatorRow:
    made = space(name, _AXES, values=lambda at: 4 * at["rows"] * at["N"], layouts=LAYOUTS, other=other)
    return OperatorRow(
        name=name, group="rowwise", space=made, build=build, sides=("rows", "N"), usual=_USUAL, sums_wide=name in _SUMS
    )
