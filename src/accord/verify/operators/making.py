"""Pieces that rows are made of: spaces, operands in layouts, cases.

In: facts, traits, arrays. Out: `Space`s, `Tensor`s, `Case`s. Invariant: an operand has the layout that its point says,
and its values are those of its bits.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from accord.terms.quirk import Fact, Point, Trait
from accord.verify.operators.row import Case, Consistent, Fill
from accord.verify.ports import USUAL_MODE, Call, Option, Value
from accord.verify.space import Axis, Choice, Space
from accord.verify.tensor import STORED, Dtype, Floats, Tensor, dense_strides, encode, itemsize

FLOATS = (Dtype.F32, Dtype.BF16, Dtype.F16)
PLAIN, TRANSPOSED, OFFSET, STRIDED = "plain", "transposed", "offset", "strided"
LAYOUTS = (PLAIN, TRANSPOSED, OFFSET, STRIDED)
DTYPE, LAYOUT, OVERLOAD = "dtype", "layout", "overload"
VALUES_MAX = 1 << 22  # in all operands and outputs together: 32 MiB in float64
PRODUCTS_MAX = 1 << 29
MODEL_TIMES = 16  # the calls of models may be so many times larger
# So many products of a sum aren't zero: twice as much is below 256 in bf16 and 2,048 in f16, up to where all integers
# are exact; wider formats hold every sum there is.
_TERMS_MAX = {Dtype.BF16: 60, Dtype.F16: 480}
_EDGE = 4


def space(
    operator: str,
    axes: Sequence[Axis],
    *,
    values: Callable[[Mapping[str, int]], float],
    work: Callable[[Mapping[str, int]], float] = lambda _: 0.0,
    dtypes: Sequence[Dtype] = FLOATS,
    layouts: Sequence[str] = (PLAIN,),
    overloads: Sequence[str] = ("default",),
    other: Sequence[Choice] = (),
) -> Space:
    """The space of an operator. `values` counts elements, `work` multiplies: beyond the limits there are no points."""
    choices = [Choice(name=DTYPE, words=tuple(dtype.value for dtype in dtypes))]
    if len(layouts) > 1:
        choices.append(Choice(name=LAYOUT, words=tuple(layouts)))
    if len(overloads) > 1:
        choices.append(Choice(name=OVERLOAD, words=tuple(overloads)))

    def within(times: int) -> Callable[[Point], Point | None]:
        def complete(point: Point) -> Point | None:
            sides = {fact.name: fact.value for fact in point.facts}
            if not 0 < values(sides) <= times * VALUES_MAX or work(sides) > times * PRODUCTS_MAX:
                return None
            size = Fact(name="itemsize", value=itemsize(dtype_of(point)))
            return replace(point, facts=(*point.facts, size))

        return complete

    return Space(
        operator=operator,
        axes=tuple(axes),
        choices=(*choices, *other),
        complete=within(1),
        whole=within(MODEL_TIMES),
    )


def dtype_of(point: Point) -> Dtype:
    """The dtype of a point's operands."""
    return Dtype(point.trait(DTYPE) or Dtype.F32.value)


def side(point: Point, name: str) -> int:
    """A side that every point of the space has."""
    value = point.fact(name)
    if value is None:
        raise KeyError(f"{point.operator}: the point has no {name}")
    return value


def numbers(
    shape: Sequence[int], rng: np.random.Generator, fill: Fill, *, terms: int = 1, dtype: Dtype = Dtype.BF16
) -> Floats:
    """Values for one operand. Integers are sparse enough for sums of `terms` products to be exact in `dtype`.

    The first and the last ones of the last dimension are never zero: there kernels forget what is left over.
    """
    if fill is Fill.INTEGERS:
        signs = rng.integers(0, 2, shape) * 2.0 - 1.0
        there = rng.random(shape) < min(1.0, _TERMS_MAX.get(dtype, terms) / max(1, terms))
        if len(shape):
            there[..., :_EDGE] = there[..., -_EDGE:] = True
        return np.where(there, signs, 0.0)
    return rng.standard_normal(shape)


