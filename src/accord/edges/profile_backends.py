"""How calls are run on a device: through PyTorch, or through numpy on a CPU without it.

In: a `Call`. Out: a function that runs it once, and one that waits for what was started. Invariant: weights and caches
are larger together than any cache of the device and are used in turn, as the layers of a model are.
"""

import itertools
import os
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Protocol

import numpy as np

from accord.edges.profile_shapes import Call
from accord.terms.calibration import Kernel
from accord.terms.errors import BrokenEdge
from accord.terms.fleet import Vendor
from accord.terms.tensors import Math

Run = Callable[[], object]

# PyTorch's name for each vendor's devices, and the package that teaches it the name; None: PyTorch itself.
TORCH_TYPES: dict[Vendor, tuple[str, str | None]] = {
    Vendor.CPU: ("cpu", None),
    Vendor.NVIDIA: ("cuda", None),
    Vendor.AMD: ("cuda", None),
    Vendor.ASCEND: ("npu", "torch_npu"),
    Vendor.CAMBRICON: ("mlu", "torch_mlu"),
    Vendor.MOORE_THREADS: ("musa", "torch_musa"),
    Vendor.KUNLUNXIN: ("cuda", "torch_xmlir"),
    Vendor.ILUVATAR: ("cuda", None),
    Vendor.METAX: ("cuda", None),
    Vendor.HYGON: ("cuda", None),
    Vendor.ENFLAME: ("gcu", "torch_gcu"),
}
_COLD_BYTES = {True: 1 << 30, False: 192 << 20}  # beyond the last cache of an accelerator, and of a CPU
_SETS_MAX = 64


class Backend(Protocol):
    """One device."""

    tool: str
    name: str | None

    def maths(self) -> tuple[Math, ...]:
        """Formats that it multiplies in, the plainest first."""

    def prepared(self, call: Call) -> Run:
        """Makes the operands; gives what runs the call once."""

    def wait(self) -> None:
        """Waits until all that was started has ended."""


class NumpyBackend:
    """A CPU by its BLAS alone: float32."""

    def __init__(self) -> None:
        self.tool = f"numpy {np.__version__}"
        self.name: str | None = None
        self._random = np.random.default_rng(0)

    def maths(self) -> tuple[Math, ...]:
        """float32: BLAS has nothing shorter."""
        return (Math.F32,)

    def prepared(self, call: Call) -> Run:
        """The call by numpy."""
        match call.kernel:
            case Kernel.GEMM:
                left = self._values(call.rows, call.inner)
                rights = self._turns(call, call.inner, call.columns)
                return lambda: left @ next(rights)
            case Kernel.PREFILL | Kernel.DECODE:
                return self._attention(call)
            case Kernel.COPY:
                source = np.ones(max(1, call.rows // 4), dtype=np.float32)
                target = np.empty_like(source)
                return lambda: np.copyto(target, source)
            case _:
                one = np.ones(1, dtype=np.float32)
                return lambda: one + one

    def wait(self) -> None:
        """Nothing runs on its own."""

    def _attention(self, call: Call) -> Run:
        new = call.inner if call.kernel is Kernel.PREFILL else 1
        shape = (call.rows, call.heads)
        queries = self._values(*shape, new, call.head)
        keys = self._turns(call, *shape, call.head, call.inner)
        values = self._turns(call, *shape, call.inner, call.head)
        mask = np.triu(np.full((new, call.inner), -np.inf, dtype=np.float32), 1) if new > 1 else np.float32(0)

        def run() -> object:
            scores = queries @ next(keys) + mask
            scores -= scores.max(axis=-1, keepdims=True)
            np.exp(scores, out=scores)
            scores /= scores.sum(axis=-1, keepdims=True)
            return scores @ next(values)

        return run

    def _turns(self, call: Call, *shape: int) -> Iterator[np.ndarray]:
        return itertools.cycle([self._values(*shape) for _ in range(_sets(call, large=False))])

    def _values(self, *shape: int) -> np.ndarray:
        return self._random.standard_normal(shape, dtype=np.float32)


class TorchBackend:
    """Any device that PyTorch can address, by PyTorch's own kernels."""

    def __init__(self, kind: str, module: str | None) -> None:
        self._torch = torch = _torch(module)
        self._kind = kind
        if kind != "cpu" and not getattr(torch, kind).is_available():
            raise BrokenEdge(f"profile: PyTorch {torch.__version__} sees no {kind} device on this machine")
        self.name = None if kind == "cpu" else str(getattr(torch, kind).get_device_name(0))
        self.tool = f"PyTorch {torch.__version__}"
        if kind == "cpu":
            torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
        self._types = {Math.F32: torch.float32, Math.F16: torch.float16, Math.BF16: torch.bfloat16}

    def maths(self) -> tuple[Math, ...]:
        """What PyTorch multiplies in everywhere; float16 would be slow emulation on a CPU."""
        return (Math.F32, Math.BF16) if self._kind == "cpu" else (Math.BF16, Math.F16, Math.F32)

    def prepared(self, call: Call) -> Run:
        """The call by PyTorch."""
        torch = self._torch
        match call.kernel:
            case Kernel.GEMM:
                left = self._values(call, call.rows, call.inner)
                rights = self._turns(call, call.columns, call.inner)
                return lambda: torch.nn.functional.linear(left, next(rights))
            case Kernel.PREFILL | Kernel.DECODE:
                causal = call.kernel is Kernel.PREFILL
                shape = (call.rows, call.heads)
                queries = self._values(call, *shape, call.inner if causal else 1, call.head)
                keys = self._turns(call, *shape, call.inner, call.head)
                values = self._turns(call, *shape, call.inner, call.head)
                attend = torch.nn.functional.scaled_dot_product_attention
                return lambda: attend(queries, next(keys), next(values), is_causal=causal)
            case Kernel.COPY:
                source = torch.ones(max(1, call.rows // 4), dtype=torch.float32, device=self._kind)
                target = torch.empty_like(source)
                return lambda: target.copy_(source)
            case _:
                one = torch.ones(1, device=self._kind)
                return lambda: one + one

    def wait(self) -> None:
        """Waits for the device's queue."""
        if self._kind != "cpu":
            getattr(self._torch, self._kind).synchronize()

    def _turns(self, call: Call, *shape: int) -> Iterator[object]:
        sets = _sets(call, large=self._kind != "cpu")
        return itertools.cycle([self._values(call, *shape) for _ in range(sets)])

    def _values(self, call: Call, *shape: int) -> object:
        return self._torch.randn(*shape, device=self._kind).to(self._types[call.math])


def backend(vendor: Vendor) -> Backend:
    """What runs calls on a device of this vendor. BrokenEdge where this machine has none, or no PyTorch for it."""
    if vendor not in TORCH_TYPES:
        raise BrokenEdge(f"profile: no PyTorch device is known for {vendor}")
    kind, module = TORCH_TYPES[vendor]
    try:
        return TorchBackend(kind, module)
    except ModuleNotFoundError as error:
        if kind == "cpu":
            return NumpyBackend()
        raise BrokenEdge(f"profile: {kind} devices are measured with the package {error.name}; install it") from error


def _torch(module: str | None) -> ModuleType:
    import importlib

    torch = importlib.import_module("torch")
    if module is not None:
        importlib.import_module(module)
    return torch


def _sets(call: Call, *, large: bool) -> int:
    """How many sets of weights or keys are used in turn."""
    return int(min(_SETS_MAX, 1 + _COLD_BYTES[large] // max(1, int(call.moved_bytes))))
