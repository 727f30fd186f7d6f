"""One run's outputs against what was wanted: right, drifting as low precision does, or wrong.

In: a `Case`, outputs. Out: `Judgement`. Invariant: an element may err by `u_out rounded + 4 u_acc sqrt(terms) scale`
(Ipsen and Zhou, arXiv 1906.10465; lambda 4 is three times the largest seen, see docs/verify.md); nothing else is right.
"""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from accord.verify.operators.row import Case
from accord.verify.tensor import ROUNDOFF, Dtype, Floats, Tensor

LAMBDA = 4.0
# What rounding the operands to a narrower format does to a sum of products, in multiples of scale / sqrt(terms): the
# errors are independent, so they add as roots; 6 is four standard deviations and the spread of normal numbers.
_DRIFT = 6.0
LOW = ROUNDOFF[Dtype.BF16]  # the narrowest format that hints of precision ask for (bf16, f16, TF32)
_FINITE_MAX = {Dtype.F16: 65504.0, Dtype.BF16: (2 - 2.0**-7) * 2.0**127, Dtype.F32: (2 - 2.0**-23) * 2.0**127}


class Grade(IntEnum):
    """How far off, the worst last."""

    RIGHT = 0
    DRIFT = 1
    WRONG = 2
    LEAK = 3  # not a number where one was wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """`words` say what is worst about it; `flagged` elements of `of` are off."""

    grade: Grade
    words: str = ""
    flagged: int = 0
    of: int = 0


def judge(case: Case, outputs: tuple[Tensor, ...], *, sums_wide: bool = True, low: float = LOW) -> Judgement:
    """`sums_wide`: healthy libraries sum this operator in more bits than the operands have.

    `low` is the roundoff of the format that it may drift to.
    """
    made = tuple(output.floats() for output in outputs)
    if len(made) < len(case.wanted):
        return Judgement(grade=Grade.WRONG, words=f"{len(made)} outputs, {len(case.wanted)} wanted")
    worst = Judgement(grade=Grade.RIGHT)
    for at, (output, got) in enumerate(zip(outputs, made, strict=True)):
        if at >= len(case.wanted) or (case.consistent is not None and output.dtype not in ROUNDOFF):
            continue  # indices: `consistent` judges them
        if got.shape != case.wanted[at].shape:
            return Judgement(grade=Grade.WRONG, words=f"shape {got.shape}, wanted {case.wanted[at].shape}")
        worst = max(
            worst, _one(case, (output.dtype, got), at, sums_wide=sums_wide, low=low), key=lambda found: found.grade
        )
    if case.consistent is not None and (words := case.consistent(made)) is not None:
        return Judgement(grade=Grade.WRONG, words=words, flagged=1, of=made[-1].size)
    return worst


def allowed(case: Case, dtype: Dtype, at: int = 0) -> Floats:
    """How far each element of an output in this dtype may be off."""
    if case.exact:
        return np.zeros(case.wanted[at].shape)
    out = ROUNDOFF.get(dtype, 0.0)
    accumulator = min(ROUNDOFF[Dtype.F32], _operands(case))
    return _finite(out * case.rounded[at] + LAMBDA * accumulator * np.sqrt(case.terms) * case.scale[at])


def _one(case: Case, output: tuple[Dtype, Floats], at: int, *, sums_wide: bool, low: float) -> Judgement:
    (dtype, got), wanted = output, case.wanted[at]
    # Where NaN or infinity is wanted, or the format has no such number, anything may come.
    counts = np.isfinite(wanted) & (np.abs(wanted) <= _FINITE_MAX.get(dtype, np.inf))
    with np.errstate(invalid="ignore"):
        error = np.where(counts, np.abs(got - wanted), 0.0)
    off = counts & ~(error <= allowed(case, dtype, at))
    if not off.any():
        return Judgement(grade=Grade.RIGHT)
    lost = off & ~np.isfinite(got)
    wrong = off & ~(error <= _drift(case, dtype, at, sums_wide=sums_wide, low=low))
    grade = Grade.LEAK if lost.any() else Grade.WRONG if wrong.any() else Grade.DRIFT
    shown = lost if lost.any() else wrong if wrong.any() else off
    place = _worst(shown, error)
    where = ", ".join(map(str, place))
    words = f"{int(shown.sum())} of {shown.size} numbers; at [{where}] {got[place]:.6g}, wanted {wanted[place]:.6g}"
    return Judgement(grade=grade, words=words, flagged=int(shown.sum()), of=int(shown.size))


def _drift(case: Case, dtype: Dtype, at: int, *, sums_wide: bool, low: float) -> Floats:
    """How far low precision alone may lead: operands and results rounded to it, sums not."""
    if dtype not in ROUNDOFF:
        return np.zeros(case.wanted[at].shape)
    low = max(low, ROUNDOFF[dtype])
    if case.exact:
        return _finite(low * case.rounded[at])  # its operands are exact in low precision, too
    spread = case.scale[at]
    if sums_wide:
        spread = spread / np.sqrt(case.terms if case.window is None else case.window)
    return _finite(low * (case.rounded[at] + _DRIFT * spread))


def _operands(case: Case) -> float:
    floats = [ROUNDOFF[tensor.dtype] for tensor in case.call.operands if tensor.dtype in ROUNDOFF]
    return min(floats, default=ROUNDOFF[Dtype.F32])


def _finite(bound: Floats) -> Floats:
    return np.where(np.isfinite(bound), bound, 0.0)


def _worst(shown: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], error: Floats) -> tuple[int, ...]:
    sizes = np.where(shown, np.where(np.isfinite(error), error, np.inf), -1.0)
    return tuple(int(index) for index in np.unravel_index(int(np.argmax(sizes)), sizes.shape))
