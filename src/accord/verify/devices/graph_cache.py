"""Compiled graphs by the shape of a call, the latest ones kept.

In: a `Call`, a function that compiles a model's bytes. Out: what it made. Invariant: calls that differ in anything but
the values of their inputs never share a graph.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from accord.verify.devices.onnx_graphs import fixed, model_bytes
from accord.verify.ports import Call, State

Compiled = TypeVar("Compiled")
_KEPT_MAX = 64


class GraphCache(Generic[Compiled]):
    """`compiled(model)` is called once for each shape."""

    def __init__(self, compiled: Callable[[bytes], Compiled]) -> None:
        self._make = compiled
        self._kept: OrderedDict[str, Compiled] = OrderedDict()

    def graph(self, call: Call) -> Compiled:
        """The graph of this call. NoGraph if it has none."""
        if fixed(call):
            return self._make(model_bytes(call))
        if call.state is State.COLD:
            self._kept.clear()
        shapes = [(tensor.dtype.value, tensor.shape) for tensor in call.operands]
        key = f"{call.operator} {call.options} {shapes}"
        if key not in self._kept:
            self._kept[key] = self._make(model_bytes(call))
            if len(self._kept) > _KEPT_MAX:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]

    def clear(self) -> None:
        """Forgets all."""
        self._kept.clear()
