"""How each operator of the table is called in NumPy, and in libraries that speak as it does (JAX).

In: the library's module, a `Call`, its operands as arrays. Out: the outputs. Invariant: numbers are computed in the
operands' own dtype, as the library does it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from accord.verify.ports import Call

Made = Callable[[Call, Sequence[Any]], Any]


def functions(xp: Any) -> Mapping[str, Made]:
    """By operator; `xp` is the module."""
    return {**_products(xp), **_rowwise(xp), **_moving(xp)}


def number(call: Call, name: str) -> Any:
    """An option that the call must have."""
    value = call.option(name)
    if value is None:
        raise ValueError(f"{call.operator}: no {name}")
    return value


def _products(xp: Any) -> Mapping[str, Made]:
    def nbits(_: Call, given: Sequence[Any]) -> Any:
        x, packed, scales = given
        codes = xp.stack([packed & 15, packed >> 4], axis=-1).reshape(*packed.shape[:-1], -1)
        weight = (codes.astype(x.dtype) - 8) * scales[..., None].astype(x.dtype)
        return x @ weight.reshape(packed.shape[0], -1)[:, : x.shape[1]].T

    return {
        "mm": lambda _, x: x[0] @ x[1],
        "matmul": lambda _, x: x[0] @ x[1],
        "addmm": lambda _, x: x[0] + x[1] @ x[2],
        "bmm": lambda _, x: x[0] @ x[1],
        "baddbmm": lambda _, x: x[0] + x[1] @ x[2],
        "linear": lambda _, x: x[0] @ x[1].T + (x[2] if len(x) > 2 else 0),
        "int_mm": lambda _, x: xp.matmul(x[0].astype(xp.int32), x[1].astype(xp.int32)),
        "matmul_nbits": nbits,
        "scaled_mm": lambda _, x: (x[0] @ x[1]) * x[2] * x[3],
        "turned_square": lambda _, x: ((x[0] @ x[1].T) ** 2).sum(-1),
    }


def _rowwise(xp: Any) -> Mapping[str, Made]:
    def total(x: Any, axis: int = -1, *, keepdims: bool = True) -> Any:
        # A sum in half precision would stop growing where its steps end: both libraries say how to sum in more.
        return x.sum(axis, keepdims=keepdims, dtype=xp.promote_types(x.dtype, xp.float32))

    def softmax(_: Call, x: Sequence[Any]) -> Any:
        raised = xp.exp(x[0] - x[0].max(-1, keepdims=True))
        return (raised / total(raised)).astype(x[0].dtype)

    def log_softmax(_: Call, x: Sequence[Any]) -> Any:
        shifted = x[0] - x[0].max(-1, keepdims=True)
        return (shifted - xp.log(total(xp.exp(shifted)))).astype(x[0].dtype)

    def affine(normed: Any, x: Sequence[Any]) -> Any:
        scaled = normed * x[1] if len(x) > 1 else normed
        return scaled + x[2] if len(x) > 2 else scaled

    def layer_norm(call: Call, x: Sequence[Any]) -> Any:
        centred = x[0] - x[0].mean(-1, keepdims=True)
        spread = xp.sqrt((centred * centred).mean(-1, keepdims=True) + number(call, "eps"))
        return affine(centred / spread, x)

    def rms_norm(call: Call, x: Sequence[Any]) -> Any:
        return affine(x[0] / xp.sqrt((x[0] * x[0]).mean(-1, keepdims=True) + number(call, "eps")), x)

    def rope(_: Call, given: Sequence[Any]) -> Any:
        x, cos, sin = given
        half = x.shape[-1] // 2
        return x * cos + xp.concatenate([-x[..., half:], x[..., :half]], -1) * sin

    return {
        "softmax": softmax,
        "log_softmax": log_softmax,
        "layer_norm": layer_norm,
        "rms_norm": rms_norm,
        "rope": rope,
        "sum": lambda _, x: total(x[0], keepdims=False).astype(x[0].dtype),
        "sum_rows": lambda _, x: total(x[0], 0, keepdims=False).astype(x[0].dtype),
        "mean": lambda _, x: x[0].mean(-1),
        "amax": lambda _, x: x[0].max(-1),
        "amin": lambda _, x: x[0].min(-1),
        "cumsum": lambda _, x: x[0].cumsum(-1),
        "relu": lambda _, x: xp.maximum(x[0], 0),
        "silu": lambda _, x: x[0] / (1 + xp.exp(-x[0])),
        "sigmoid": lambda _, x: 1 / (1 + xp.exp(-x[0])),
        "tanh": lambda _, x: xp.tanh(x[0]),
        "gelu_tanh": lambda _, x: 0.5 * x[0] * (1 + xp.tanh(0.7978845608028654 * (x[0] + 0.044715 * x[0] ** 3))),
        "exp": lambda _, x: xp.exp(x[0]),
        "add": lambda _, x: x[0] + x[1],
        "mul": lambda _, x: x[0] * x[1],
    }


def _moving(xp: Any) -> Mapping[str, Made]:
    def topk(call: Call, x: Sequence[Any]) -> Any:
        count = number(call, "k")
        order = xp.argsort(-x[0], axis=-1, kind="stable")[:, :count]
        return xp.take_along_axis(x[0], order, -1), order

    return {
        "topk": topk,
        "argmax": lambda _, x: xp.argmax(x[0], -1),
        "gather": lambda _, x: xp.take_along_axis(x[0], x[1], 1),
        "index_select": lambda _, x: xp.take(x[0], x[1], axis=1),
        "embedding": lambda _, x: xp.take(x[0], x[1], axis=0),
        "cat": lambda _, x: xp.concatenate(list(x), 1),
        "reshape": lambda _, x: x[0].reshape(-1),
        "permute": lambda _, x: x[0].T.copy(),
        "where": lambda _, x: xp.where(*x),
    }
