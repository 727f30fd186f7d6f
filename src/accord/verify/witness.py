"""Asks an independent library the same question, in as many bits as it has.

In: a case, a witness's device. Out: whether it agrees with what was wanted. Invariant: a witness answers from the very
values that the device was given; what it can't answer is None, never a yes.
"""

from dataclasses import replace

import numpy as np

from accord.verify.operators.row import Case
from accord.verify.ports import USUAL_MODE, Answer, Call, Device
from accord.verify.tensor import ROUNDOFF, Dtype, Tensor, plain

_NATIVE = ("cast",)  # what these answer depends on the dtype itself
_SLACK = ROUNDOFF[Dtype.F32]


def agrees(witness: Device, case: Case) -> bool | None:
    """Whether the witness comes to the answer wanted; None if it has no such operator."""
    for dtype in (None,) if case.call.operator in _NATIVE else (Dtype.F64, Dtype.F32):
        outcome = witness.run(_asked(case.call, dtype))
        if isinstance(outcome, Answer):
            return _same(case, outcome.runs[0])
    return None


def _asked(call: Call, dtype: Dtype | None) -> Call:
    operands = call.operands if dtype is None else tuple(_widened(tensor, dtype) for tensor in call.operands)
    return replace(call, operands=operands, overload="default", mode=USUAL_MODE, repeat=1)


def _widened(tensor: Tensor, dtype: Dtype) -> Tensor:
    return plain(tensor.floats(), dtype) if tensor.dtype in ROUNDOFF else tensor


def _same(case: Case, outputs: tuple[Tensor, ...]) -> bool:
    made = tuple(output.floats() for output in outputs)
    if case.consistent is not None:
        return case.consistent(made) is None
    for wanted, rounded, scale, got in zip(case.wanted, case.rounded, case.scale, made, strict=False):
        if got.shape != wanted.shape:
            return False
        # The witness errs, too: in f32 as far as the bound allows, and by its own rounding.
        slack = 4.0 * _SLACK * (rounded + np.sqrt(case.terms) * scale)
        with np.errstate(invalid="ignore"):
            near = np.abs(got - wanted) <= slack
        if not near[np.isfinite(wanted) & np.isfinite(slack)].all():
            return False
    return True