def factors(shape: Sequence[int], rng: np.random.Generator, fill: Fill) -> Floats:
    """Values for the other operand of a product."""
    return rng.integers(-2, 3, shape).astype(np.float64) if fill is Fill.INTEGERS else rng.standard_normal(shape)


def some(count: int, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """About half of so many rows: at least one, and not all of two or more. Most have a neighbour that isn't chosen."""
    chosen = rng.random(count) < 0.5
    one, other = rng.permutation(count)[[0, -1]]
    chosen[other] = False
    chosen[one] = True
    return chosen


def poisoned(values: Floats, rows: int | npt.NDArray[np.bool_], rng: np.random.Generator) -> Floats:
    """With these of the first dimension's rows made NaN or infinite, throughout."""
    values = values.copy()
    values[rows] = np.nan if rng.random() < 0.7 else np.inf
    return values


def operand(values: Floats, dtype: Dtype, layout: str = PLAIN) -> Tensor:
    """The values rounded to the dtype, in this layout; `transposed` swaps the last two dimensions in memory."""
    shape = values.shape
    match layout:
        case "transposed" if len(shape) >= 2:
            swapped = np.swapaxes(encode(values, dtype), -1, -2)
            strides = list(dense_strides(swapped.shape))
            strides[-1], strides[-2] = strides[-2], strides[-1]
            store = np.ascontiguousarray(swapped).reshape(-1)
            return Tensor(dtype=dtype, shape=shape, strides=tuple(strides), store=store)
        case "offset":
            store = np.zeros(values.size + 1, dtype=STORED[dtype])
            store[1:] = encode(values, dtype).reshape(-1)
            return Tensor(dtype=dtype, shape=shape, strides=dense_strides(shape), store=store, offset=1)
        case "strided" if len(shape) >= 1:
            wide = (*shape[:-1], shape[-1] + 3)
            filled = np.full(wide, np.nan)
            filled[..., : shape[-1]] = values
            return Tensor(
                dtype=dtype, shape=shape, strides=dense_strides(wide), store=encode(filled, dtype).reshape(-1)
            )
        case _:
            store = np.ascontiguousarray(encode(values, dtype)).reshape(-1)
            return Tensor(dtype=dtype, shape=shape, strides=dense_strides(shape), store=store)


def indices(values: npt.NDArray[np.integer]) -> Tensor:
    """An operand of 64-bit integers."""
    store = np.ascontiguousarray(values, dtype="<i8").reshape(-1)
    return Tensor(dtype=Dtype.I64, shape=values.shape, strides=dense_strides(values.shape), store=store)


def call_of(point: Point, operands: Sequence[Tensor], **options: Value) -> Call:
    """The call of a point."""
    return Call(
        operator=point.operator,
        operands=tuple(operands),
        options=tuple(Option(name=name, value=value) for name, value in options.items()),
        overload=point.trait(OVERLOAD) or "default",
        mode=point.trait("mode") or USUAL_MODE,
    )


def case(
    call: Call,
    wanted: Floats,
    *,
    scale: Floats | None = None,
    rounded: Floats | None = None,
    terms: float = 1.0,
    exact: bool = False,
    consistent: Consistent | None = None,
) -> Case:
    """A case with one output; what isn't given is proportional to the answer itself."""
    size = np.abs(wanted)
    return Case(
        call=call,
        wanted=(wanted,),
        scale=(size if scale is None else scale,),
        rounded=(size if rounded is None else rounded,),
        terms=terms,
        exact=exact,
        consistent=consistent,
    )


def tag(point: Point, name: str) -> str:
    """A word that every point of the space has."""
    word = point.trait(name)
    if word is None:
        raise KeyError(f"{point.operator}: the point has no {name}")
    return word


def trait(name: str, word: str) -> Trait:
    """A trait, in short."""
    return Trait(name=name, word=word)
