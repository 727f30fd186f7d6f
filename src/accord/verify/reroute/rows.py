"""Which operators of PyTorch a quirk's operator stands for, and how their arguments show a point's facts.

In: nothing. Out: `ROWS`, one row for each operator of the dispatcher. Invariant: texts of facts are expressions that
Python and C++ read alike; a side names every argument that has it.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side of the problem: (argument, dimension) wherever it appears, and the output's dimension.

    `output` None: the side is summed over. `once`: arguments that count in the first part of such a sum only.
    An argument may lack the dimension or have 1 there, where it is broadcast. `pads`: zeros at its end change nothing.
    """

    name: str
    arguments: tuple[tuple[str, int], ...]
    output: int | None
    once: tuple[str, ...] = ()
    pads: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """`name`: in the dispatcher; all its overloads are meant. `serves`: operators of quirks that end here.

    `under`: operators that end here on devices without a kernel of their own for them. `first`: the argument whose
    dtype counts, and whose layout, with the `second`'s. `product`: how many dimensions its operands have, where it is
    a product of matrices. `composed`: hooked even where one kernel serves all devices. `inductor`: torch.compile's
    default backend calls it, too, rather than write code of its own.
    """

    name: str
    serves: tuple[str, ...]
    first: str
    facts: Mapping[str, str]
    sides: tuple[Side, ...] = ()
    under: tuple[str, ...] = ()
    product: int = 0
    second: str | None = None
    composed: bool = False
    inductor: bool = False

    @property
    def operands(self) -> tuple[str, ...]:
        """Those whose layout counts."""
        return (self.first,) if self.second is None else (self.first, self.second)

    def side(self, name: str) -> Side | None:
        """The side of this name."""
        return next((side for side in self.sides if side.name == name), None)


def side(
    name: str, output: int | None, *arguments: tuple[str, int], once: str | None = None, pads: bool = True
) -> Side:
    """One side, in a row's short form."""
    return Side(name=name, arguments=arguments, output=output, once=() if once is None else (once,), pads=pads)


_MM = {"M": "self.size(0)", "K": "self.size(1)", "N": "mat2.size(1)"}
_ADDMM = {"M": "mat1.size(0)", "K": "mat1.size(1)", "N": "mat2.size(1)"}
_ADDMM_SIDES = (
    side("M", 0, ("mat1", 0), ("self", -2)),
    side("N", 1, ("mat2", 1), ("self", -1)),
    side("K", None, ("mat1", 1), ("mat2", 0), once="self"),
)
_BADDBMM = {"B": "batch1.size(0)", "M": "batch1.size(1)", "K": "batch1.size(2)", "N": "batch2.size(2)"}
_BADDBMM_SIDES = (
    side("B", 0, ("batch1", 0), ("batch2", 0), ("self", -3)),
    side("M", 1, ("batch1", 1), ("self", -2)),
    side("N", 2, ("batch2", 2), ("self", -1)),
    side("K", None, ("batch1", 2), ("batch2", 1), once="self"),
)
_ATTENTION = {
    "B": "query.size(0)", "H": "key.size(1)", "G": "query.size(1) // key.size(1)", "L": "query.size(-2)",
    "S": "key.size(-2)", "D": "query.size(-1)",
}  # fmt: skip
_ATTENTION_SIDES = (
    side("B", 0, ("query", 0), ("key", 0), ("value", 0), ("attn_mask", 0)),
    side("H", 1, ("query", 1), ("key", 1), ("value", 1), ("attn_mask", 1)),
)
_ATTENTION_NAMES = (
    "_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_fused_attention_overrideable", "_scaled_dot_product_attention_math",
)  # fmt: skip
_ROWWISE = {"rows": "self.numel() // self.size(-1)", "N": "self.size(-1)"}
_CONVOLUTION = {
    "B": "input.size(0)", "C": "input.size(1)", "O": "weight.size(0)", "size": "input.size(-1)",
    "kernel": "weight.size(-1)", "groups": "groups",
}  # fmt: skip
_ROWS_SIDE = (side("rows", 0, ("self", 0)),)
_INPUT_ROWS = (side("rows", 0, ("input", 0)),)

