"""Each operator of the table as an ONNX graph, for the runtimes that read such graphs.

In: a `Call`. Out: a serialized model whose inputs are the operands `x0`, `x1`, ... Invariant: standard operators of
opset 21 wherever there are any, so every runtime may take the graph; weights of four bits are constants, as in models.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from accord.verify.ports import Call
from accord.verify.tensor import Dtype, Tensor

OPSET = 21
_IR = 10  # the format's version that came with opset 21


class NoGraph(Exception):
    """The operator, or one of its dtypes, has no graph here."""


@dataclass(slots=True)
class _Graph:
    """A graph as it grows: nodes, constants, and how many names are taken."""

    call: Call
    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)

    def add(self, kind: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes: Any) -> Any:
        """A node; gives the names of its outputs."""
        from onnx import helper

        names = [f"t{len(self.nodes)}_{number}" for number in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, domain=domain, **attributes))
        return names[0] if outputs == 1 else tuple(names)

    def constant(self, values: npt.NDArray[np.generic]) -> str:
        """A constant; gives its name."""
        from onnx import numpy_helper

        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def like(self, value: float) -> str:
        """A scalar in the first operand's dtype."""
        return self.constant(np.asarray(value, dtype=_NUMPY[self.call.operands[0].dtype]))

    def integers(self, *values: int) -> str:
        """A list of 64-bit integers."""
        return self.constant(np.asarray(values, dtype=np.int64))

    def number(self, name: str) -> Any:
        """An option that the call must have."""
        value = self.call.option(name)
        if value is None:
            raise NoGraph(f"{self.call.operator}: no {name}")
        return value

    def shape(self, at: int = 0) -> tuple[int, ...]:
        """The shape of an operand."""
        return self.call.operands[at].shape


Outputs = str | tuple[str, ...]
Make = Callable[[_Graph, Sequence[str]], Outputs]
_NUMPY: Mapping[Dtype, str] = {
    Dtype.F16: "f2", Dtype.F32: "f4", Dtype.F64: "f8", Dtype.I8: "i1", Dtype.U8: "u1", Dtype.I32: "i4",
    Dtype.I64: "i8", Dtype.BOOL: "?",
}  # fmt: skip


def onnx_type(dtype: Dtype) -> int:
    """ONNX's number of a dtype. NoGraph for those that runtimes don't take from NumPy."""
    from onnx import helper

    if dtype not in _NUMPY:
        raise NoGraph(f"no graph with {dtype.value}")
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(_NUMPY[dtype])))


def fixed(call: Call) -> tuple[int, ...]:
    """Which operands are constants of the graph."""
    return (1, 2) if call.operator == "matmul_nbits" else ()


def model_bytes(call: Call) -> bytes:
    """The model. NoGraph if there is none."""
    from onnx import helper, numpy_helper

    make = _MAKERS.get(call.operator)
    if make is None:
        raise NoGraph(f"no graph for {call.operator}")
    for tensor in call.operands:
        onnx_type(tensor.dtype)
    graph, constant = _Graph(call), fixed(call)
    names = [f"x{number}" for number in range(len(call.operands))]
    made = make(graph, names)
    inputs = [
        helper.make_tensor_value_info(name, onnx_type(tensor.dtype), tensor.shape)
        for number, (name, tensor) in enumerate(zip(names, call.operands, strict=True))
        if number not in constant
    ]
    weights = [numpy_helper.from_array(_weight(call.operands[number]), names[number]) for number in constant]
    outputs = [helper.make_empty_tensor_value_info(name) for name in ([made] if isinstance(made, str) else made)]
    whole = helper.make_graph(graph.nodes, "operator", inputs, outputs, [*graph.constants, *weights])
    domains = [helper.make_opsetid("", OPSET)]
    if any(node.domain for node in graph.nodes):
        domains.append(helper.make_opsetid("com.microsoft", 1))
    serialized: bytes = helper.make_model(whole, opset_imports=domains, ir_version=_IR).SerializeToString()
    return serialized


def _weight(tensor: Tensor) -> npt.NDArray[np.generic]:
    bits = tensor.bits()
    return bits if tensor.dtype is Dtype.U8 else bits.reshape(-1)


def _nbits(graph: _Graph, x: Sequence[str]) -> Outputs:
    k, n, block = (graph.number(name) for name in ("k", "n", "block_size"))
    made: str = graph.add("MatMulNBits", *x, domain="com.microsoft", bits=4, K=k, N=n, block_size=block)
    return made


def _convolution(graph: _Graph, x: Sequence[str]) -> Outputs:
    ways, padding, stride = len(graph.shape()) - 2, graph.number("padding"), graph.number("stride")
    made: str = graph.add("Conv", *x, group=graph.number("groups"), strides=[stride] * ways, pads=[padding] * 2 * ways)
    return made


def _attention(graph: _Graph, x: Sequence[str]) -> Outputs:
    q, k, v = x[:3]
    queries, keys = graph.shape(0), graph.shape(1)
    if queries[1] != keys[1]:  # each KV head serves several heads
        batch, heads, length, depth = keys
        several = queries[1] // heads
        spread, flat = (
            graph.integers(batch, heads, several, length, depth),
            graph.integers(batch, heads * several, length, depth),
        )
        k, v = (
            graph.add("Reshape", graph.add("Expand", graph.add("Unsqueeze", one, graph.integers(2)), spread), flat)
            for one in (k, v)
        )
    scaled = graph.add("Mul", q, graph.like(1 / math.sqrt(queries[-1])))
    scores = graph.add("MatMul", scaled, graph.add("Transpose", k, perm=[0, 1, 3, 2]))
    if graph.call.option("is_causal"):
        seen = np.tril(np.ones((queries[2], keys[2]), dtype=bool))
        scores = graph.add("Where", graph.constant(seen), scores, graph.like(-math.inf))
    if len(x) > 3 and graph.call.operands[3].dtype is Dtype.BOOL:
        scores = graph.add("Where", x[3], scores, graph.like(-math.inf))
    elif len(x) > 3:
        scores = graph.add("Add", scores, x[3])
    made: str = graph.add("MatMul", graph.add("Softmax", scores, axis=-1), v)
    return made


