"""Feed-forward blocks: plain, gated, and mixtures of experts.

In: widths, expert counts, the layers. Out: `Parts`. Invariant: one expert's matrices are alike in all its copies, so
that expert parallelism can deal them out.
"""

from dataclasses import replace

from accord.models.parts.parts import NOTHING, Layers, Parts, linear, vector
from accord.terms.tensors import Dtype, Part, Split, Tensor
from accord.terms.work import Experts

# What transformers knows under these names; none of them has weights, so they only need to be real ones.
ACTIVATIONS = (
    "silu", "swish", "gelu", "gelu_pytorch_tanh", "gelu_new", "gelu_fast", "quick_gelu", "gelu_python", "gelu_10",
    "relu", "relu2", "relu6", "swiglu", "swigluoai", "geglu", "mish", "tanh", "sigmoid", "laplace", "leaky_relu",
    "linear", "xielu", "prelu", "gelu_tanh", "situ",
)  # fmt: skip


def gated(
    layers: Layers, *, hidden: int, width: int, bias: bool = False, name: str = "mlp", out: int | None = None
) -> Parts:
    """Gate, up and down (SwiGLU, arXiv 2002.05202)."""
    if not layers or not width:
        return NOTHING
    return (
        linear(f"{name}.gate", hidden, width, layers, split=Split.ROWS, pieces=width, bias=bias)
        + linear(f"{name}.up", hidden, width, layers, split=Split.ROWS, pieces=width, bias=bias)
        + linear(f"{name}.down", width, out or hidden, layers, split=Split.COLUMNS, pieces=width, bias=bias)
    )


def plain(
    layers: Layers, *, hidden: int, width: int, bias: bool = True, name: str = "mlp", out: int | None = None
) -> Parts:
    """Up and down, with an activation between."""
    if not layers or not width:
        return NOTHING
    return linear(f"{name}.up", hidden, width, layers, split=Split.ROWS, pieces=width, bias=bias) + linear(
        f"{name}.down", width, out or hidden, layers, split=Split.COLUMNS, pieces=width, bias=bias
    )


def experts(
    layers: Layers,
    *,
    hidden: int,
    width: int,
    count: int,
    chosen: int,
    bias: bool = False,
    with_gate: bool = True,
    router_bias: bool = False,
    correction: bool = False,
    router_dtype: Dtype = Dtype.BF16,
    router_inputs: int | None = None,
    name: str = "experts",
) -> Parts:
    """A router and `count` experts, of which each token takes `chosen`.

    `correction`: a float32 score for each expert that balances load and isn't trained by gradient (DeepSeek-V3).
    `router_bias`: a bias of the router's matrix (gpt-oss). `router_dtype`: of the router's matrix. `router_inputs`:
    what it reads, where experts read something narrower. Where experts aren't dealt out, each is divided by its width.
    """
    if not layers or not count:
        return NOTHING
    router = linear(
        f"{name}.router",
        router_inputs or hidden,
        count,
        layers,
        part=Part.ROUTER,
        quantizable=False,
        bias=router_bias,
        dtype=router_dtype,
    )
    if correction:
        router += vector(f"{name}.correction", count, layers, part=Part.ROUTER, dtype=Dtype.F32, buffer=True)
    weights = _matrices(name, layers, hidden=hidden, width=width, count=count, with_gate=with_gate)
    biases = tuple(_bias(weight) for weight in weights) if bias else ()
    work = Experts(name=name, weights=weights, experts=count, chosen=min(chosen, count))
    return router + Parts(tensors=weights + biases, operators=(work,))


def _matrices(name: str, layers: Layers, *, hidden: int, width: int, count: int, with_gate: bool) -> tuple[Tensor, ...]:
    sides = [("up", width, hidden, Split.ROWS), ("down", hidden, width, Split.COLUMNS)]
    if with_gate:
        sides.insert(0, ("gate", width, hidden, Split.ROWS))
    return tuple(
        Tensor(
            name=f"{name}.{side}",
            part=Part.EXPERT,
            rows=rows,
            columns=columns,
            copies=count,
            layers=layers,
            split=Split.EXPERTS,
            inner=inner,
            pieces=width,
            quantizable=True,
        )
        for side, rows, columns, inner in sides
    )


def _bias(weight: Tensor) -> Tensor:
    """The bias of each copy: divided as its outputs are, else held by every rank."""
    by_output = weight.inner is Split.ROWS
    return replace(
        weight,
        name=f"{weight.name}.bias",
        columns=1,
        inner=Split.ROWS if by_output else Split.NONE,
        quantizable=False,
    )
