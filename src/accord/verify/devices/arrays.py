"""Operands as arrays of NumPy's kind, and back; bf16 and fp8 by `ml_dtypes` where a library brings it.

In: `Tensor`s. Out: arrays. Invariant: bits stay as they are.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from accord.verify.tensor import STORED, Bits, Dtype, Tensor, of_bits

_EXTRA: Mapping[Dtype, str] = {
    Dtype.BF16: "bfloat16",
    Dtype.F8E4M3: "float8_e4m3fn",
    Dtype.F8E5M2: "float8_e5m2",
}


def array(tensor: Tensor) -> Any:
    """The operand in its own strides, as a view. ModuleNotFoundError for bf16 and fp8 without ml_dtypes."""
    store = tensor.store
    if tensor.dtype in _EXTRA:
        import ml_dtypes

        store = store.view(getattr(ml_dtypes, _EXTRA[tensor.dtype]))
    strides = tuple(stride * store.itemsize for stride in tensor.strides)
    return np.lib.stride_tricks.as_strided(store[tensor.offset :], tensor.shape, strides)


def tensors(outputs: Any) -> tuple[Tensor, ...]:
    """What came out, one array or several."""
    several: Sequence[Any] = outputs if isinstance(outputs, tuple | list) else (outputs,)
    return tuple(_tensor(np.asarray(output)) for output in several)


def _tensor(found: Any) -> Tensor:
    by_name = {name: dtype for dtype, name in _EXTRA.items()}
    if found.dtype.name in by_name:
        dtype = by_name[found.dtype.name]
        bits: Bits = np.ascontiguousarray(found).view(STORED[dtype]).reshape(found.shape)
        return of_bits(bits, dtype)
    dtype = next(dtype for dtype, stored in STORED.items() if dtype not in _EXTRA and np.dtype(stored) == found.dtype)
    return of_bits(np.array(found), dtype)
