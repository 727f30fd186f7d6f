"""Operands and outputs as bits: a dtype, a shape, strides into a flat store.

In: float64 or integer arrays, layouts. Out: `Tensor`, `encode`, `decode`. Invariant: a tensor's bits are exact in
every process and library; numpy's lack of bf16 and fp8 is dealt with here and nowhere else.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

Bits = npt.NDArray[np.generic]
Floats = npt.NDArray[np.float64]


class Dtype(StrEnum):
    """Number formats of operands."""

    BOOL = "bool"
    U8 = "u8"
    I8 = "i8"
    I16 = "i16"
    I32 = "i32"
    I64 = "i64"
    F8E4M3 = "f8e4m3"  # the finite variant (OCP FP8, torch.float8_e4m3fn)
    F8E5M2 = "f8e5m2"
    F16 = "f16"
    BF16 = "bf16"
    F32 = "f32"
    F64 = "f64"


# How each dtype is stored; bf16 and fp8 travel as unsigned integers of their width.
STORED: Mapping[Dtype, str] = {
    Dtype.BOOL: "?",
    Dtype.U8: "u1",
    Dtype.I8: "i1",
    Dtype.I16: "<i2",
    Dtype.I32: "<i4",
    Dtype.I64: "<i8",
    Dtype.F8E4M3: "u1",
    Dtype.F8E5M2: "u1",
    Dtype.F16: "<f2",
    Dtype.BF16: "<u2",
    Dtype.F32: "<f4",
    Dtype.F64: "<f8",
}
# Unit roundoff: half the distance from 1 to the next number (IEEE 754; OCP FP8 1.0 for fp8).
ROUNDOFF: Mapping[Dtype, float] = {
    Dtype.F8E5M2: 2.0**-3,
    Dtype.F8E4M3: 2.0**-4,
    Dtype.BF16: 2.0**-8,
    Dtype.F16: 2.0**-11,
    Dtype.F32: 2.0**-24,
    Dtype.F64: 2.0**-53,
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tensor:
    """A view of `store` (one dimension, in `STORED`'s format): element strides, from element `offset` on.

    The store's first byte is aligned to 64, so `offset` decides the alignment. Compared by identity.
    """

    dtype: Dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    store: Bits
    offset: int = 0

    def bits(self) -> Bits:
        """The elements in order, in the stored format."""
        step = self.store.itemsize
        strides = tuple(stride * step for stride in self.strides)
        view = np.lib.stride_tricks.as_strided(self.store[self.offset :], self.shape, strides, writeable=False)
        return np.ascontiguousarray(view).reshape(self.shape)

    def floats(self) -> Floats:
        """The elements as float64; exact for every dtype but i64 beyond 2^53."""
        return decode(self.bits(), self.dtype)


def plain(values: npt.NDArray[np.generic], dtype: Dtype) -> Tensor:
    """A contiguous tensor of these values, rounded to nearest even where the dtype has fewer bits."""
    return of_bits(encode(values, dtype), dtype)


def of_bits(bits: Bits, dtype: Dtype) -> Tensor:
    """A contiguous tensor of these stored elements."""
    store = np.ascontiguousarray(bits).reshape(-1)
    return Tensor(dtype=dtype, shape=bits.shape, strides=dense_strides(bits.shape), store=store)


def dense_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Element strides of a contiguous array."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(shape[axis + 1], 1)
    return tuple(strides)


def encode(values: npt.NDArray[np.generic], dtype: Dtype) -> Bits:
    """Values in the stored format of a dtype, rounded to nearest even; infinities where they don't fit."""
    match dtype:
        case Dtype.BF16:
            return _to_bf16(values)
        case Dtype.F8E4M3 | Dtype.F8E5M2:
            return _to_fp8(values, dtype)
        case _:
            with np.errstate(over="ignore", invalid="ignore"):
                return values.astype(STORED[dtype])


def decode(bits: Bits, dtype: Dtype) -> Floats:
    """Stored elements as float64."""
    match dtype:
        case Dtype.BF16:
            with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
                return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        case Dtype.F8E4M3 | Dtype.F8E5M2:
            return _fp8_values(dtype)[bits.astype(np.intp)]
        case _:
            with np.errstate(invalid="ignore"):
                return bits.astype(np.float64)


def itemsize(dtype: Dtype) -> int:
    """Bytes of an element."""
    return np.dtype(STORED[dtype]).itemsize


def _to_bf16(values: npt.NDArray[np.generic]) -> Bits:
    single = np.ascontiguousarray(values, dtype=np.float32)
    bits = single.view(np.uint32).reshape(single.shape)
    rounded = (bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(single), 0x7FC0, rounded).astype("<u2")


def _to_fp8(values: npt.NDArray[np.generic], dtype: Dtype) -> Bits:
    table = _fp8_values(dtype)[:128]  # codes of the numbers that aren't negative, in order
    finite = table[np.isfinite(table)]
    magnitude = np.abs(values.astype(np.float64))
    right = np.clip(np.searchsorted(finite, magnitude), 1, len(finite) - 1)
    low, high = magnitude - finite[right - 1], finite[right] - magnitude
    code = np.where((low < high) | ((low == high) & (right % 2 == 1)), right - 1, right)
    # E5M2 goes on to infinity half a step beyond its largest number; E4M3 has no infinity, so it saturates.
    if dtype is Dtype.F8E5M2:
        code = np.where(magnitude >= 61440, 0x7C, code)
    code = np.where(np.isnan(magnitude), 0x7F, code)
    return np.where(np.signbit(values.astype(np.float64)), code | 0x80, code).astype("u1")


@functools.cache
def _fp8_values(dtype: Dtype) -> Floats:
    """All 256 numbers (OCP 8-bit Floating Point Specification 1.0, table 1)."""
    mantissa_bits, bias = (3, 7) if dtype is Dtype.F8E4M3 else (2, 15)
    codes = np.arange(256)
    exponent = (codes & 0x7F) >> mantissa_bits
    fraction = (codes & ((1 << mantissa_bits) - 1)) / (1 << mantissa_bits)
    size = np.where(exponent == 0, fraction * 2.0 ** (1 - bias), (1 + fraction) * 2.0 ** (exponent - bias))
    if dtype is Dtype.F8E4M3:
        size = np.where((codes & 0x7F) == 0x7F, np.nan, size)
    else:
        size = np.where(exponent == 31, np.where(fraction == 0, np.inf, np.nan), size)
    return np.where(codes >= 128, -size, size)
