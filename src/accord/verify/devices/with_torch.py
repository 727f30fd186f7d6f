"""Any device of PyTorch behind the port: `cpu`, `cuda:0`, a vendor's `npu:0`, eager or compiled.

In: `Call`s, a device string, settings. Out: `Outcome`s. Invariant: operands reach the device with the strides and the
offset that the call says; an operator that raises is unsupported, and an answer is exactly what PyTorch gave.
"""

import functools
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from accord.terms.errors import BadInput, BrokenEdge
from accord.terms.quirk import Version
from accord.verify.devices.cpu import features
from accord.verify.devices.torch_ops import Made, dtypes, functions
from accord.verify.ports import Answer, Call, Description, Outcome, State, Unsupported
from accord.verify.tensor import Bits, Dtype, Tensor, of_bits

_SETTINGS = ("compile", "nomkldnn")
_GRAPHS_MAX = 256  # compiled functions kept, each a shared library in memory


class TorchDevice:
    """`target`: PyTorch's device string, and settings after `+`: `cpu+compile`, `cpu+nomkldnn`.

    The capability limits of PyTorch's and MKL's kernels are environment variables of its process.
    """

    def __init__(self, target: str) -> None:
        import torch

        self._where, *settings = target.split("+")
        for setting in settings:
            if setting not in _SETTINGS:
                raise BadInput(
                    field="DEVICE", value=setting, problem="no setting of torch", fix=f"use {', '.join(_SETTINGS)}"
                )
        self._name = f"torch:{target}"
        self._compiled = "compile" in settings
        if "nomkldnn" in settings:
            torch._C._set_mkldnn_enabled(False)
        self._functions = functions()
        self._ours = {made: ours for ours, made in dtypes().items()}
        self._graphs: dict[str, Callable[..., Any]] = {}

    def describe(self) -> Description:
        """PyTorch's version, the CPU's features where it computes there."""
        import torch

        on_cpu = self._where == "cpu"
        family = ("aten", "onednn", "mkl") if on_cpu else (self._where.partition(":")[0],)
        return Description(
            name=self._name,
            families=family,
            versions=(Version(library="torch", version=torch.__version__.partition("+")[0]),),
            features=features() if on_cpu else (),
            modes=("compile",) if self._compiled else ("eager", "compile") if on_cpu else ("eager",),
        )

    def run(self, call: Call) -> Outcome:
        """Runs the call; unsupported if PyTorch raises."""
        import torch

        made = self._functions.get(call.operator)
        if made is None:
            return Unsupported(reason=f"torch: {call.operator}: not in this device's table")
        if call.state is State.COLD:
            torch._dynamo.reset()
            self._graphs.clear()
        try:
            with torch.inference_mode():
                operands = [self._put(tensor) for tensor in call.operands]
                compute = self._chosen(call, made)
                return Answer(runs=tuple(self._taken(compute(operands)) for _ in range(call.repeat)))
        except (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError, AttributeError) as error:
            return Unsupported(reason=f"{type(error).__name__}: {str(error)[:300]}")

    def prepare(self, call: Call) -> Callable[[], object]:
        """The call as a function, its operands on the device: what is timed. BrokenEdge without such an operator."""
        made = self._functions.get(call.operator)
        if made is None:
            raise BrokenEdge(f"torch: {call.operator}: not in this device's table")
        operands = [self._put(tensor) for tensor in call.operands]
        compute = self._chosen(call, made)
        return lambda: compute(operands)

    def close(self) -> None:
        """Forgets what was compiled."""
        self._graphs.clear()

    def _chosen(self, call: Call, made: Made) -> Callable[[Sequence[Any]], Any]:
        if call.overload == "out":
            return functools.partial(self._into, call)
        if call.overload != "default":
            raise ValueError(f"{call.operator} has no overload {call.overload}")
        compute = functools.partial(made, call)
        return self._graph(call, compute) if self._compiled or call.mode == "compile" else compute

    def _graph(self, call: Call, compute: Callable[..., Any]) -> Callable[..., Any]:
        """The compiled function for calls of this shape; compiled on its first call."""
        import torch

        shapes = [(tensor.dtype, tensor.shape, tensor.strides) for tensor in call.operands]
        key = f"{call.operator} {call.overload} {call.options} {shapes}"
        if key not in self._graphs:
            _own_cache()
            if len(self._graphs) >= _GRAPHS_MAX:
                torch._dynamo.reset()
                self._graphs.clear()
            # Each has code of its own, so none is compiled anew for shapes that change.
            self._graphs[key] = torch.compile(compute, dynamic=False)
        return self._graphs[key]

    def _into(self, call: Call, operands: Sequence[Any]) -> Any:
        """The `out=` overload, into memory that holds NaN."""
        import torch

        shape = (*operands[-2].shape[:-1], operands[-1].shape[-1])
        out = torch.full(shape, float("nan"), dtype=operands[-1].dtype, device=operands[-1].device)
        return getattr(torch, call.operator)(*operands, out=out)

    def _put(self, tensor: Tensor) -> Any:
        import torch

        whole = torch.empty(tensor.store.nbytes, dtype=torch.uint8)  # aligned to 64, as `Tensor` promises
        whole.numpy()[:] = np.ascontiguousarray(tensor.store).view(np.uint8)
        there = whole.view(dtypes()[tensor.dtype]).to(self._where)
        return there.as_strided(tensor.shape, tensor.strides, tensor.offset)

    def _taken(self, outputs: Any) -> tuple[Tensor, ...]:
        several = outputs if isinstance(outputs, tuple | list) else (outputs,)
        return tuple(of_bits(self._bits(one), Dtype(self._ours[one.dtype])) for one in several)

    def _bits(self, output: Any) -> Bits:
        import torch

        here = output.detach().cpu().contiguous()
        kind = {
            torch.bfloat16: torch.int16,
            torch.float8_e4m3fn: torch.uint8,
            torch.float8_e5m2: torch.uint8,
        }.get(here.dtype)
        found: Bits = np.array((here if kind is None else here.view(kind)).numpy())
        return found.view(np.uint16) if kind is torch.int16 else found


def _own_cache() -> None:
    """Keeps compiled kernels on disk apart for each width of vectors.

    PyTorch 2.13 takes a kernel that was generated under another ATEN_CPU_CAPABILITY for its own, and then writes beyond
    its memory. A sweep must neither cause that nor take it for the operator's fault.
    """
    import torch

    width = torch.backends.cpu.get_cpu_capability().lower()
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"accord-inductor-{width}"))
