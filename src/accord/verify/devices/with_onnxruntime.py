"""ONNX Runtime behind the port: a graph of one operator for each shape.

In: `Call`s, an execution provider's name. Out: `Outcome`s. Invariant: a graph that the runtime refuses is unsupported.
"""

import functools
from typing import Any

from accord.terms.quirk import Version
from accord.verify.devices.arrays import array, tensors
from accord.verify.devices.cpu import features
from accord.verify.devices.graph_cache import GraphCache
from accord.verify.devices.onnx_graphs import NoGraph, fixed
from accord.verify.ports import USUAL_MODE, Answer, Call, Description, Outcome, Unsupported

_CPU = "CPUExecutionProvider"
_QUIET = 4  # fatal errors alone: what a graph lacks is told by the exception


class OnnxRuntimeDevice:
    """`provider`: such as `CUDA`, without `ExecutionProvider`; the CPU if empty."""

    def __init__(self, provider: str = "") -> None:
        self._provider = f"{provider}ExecutionProvider" if provider else _CPU
        self._name = f"onnxruntime:{provider}" if provider else "onnxruntime"
        self._graphs: GraphCache[Any] = GraphCache(functools.partial(_session, self._provider))

    def describe(self) -> Description:
        """The runtime's version. On a CPU its kernels are MLAS."""
        import onnxruntime

        on_cpu = self._provider == _CPU
        return Description(
            name=self._name,
            families=("mlas",) if on_cpu else (self._provider,),
            versions=(Version(library="onnxruntime", version=onnxruntime.__version__),),
            features=features() if on_cpu else (),
        )

    def run(self, call: Call) -> Outcome:
        """Runs the call; unsupported where there is no graph, or the runtime has no kernel for it."""
        from onnxruntime.capi import onnxruntime_pybind11_state as state

        refused = (
            state.NotImplemented, state.InvalidGraph, state.Fail, state.InvalidArgument, state.RuntimeException,
        )  # fmt: skip
        if call.overload != "default" or call.mode not in (USUAL_MODE, "eager"):
            return Unsupported(reason=f"onnxruntime: no {call.overload} {call.mode}")
        try:
            session, constant = self._graphs.graph(call), fixed(call)
            feed = {f"x{at}": array(one) for at, one in enumerate(call.operands) if at not in constant}
            return Answer(runs=tuple(tensors(session.run(None, feed)) for _ in range(call.repeat)))
        except (NoGraph, ValueError, TypeError, *refused) as error:
            return Unsupported(reason=f"{type(error).__name__}: {str(error)[:300]}")

    def close(self) -> None:
        """Gives the sessions back."""
        self._graphs.clear()


def _session(provider: str, model: bytes) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = _QUIET
    return onnxruntime.InferenceSession(model, options, providers=[provider])
