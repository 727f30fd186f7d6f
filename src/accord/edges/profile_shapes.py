"""The calls that a device is measured with.

In: what kind of processor it is. Out: `Call`s in the order in which they run. Invariant: shapes are those of models
(wide matrices with few and with many rows, long and short contexts), cheap ones first; work is counted as
`estimate/step.py` counts it.
"""

import itertools

import msgspec

from accord.terms.calibration import Kernel
from accord.terms.tensors import Math

MATH_BYTES = {Math.F32: 4, Math.F16: 2, Math.BF16: 2, Math.FP8: 1, Math.INT8: 1}
_HEADS, _HEAD = 8, 128


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One call. GEMM: `rows` x `inner` times `inner` x `columns`. Attention: `rows` sequences with `inner` keys each.

    COPY moves `rows` bytes; LAUNCH does next to nothing.
    """

    kernel: Kernel
    math: Math
    rows: int
    columns: int = 0
    inner: int = 0

    @property
    def heads(self) -> int:
        """Attention heads, each with keys and values of its own."""
        return _HEADS

    @property
    def head(self) -> int:
        """Values of one head."""
        return _HEAD

    @property
    def words(self) -> str:
        """The shape for people."""
        match self.kernel:
            case Kernel.GEMM:
                return f"{self.rows} x {self.inner} times {self.inner} x {self.columns}"
            case Kernel.PREFILL:
                return f"{self.rows} x {self.inner} new tokens, {_HEADS} heads of {_HEAD}"
            case Kernel.DECODE:
                return f"{self.rows} tokens after {self.inner} each, {_HEADS} heads of {_HEAD}"
            case Kernel.COPY:
                return f"{self.rows} bytes"
            case _:
                return "one value"

    @property
    def flops(self) -> float:
        """Floating-point operations; causal attention sees half of the pairs."""
        match self.kernel:
            case Kernel.GEMM:
                return 2.0 * self.rows * self.columns * self.inner
            case Kernel.PREFILL:
                return 4.0 * self.rows * _HEADS * _HEAD * self.inner * (self.inner + 1) / 2
            case Kernel.DECODE:
                return 4.0 * self.rows * _HEADS * _HEAD * self.inner
            case _:
                return 0.0

    @property
    def moved_bytes(self) -> float:
        """Bytes that have to be read or written."""
        size = MATH_BYTES[self.math]
        match self.kernel:
            case Kernel.GEMM:
                return float(size * (self.columns * self.inner + self.rows * (self.columns + self.inner)))
            case Kernel.PREFILL:
                return 4.0 * size * self.rows * _HEADS * _HEAD * self.inner
            case Kernel.DECODE:
                return 2.0 * size * self.rows * _HEADS * _HEAD * (self.inner + 1)
            case Kernel.COPY:
                return 2.0 * self.rows
            case _:
                return 0.0


def calls(maths: tuple[Math, ...], *, large: bool) -> tuple[Call, ...]:
    """What to run in these formats; `large` for accelerators, which small calls don't fill."""
    base = maths[0]
    found = [Call(kernel=Kernel.LAUNCH, math=base, rows=1)]
    # Smaller copies would stay in a cache, where no layer finds its weights.
    sizes = (1 << 28, 1 << 30) if large else (1 << 26, 1 << 28)
    found += [Call(kernel=Kernel.COPY, math=base, rows=size) for size in sizes]
    sides = ((4096, 4096), (14336, 4096), (4096, 14336)) if large else ((1024, 1024), (4096, 1024), (2048, 4096))
    rows = (1, 4, 16, 64, 256, 1024, 4096, 16384) if large else (1, 4, 16, 64, 256, 1024)
    for math, count, (columns, inner) in itertools.product(maths, rows, sides):
        found.append(Call(kernel=Kernel.GEMM, math=math, rows=count, columns=columns, inner=inner))
    base = Math.BF16 if Math.BF16 in maths else base
    lengths = (512, 2048, 8192) if large else (128, 512, 2048)
    found += [Call(kernel=Kernel.PREFILL, math=base, rows=1, inner=length) for length in lengths]
    for count, length in itertools.product((1, 8, 64) if large else (1, 4), (512, 4096, 16384)):
        found.append(Call(kernel=Kernel.DECODE, math=base, rows=count, inner=length))
    return tuple(found)
