"""Which operands of a call have which side of the problem, so that calls can be padded and cut.

In: a `Call`. Out: `CallSide`. Invariant: positions are those in which the operators' rows put operands.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from accord.verify.ports import Call


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSide:
    """(operand, dimension) of a side wherever it appears, and the outputs' dimension; None: it is summed over.

    `once`: operands that count in the first part of such a sum only. `pads`: zeros at its end change nothing else.
    `option`: an option that says how long it is.
    """

    places: tuple[tuple[int, int], ...]
    output: int | None
    once: tuple[int, ...] = ()
    pads: bool = True
    option: str | None = None

    def size(self, call: Call) -> int:
        """How long the side is."""
        at, dim = self.places[0]
        return call.operands[at].shape[dim]

    def present(self, call: Call) -> tuple[tuple[int, int], ...]:
        """The places that this call has: a bias may be missing."""
        return tuple((at, dim) for at, dim in self.places if at < len(call.operands))


def call_side(call: Call, name: str) -> CallSide | None:
    """The side of this name; None if the operator has none that can be cut."""
    return SIDES.get(call.operator, {}).get(name)


def side_names(operator: str, *, pads: bool) -> tuple[str, ...]:
    """The names of an operator's sides that can be cut, or padded."""
    return tuple(name for name, side in SIDES.get(operator, {}).items() if side.pads or not pads)


def _side(output: int | None, *places: tuple[int, int], once: tuple[int, ...] = (), pads: bool = True) -> CallSide:
    return CallSide(places=places, output=output, once=once, pads=pads)


_MM = {"M": _side(0, (0, 0)), "N": _side(1, (1, 1)), "K": _side(None, (0, 1), (1, 0))}
_ROWS = {"rows": _side(0, (0, 0))}
_BOTH = {"rows": _side(0, (0, 0), (1, 0))}
_CONVOLUTION = {"B": _side(0, (0, 0))}

SIDES: Mapping[str, Mapping[str, CallSide]] = {
    "mm": _MM,
    "matmul": _MM,
    "addmm": {
        "M": _side(0, (1, 0)),
        "N": _side(1, (2, 1), (0, 0)),
        "K": _side(None, (1, 1), (2, 0), once=(0,)),
    },
    "bmm": {
        "B": _side(0, (0, 0), (1, 0)),
        "M": _side(1, (0, 1)),
        "N": _side(2, (1, 2)),
        "K": _side(None, (0, 2), (1, 1)),
    },
    "baddbmm": {
        "B": _side(0, (1, 0), (2, 0), (0, 0)),
        "M": _side(1, (1, 1), (0, 1)),
        "N": _side(2, (2, 2), (0, 2)),
        "K": _side(None, (1, 2), (2, 1), once=(0,)),
    },
    "linear": {
        "M": _side(0, (0, 0)),
        "N": _side(1, (1, 0), (2, 0)),
        "K": _side(None, (0, 1), (1, 1), once=(2,)),
    },
    "matmul_nbits": {
        "M": _side(0, (0, 0)),
        "N": CallSide(places=((1, 0), (2, 0)), output=1, option="n"),
        "block": _side(None, (1, 1), pads=False),  # cut by a way of its own
    },
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), _CONVOLUTION),
    "sdpa": {"B": _side(0, (0, 0), (1, 0), (2, 0))},
    "embedding": {"M": _side(0, (1, 0), pads=False)},
    "turned_square": {"n": _side(0, (0, 0))},
    **dict.fromkeys(
        (
            "softmax", "log_softmax", "layer_norm", "rms_norm", "group_norm", "sum", "mean", "amax", "amin", "prod",
            "cumsum", "relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "exp", "cast", "topk", "argmax", "sort",
            "index_select",
        ),
        _ROWS,
    ),
    **dict.fromkeys(("add", "mul", "cat", "gather"), _BOTH),
    "scatter": {"rows": _side(0, (0, 0), (1, 0), (2, 0))},
}  # fmt: skip
