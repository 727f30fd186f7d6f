"""Vision transformers: patches, blocks, and what hands their output to a language model.

In: figures of a tower, already checked. Out: `Parts`, whose unit is one patch. Invariant: positions that are no patch
(a class token) are spread over the picture's patches, so that whole pictures come out exactly.
"""

from dataclasses import dataclass
from itertools import pairwise

from accord.models.parts.parts import NOTHING, Layers, Parts, convolution, linear, norm, vector
from accord.terms.tensors import Part, Split, Tensor
from accord.terms.work import Attention, Reach

NAME = "vision"


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """What all blocks of a tower share.

    `picture` is how many patches a picture (or tile) has where that is fixed, `extra` how many positions come on top.
    `windows` are layers whose patches see only their window of `window` patches.
    """

    layers: Layers
    hidden: int
    heads: int
    width: int
    kv_heads: int | None = None
    head_dim: int | None = None
    picture: int | None = None
    extra: int = 0
    windows: Layers = ()
    window: int | None = None

    @property
    def rate(self) -> float:
        """Positions for each patch."""
        return 1.0 if self.picture is None else (self.picture + self.extra) / self.picture


def patches(hidden: int, *, values: int, bias: bool = False, convolved: bool = True) -> Parts:
    """Each patch of `values` pixels and channels becomes one position."""
    if convolved:
        return convolution(f"{NAME}.patches", 1, hidden, kernel=values, rate=1.0, bias=bias)
    return linear(f"{NAME}.patches", values, hidden, bias=bias, quantizable=False)


def positions(count: int, hidden: int, *, name: str = "positions") -> Parts:
    """A learned table that is added to the patches."""
    if not count:
        return NOTHING
    return Parts(tensors=(Tensor(name=f"{NAME}.{name}", part=Part.EMBEDDING, rows=count, columns=hidden),))


def blocks(
    figures: Blocks,
    *,
    qkv_bias: bool = True,
    out_bias: bool = True,
    mlp_bias: bool = True,
    gated: bool = False,
    norm_bias: bool = True,
    norms: tuple[str, ...] = ("norm1", "norm2"),
    qk_norm: int = 0,
    scales: int = 0,
) -> Parts:
    """All blocks. `scales`: how many learned scales of the residual branches each has."""
    made = NOTHING
    for name in norms:
        made += norm(f"{NAME}.{name}", figures.hidden, figures.layers, bias=norm_bias)
    made += attention(figures, qkv_bias=qkv_bias, out_bias=out_bias)
    made += norm(f"{NAME}.attention.q_norm", qk_norm, figures.layers)
    made += norm(f"{NAME}.attention.k_norm", qk_norm, figures.layers)
    made += feedforward(figures, bias=mlp_bias, gated=gated)
    for index in range(scales):
        made += vector(f"{NAME}.scale{index + 1}", figures.hidden, figures.layers)
    return made


def attention(figures: Blocks, *, qkv_bias: bool = True, out_bias: bool = True) -> Parts:
    """Attention without a mask: over the whole picture, or over windows in some layers."""
    heads, kv_heads = figures.heads, figures.kv_heads or figures.heads
    head_dim = figures.head_dim or figures.hidden // heads
    rate, layers, hidden = figures.rate, figures.layers, figures.hidden
    made = NOTHING
    for side, count, split in (
        ("q", heads, Split.ROWS),
        ("k", kv_heads, Split.KV_ROWS),
        ("v", kv_heads, Split.KV_ROWS),
    ):
        made += linear(
            f"{NAME}.attention.{side}",
            hidden,
            count * head_dim,
            layers,
            split=split,
            pieces=count,
            bias=qkv_bias,
            rate=rate,
            quantizable=False,
        )
    seen = figures.picture + figures.extra if figures.picture is not None else None
    full = tuple(layer for layer in layers if layer not in figures.windows)
    for suffix, some, span in (("", full, seen), (".window", figures.windows, figures.window)):
        if some:
            scores = Attention(
                name=f"{NAME}.attention{suffix}",
                layers=some,
                heads=heads,
                key_heads=kv_heads,
                key_dim=head_dim,
                value_dim=head_dim,
                reach=Reach.ALL if span is None else Reach.BLOCK,
                span=span,
                rate=rate,
            )
            made += Parts(operators=(scores,))
    return made + linear(
        f"{NAME}.attention.o",
        heads * head_dim,
        hidden,
        layers,
        split=Split.COLUMNS,
        pieces=heads,
        bias=out_bias,
        rate=rate,
        quantizable=False,
    )


def feedforward(figures: Blocks, *, bias: bool = True, gated: bool = False) -> Parts:
    """Up and down, or gate, up and down."""
    sides = [("up", figures.hidden, figures.width, Split.ROWS), ("down", figures.width, figures.hidden, Split.COLUMNS)]
    if gated:
        sides.insert(0, ("gate", figures.hidden, figures.width, Split.ROWS))
    made = NOTHING
    for side, inputs, outputs, split in sides:
        made += linear(
            f"{NAME}.mlp.{side}",
            inputs,
            outputs,
            figures.layers,
            split=split,
            pieces=figures.width,
            bias=bias,
            rate=figures.rate,
            quantizable=False,
        )
    return made


def projector(
    *widths: int,
    rate: float,
    bias: bool = True,
    normed: int = 0,
    norm_bias: bool = True,
    name: str = "projector",
    copies: int = 1,
    parallel: bool = True,
) -> Parts:
    """Matrices from one of `widths` to the next, `rate` times a patch; `normed` is the width of a norm before them.

    `parallel`: two of them are divided by what lies between; otherwise each rank holds all.
    """
    made = norm(f"{NAME}.{name}.norm", normed, bias=norm_bias, copies=copies)
    splits = (Split.ROWS, Split.COLUMNS) if parallel and len(widths) == 3 else (Split.NONE,) * len(widths)
    for index, (inputs, outputs) in enumerate(pairwise(widths)):
        made += linear(
            f"{NAME}.{name}.{index + 1}",
            inputs,
            outputs,
            rate=rate,
            split=splits[index],
            pieces=widths[1] if splits[index] is not Split.NONE else 1,
            bias=bias,
            copies=copies,
            quantizable=False,
        )
    return made


def pooling(figures: Blocks, *, name: str = "head") -> Parts:
    """One learned query that reads a whole picture, and a feed-forward block (SigLIP's head)."""
    hidden, once = figures.hidden, 1 / (figures.picture or 1)
    made = vector(f"{NAME}.{name}.probe", hidden)
    for side, rate in (("q", once), ("k", figures.rate), ("v", figures.rate), ("o", once)):
        made += linear(f"{NAME}.{name}.{side}", hidden, hidden, rate=rate, bias=True, quantizable=False)
    scores = Attention(
        name=f"{NAME}.{name}",
        layers=(0,),
        heads=figures.heads,
        key_heads=figures.heads,
        key_dim=hidden // figures.heads,
        value_dim=hidden // figures.heads,
        reach=Reach.CROSS,
        span=figures.picture,
        rate=once,
    )
    return (
        made
        + Parts(operators=(scores,))
        + norm(f"{NAME}.{name}.norm", hidden, bias=True)
        + linear(f"{NAME}.{name}.up", hidden, figures.width, rate=once, bias=True, quantizable=False)
        + linear(f"{NAME}.{name}.down", figures.width, hidden, rate=once, bias=True, quantizable=False)
    )
