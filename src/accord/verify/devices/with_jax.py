"""JAX on its CPU or another of its platforms behind the port, operator by operator or compiled in one piece.

In: `Call`s. Out: `Outcome`s. Invariant: 64-bit types are on, so that dtypes are those of the call; JAX has no strides,
so operands are copied in order.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from accord.terms.quirk import Version
from accord.verify.devices.array_ops import Made, functions, number
from accord.verify.devices.arrays import array, tensors
from accord.verify.devices.cpu import features
from accord.verify.ports import Answer, Call, Description, Outcome, State, Unsupported

_GRAPHS_MAX = 512


class JaxDevice:
    """`platform`: JAX's name of it; the usual one if empty."""

    def __init__(self, platform: str = "") -> None:
        import jax

        jax.config.update("jax_enable_x64", True)
        # Cards and matrix units multiply f32 in fewer bits unless they are told not to; that is a hint, not a fault.
        jax.config.update("jax_default_matmul_precision", "highest")
        self._device = jax.devices(platform or None)[0]
        self._name = f"jax:{platform}" if platform else "jax"
        self._functions = {**functions(jax.numpy), **_own(jax)}
        self._graphs: dict[str, Callable[..., Any]] = {}

    def describe(self) -> Description:
        """The versions of JAX and of its kernels."""
        import jax
        import jaxlib

        return Description(
            name=self._name,
            families=("xla", "eigen"),
            versions=(
                Version(library="jax", version=jax.__version__),
                Version(library="jaxlib", version=jaxlib.__version__),
            ),
            features=features() if self._device.platform == "cpu" else (),
            modes=("compile", "eager"),
        )

    def run(self, call: Call) -> Outcome:
        """Runs the call; unsupported if JAX raises."""
        import jax

        made = self._functions.get(call.operator)
        if made is None or call.overload != "default":
            return Unsupported(reason=f"jax: no {call.operator} {call.overload}")
        if call.state is State.COLD:
            jax.clear_caches()
            self._graphs.clear()
        try:
            operands = [
                jax.device_put(np.array(array(tensor), order="C", copy=True), self._device) for tensor in call.operands
            ]
            compute = self._graph(call, made) if call.mode != "eager" else functools.partial(made, call)
            return Answer(runs=tuple(_taken(compute(operands)) for _ in range(call.repeat)))
        except (TypeError, ValueError, IndexError, RuntimeError, NotImplementedError, AttributeError) as error:
            return Unsupported(reason=f"{type(error).__name__}: {str(error)[:300]}")

    def close(self) -> None:
        """Forgets what was compiled."""
        self._graphs.clear()

    def _graph(self, call: Call, made: Made) -> Callable[..., Any]:
        import jax

        key = f"{call.operator} {call.options}"
        if key not in self._graphs:
            if len(self._graphs) >= _GRAPHS_MAX:
                jax.clear_caches()
                self._graphs.clear()
            options = Call(operator=call.operator, operands=(), options=call.options)
            jit: Callable[..., Callable[..., Any]] = jax.jit
            self._graphs[key] = jit(lambda operands: made(options, operands))
        return self._graphs[key]


def _taken(outputs: Any) -> Any:
    several = outputs if isinstance(outputs, tuple | list) else (outputs,)
    return tensors(tuple(np.asarray(output) for output in several))


def _own(jax: Any) -> Mapping[str, Made]:
    """Where JAX has the operator itself."""
    xp, nn = jax.numpy, jax.nn

    def convolution(call: Call, x: Sequence[Any]) -> Any:
        ways, padding = x[0].ndim - 2, number(call, "padding")
        return jax.lax.conv_general_dilated(
            x[0],
            x[1],
            window_strides=(number(call, "stride"),) * ways,
            padding=((padding, padding),) * ways,
            feature_group_count=number(call, "groups"),
        )

    def attention(call: Call, x: Sequence[Any]) -> Any:
        q, k, v = (xp.swapaxes(one, 1, 2) for one in x[:3])  # JAX has heads after positions
        given = {("mask" if one.dtype == bool else "bias"): one[None, None] for one in x[3:]}
        made = nn.dot_product_attention(q, k, v, is_causal=bool(call.option("is_causal")), **given)
        return xp.swapaxes(made, 1, 2)

    return {
        **dict.fromkeys(("conv1d", "conv2d", "conv3d"), convolution),
        "sdpa": attention,
        "softmax": lambda _, x: nn.softmax(x[0], axis=-1),
        "log_softmax": lambda _, x: nn.log_softmax(x[0], axis=-1),
        "gelu": lambda _, x: nn.gelu(x[0], approximate=False),
        "gelu_tanh": lambda _, x: nn.gelu(x[0], approximate=True),
        "silu": lambda _, x: nn.silu(x[0]),
        "sigmoid": lambda _, x: nn.sigmoid(x[0]),
        "topk": lambda call, x: jax.lax.top_k(x[0], number(call, "k")),
        "scatter": lambda _, x: x[0].at[xp.arange(x[0].shape[0])[:, None], x[1]].set(x[2]),
        "scatter_add": lambda _, x: x[0].at[xp.arange(x[0].shape[0])[:, None], x[1]].add(x[2]),
        "index_add": lambda _, x: x[0].at[x[1]].add(x[2]),
        "grouped_mm": _grouped(jax),
        "turned_square": lambda _, x: jax.vmap(lambda row: xp.sum((x[1] @ row) ** 2))(x[0]),
        "cast": lambda call, x: x[0].astype(_NAMES[str(call.option("to"))]),
    }


_NAMES = {"f64": "float64", "f32": "float32", "bf16": "bfloat16", "f16": "float16", "i32": "int32", "i8": "int8"}


def _grouped(jax: Any) -> Made:
    def grouped(_: Call, x: Sequence[Any]) -> Any:
        sizes = jax.numpy.diff(x[2], prepend=0).astype("int32")
        return jax.lax.ragged_dot(x[0], x[1], sizes)

    return grouped
