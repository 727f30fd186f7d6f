"""NumPy, and the BLAS that it brings, behind the port.

In: `Call`s. Out: `Outcome`s. Invariant: what NumPy has no kernel for (bf16, fp8) is unsupported, not emulated.
"""

import numpy as np

from accord.terms.quirk import Version
from accord.verify.devices.array_ops import functions
from accord.verify.devices.arrays import array, tensors
from accord.verify.devices.cpu import features
from accord.verify.ports import USUAL_MODE, Answer, Call, Description, Outcome, Unsupported
from accord.verify.tensor import Dtype

_LACKS = (Dtype.BF16, Dtype.F8E4M3, Dtype.F8E5M2)


class NumpyDevice:
    """Computes in this process."""

    def __init__(self) -> None:
        self._functions = functions(np)

    def describe(self) -> Description:
        """NumPy's version; its BLAS counts as its own family."""
        return Description(
            name="numpy",
            families=("numpy", "openblas"),
            versions=(Version(library="numpy", version=np.__version__),),
            features=features(),
        )

    def run(self, call: Call) -> Outcome:
        """Runs the call."""
        made = self._functions.get(call.operator)
        if made is None or any(tensor.dtype in _LACKS for tensor in call.operands):
            return Unsupported(reason=f"numpy: no {call.operator} for these dtypes")
        if call.overload != "default" or call.mode not in (USUAL_MODE, "eager"):
            return Unsupported(reason=f"numpy: no {call.overload} {call.mode}")
        operands = [array(tensor) for tensor in call.operands]
        try:
            with np.errstate(all="ignore"):
                return Answer(runs=tuple(tensors(made(call, operands)) for _ in range(call.repeat)))
        except (TypeError, ValueError, IndexError) as error:
            return Unsupported(reason=f"{type(error).__name__}: {str(error)[:300]}")

    def close(self) -> None:
        """Nothing is held."""