def _affine(graph: _Graph, normed: str, x: Sequence[str]) -> Outputs:
    for kind, weight in zip(("Mul", "Add"), x[1:], strict=False):
        normed = graph.add(kind, normed, weight)
    return normed


def _layer_norm(graph: _Graph, x: Sequence[str]) -> Outputs:
    scale = x[1] if len(x) > 1 else graph.constant(np.ones(graph.shape()[-1:], _NUMPY[graph.call.operands[0].dtype]))
    made: str = graph.add("LayerNormalization", x[0], scale, *x[2:], axis=-1, epsilon=graph.number("eps"))
    return made


def _rms_norm(graph: _Graph, x: Sequence[str]) -> Outputs:
    squares = graph.add("ReduceMean", graph.add("Mul", x[0], x[0]), graph.integers(-1), keepdims=1)
    root = graph.add("Sqrt", graph.add("Add", squares, graph.like(graph.number("eps"))))
    return _affine(graph, graph.add("Div", x[0], root), x)


def _group_norm(graph: _Graph, x: Sequence[str]) -> Outputs:
    made: str = graph.add("GroupNormalization", *x, num_groups=graph.number("groups"), epsilon=graph.number("eps"))
    return made


def _reduced(kind: str, axis: int = -1) -> Make:
    return lambda graph, x: str(graph.add(kind, x[0], graph.integers(axis), keepdims=0))


def _plain(kind: str, **attributes: Any) -> Make:
    return lambda graph, x: str(graph.add(kind, *x, **attributes))


def _rope(graph: _Graph, x: Sequence[str]) -> Outputs:
    half, axis = graph.shape()[-1] // 2, graph.integers(-1)
    low = graph.add("Slice", x[0], graph.integers(0), graph.integers(half), axis)
    high = graph.add("Slice", x[0], graph.integers(half), graph.integers(2 * half), axis)
    turned = graph.add("Concat", graph.add("Neg", high), low, axis=-1)
    made: str = graph.add("Add", graph.add("Mul", x[0], x[1]), graph.add("Mul", turned, x[2]))
    return made


def _turned_square(graph: _Graph, x: Sequence[str]) -> Outputs:
    turned = graph.add("MatMul", x[0], graph.add("Transpose", x[1], perm=[1, 0]))
    made: str = graph.add("ReduceSum", graph.add("Mul", turned, turned), graph.integers(-1), keepdims=0)
    return made


def _cast(graph: _Graph, x: Sequence[str]) -> Outputs:
    made: str = graph.add("Cast", x[0], to=onnx_type(Dtype(graph.number("to"))))
    return made


def _topk(graph: _Graph, x: Sequence[str]) -> Outputs:
    made: tuple[str, ...] = graph.add("TopK", x[0], graph.integers(graph.number("k")), outputs=2, axis=-1)
    return made


_MAKERS: Mapping[str, Make] = {
    **dict.fromkeys(("mm", "matmul", "bmm"), _plain("MatMul")),
    "addmm": lambda graph, x: str(graph.add("Gemm", x[1], x[2], x[0])),
    "baddbmm": lambda graph, x: str(graph.add("Add", graph.add("MatMul", x[1], x[2]), x[0])),
    "linear": _plain("Gemm", transB=1),
    "int_mm": _plain("MatMulInteger"),
    "matmul_nbits": _nbits,
    "scaled_mm": lambda graph, x: str(graph.add("Mul", graph.add("MatMul", *x[:2]), graph.add("Mul", *x[2:]))),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), _convolution),
    "sdpa": _attention,
    "softmax": _plain("Softmax", axis=-1),
    "log_softmax": _plain("LogSoftmax", axis=-1),
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "group_norm": _group_norm,
    "sum": _reduced("ReduceSum"),
    "sum_rows": _reduced("ReduceSum", 0),
    "mean": _reduced("ReduceMean"),
    "amax": _reduced("ReduceMax"),
    "amin": _reduced("ReduceMin"),
    "cumsum": lambda graph, x: str(graph.add("CumSum", x[0], graph.constant(np.asarray(-1, dtype=np.int64)))),
    "relu": _plain("Relu"),
    "gelu": _plain("Gelu"),
    "gelu_tanh": _plain("Gelu", approximate="tanh"),
    "silu": lambda graph, x: str(graph.add("Mul", x[0], graph.add("Sigmoid", x[0]))),
    "sigmoid": _plain("Sigmoid"),
    "tanh": _plain("Tanh"),
    "exp": _plain("Exp"),
    "add": _plain("Add"),
    "mul": _plain("Mul"),
    "cast": _cast,
    "rope": _rope,
    "topk": _topk,
    "argmax": _plain("ArgMax", axis=-1, keepdims=0),
    "gather": _plain("GatherElements", axis=1),
    "index_select": _plain("Gather", axis=1),
    "embedding": _plain("Gather", axis=0),
    "scatter": _plain("ScatterElements", axis=1),
    "scatter_add": _plain("ScatterElements", axis=1, reduction="add"),
    "cat": _plain("Concat", axis=1),
    "reshape": lambda graph, x: str(graph.add("Reshape", x[0], graph.integers(-1))),
    "permute": _plain("Transpose", perm=[1, 0]),
    "where": _plain("Where"),
    "turned_square": _turned_square,
}
