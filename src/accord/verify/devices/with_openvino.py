"""OpenVINO behind the port, with its hint of a precision.

In: `Call`s, a device of OpenVINO's and a hint. Out: `Outcome`s. Invariant: without a hint it computes in the dtype of
the call, so what drifts is a kernel's own doing.
"""

from typing import Any

from accord.terms.errors import BadInput
from accord.terms.quirk import Version
from accord.verify.devices.arrays import array, tensors
from accord.verify.devices.cpu import features
from accord.verify.devices.graph_cache import GraphCache
from accord.verify.devices.onnx_graphs import NoGraph, fixed
from accord.verify.ports import USUAL_MODE, Answer, Call, Description, Outcome, Unsupported

_HINTS = ("f32", "bf16", "f16")


class OpenVinoDevice:
    """`target`: OpenVINO's device, `CPU` if empty, and a hint after `+`: `CPU+bf16`."""

    def __init__(self, target: str = "") -> None:
        import openvino

        self._where, _, hint = target.partition("+")
        self._hint = hint or "f32"
        if self._hint not in _HINTS:
            raise BadInput(
                field="DEVICE", value=hint, problem="no precision hint", fix=f"use one of {', '.join(_HINTS)}"
            )
        self._name = f"openvino:{target}" if target else "openvino"
        self._core = openvino.Core()
        self._graphs: GraphCache[Any] = GraphCache(self._compiled)

    def describe(self) -> Description:
        """Its CPU kernels are largely oneDNN's, so PyTorch on a CPU is no independent witness."""
        import openvino

        on_cpu = self._where in ("", "CPU")
        return Description(
            name=self._name,
            families=("openvino", "onednn") if on_cpu else ("openvino", self._where),
            versions=(Version(library="openvino", version=openvino.__version__.partition("-")[0]),),
            features=features() if on_cpu else (),
        )

    def run(self, call: Call) -> Outcome:
        """Runs the call; unsupported where there is no graph, or OpenVINO can't read it."""
        if call.overload != "default" or call.mode not in (USUAL_MODE, "eager"):
            return Unsupported(reason=f"openvino: no {call.overload} {call.mode}")
        try:
            compiled, constant = self._graphs.graph(call), fixed(call)
            feed = {f"x{at}": array(one) for at, one in enumerate(call.operands) if at not in constant}
            return Answer(runs=tuple(self._taken(compiled, feed) for _ in range(call.repeat)))
        except (NoGraph, RuntimeError, ValueError, TypeError) as error:
            return Unsupported(reason=f"{type(error).__name__}: {str(error)[:300]}")

    def close(self) -> None:
        """Gives the graphs back."""
        self._graphs.clear()

    def _taken(self, compiled: Any, feed: Any) -> Any:
        found = compiled(feed)
        return tensors(tuple(found[output].copy() for output in compiled.outputs))

    def _compiled(self, model: bytes) -> Any:
        read = self._core.read_model(model, b"")
        return self._core.compile_model(read, self._where or "CPU", {"INFERENCE_PRECISION_HINT": self._hint})