ROWS: tuple[Row, ...] = (
    Row(
        name="mm",
        serves=("mm",),
        under=("linear", "matmul"),
        first="self",
        facts=_MM,
        sides=(
            side("M", 0, ("self", 0)),
            side("N", 1, ("mat2", 1)),
            side("K", None, ("self", 1), ("mat2", 0)),
        ),
        product=2,
        second="mat2",
        inductor=True,
    ),
    *(
        Row(
            name=name,
            serves=("addmm",),
            under=("linear",),
            first="mat1",
            facts=_ADDMM,
            sides=_ADDMM_SIDES,
            product=2,
            second="mat2",
            inductor=True,
        )
        for name in ("addmm", "addmm_")
    ),
    Row(
        name="bmm",
        serves=("bmm",),
        under=("matmul",),
        first="self",
        facts={"B": "self.size(0)", "M": "self.size(1)", "K": "self.size(2)", "N": "mat2.size(2)"},
        sides=(
            side("B", 0, ("self", 0), ("mat2", 0)),
            side("M", 1, ("self", 1)),
            side("N", 2, ("mat2", 2)),
            side("K", None, ("self", 2), ("mat2", 1)),
        ),
        product=3,
        second="mat2",
        inductor=True,
    ),
    *(
        Row(
            name=name,
            serves=("baddbmm",),
            first="batch1",
            facts=_BADDBMM,
            sides=_BADDBMM_SIDES,
            product=3,
            second="batch2",
            inductor=True,
        )
        for name in ("baddbmm", "baddbmm_")
    ),
    Row(
        name="linear",
        serves=("linear",),
        first="input",
        facts={"M": "input.numel() // input.size(-1)", "K": "input.size(-1)", "N": "weight.size(0)"},
        sides=(
            side("M", -2, ("input", -2)),
            side("N", -1, ("weight", 0), ("bias", -1)),
            side("K", None, ("input", -1), ("weight", 1), once="bias"),
        ),
        inductor=True,
    ),
    Row(
        name="convolution",
        serves=("conv1d", "conv2d", "conv3d"),
        first="input",
        facts=_CONVOLUTION,
        sides=(side("B", 0, ("input", 0)), side("O", 1, ("weight", 0), ("bias", 0))),
        composed=True,
        inductor=True,
    ),
    *(
        Row(name=name, serves=("sdpa",), first="query", facts=_ATTENTION, sides=_ATTENTION_SIDES, inductor=True)
        for name in _ATTENTION_NAMES
    ),
    Row(name="_softmax", serves=("softmax",), first="self", facts=_ROWWISE, sides=_ROWS_SIDE),
    Row(name="_log_softmax", serves=("log_softmax",), first="self", facts=_ROWWISE, sides=_ROWS_SIDE),
    Row(
        name="native_layer_norm",
        serves=("layer_norm",),
        first="input",
        facts={"rows": "input.numel() // input.size(-1)", "N": "input.size(-1)"},
        sides=_INPUT_ROWS,
    ),
    Row(name="topk", serves=("topk",), first="self", facts={**_ROWWISE, "k": "k"}, sides=_ROWS_SIDE, inductor=True),
    Row(
        name="embedding",
        serves=("embedding",),
        first="weight",
        facts={"V": "weight.size(0)", "N": "weight.size(1)", "M": "indices.numel()"},
        sides=(side("M", 0, ("indices", 0), pads=False),),
        composed=True,
    ),
    *(
        Row(name=name, serves=(name,), first="self", facts={"n": "self.numel()", **_ROWWISE}, sides=_ROWS_SIDE)
        for name in ("gelu", "silu", "relu", "tanh", "sigmoid", "exp", "argmax", "cumsum", "gather", "index_select")
    ),
)
