"""Blocks of denoisers: transformers over the positions of a latent, told the time step and the prompt.

In: widths, heads, the layers. Out: `Parts` of one step, whose unit is one position of the latent and whose context is
the prompt's tokens. Invariant: what depends on the time step alone is computed once a sequence and step.
"""

from dataclasses import dataclass, replace

from accord.models.card import Card
from accord.models.parts.parts import NOTHING, Layers, Parts, linear, norm
from accord.terms.tensors import Split
from accord.terms.work import Attention, Per, Reach

TIME_VALUES = 256  # sines and cosines that stand for a time step in DiT (arXiv 2212.09748) and its kin


@dataclass(frozen=True, slots=True, kw_only=True)
class Denoiser:
    """One step's parts. `values` is how many numbers it writes for each position.

    `pads`: latents whose sides aren't multiples of a position's are padded; otherwise such sizes are refused.
    """

    parts: Parts
    values: int
    pads: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """What all blocks share. `qk_norm` is the size of a scale on queries and on keys (0: none)."""

    layers: Layers
    hidden: int
    heads: int
    head_dim: int
    width: int
    qk_norm: int = 0
    bias: bool = True

    @property
    def inner(self) -> int:
        """Values of all heads."""
        return self.heads * self.head_dim

    def only(self, layers: Layers) -> "Blocks":
        """The same for some of the layers."""
        return replace(self, layers=layers)


def only_text(card: Card, *keys: str) -> None:
    """BadInput for settings of pipelines that take pictures or control signals, too."""
    for key in keys:
        if card.raw(key) not in (None, False, 0):
            card.wrong(key, problem="not supported here", fix="only text-to-image and text-to-video are known")


def project(name: str, figures: Blocks, *, sides: str = "qkv", inputs: int | None = None, per: Per = Per.UNIT) -> Parts:
    """Queries, keys and values (`sides`) of the latent, or of the prompt."""
    if not figures.layers:
        return NOTHING
    made = NOTHING
    for side in sides:
        made += linear(
            f"{name}.{side}",
            inputs or figures.hidden,
            figures.inner,
            figures.layers,
            split=Split.ROWS,
            pieces=figures.heads,
            bias=figures.bias,
            per=per,
        )
        if side != "v":
            made += norm(f"{name}.{side}_norm", figures.qk_norm, figures.layers)
    return made


def attend(name: str, figures: Blocks, *, reach: Reach, per: Per = Per.UNIT) -> Parts:
    """Scores and the weighted sum."""
    scores = Attention(
        name=name,
        layers=figures.layers,
        heads=figures.heads,
        key_heads=figures.heads,
        key_dim=figures.head_dim,
        value_dim=figures.head_dim,
        reach=reach,
        per=per,
    )
    return Parts(operators=(scores,)) if figures.layers else NOTHING


def joint(name: str, figures: Blocks) -> Parts:
    """Latent and prompt see each other and themselves (MMDiT, arXiv 2403.03206)."""
    return attend(name, figures, reach=Reach.ALL, per=Per.BOTH)


def output(name: str, figures: Blocks, *, per: Per = Per.UNIT) -> Parts:
    """From heads back to the hidden size."""
    return feed(f"{name}.o", figures, figures.inner, figures.hidden, split=Split.COLUMNS, pieces=figures.heads, per=per)


def feed(
    name: str, figures: Blocks, inputs: int, outputs: int, *, split: Split, pieces: int, per: Per = Per.UNIT
) -> Parts:
    """One matrix of each block."""
    if not figures.layers:
        return NOTHING
    return linear(name, inputs, outputs, figures.layers, split=split, pieces=pieces, bias=figures.bias, per=per)


def mlp(name: str, figures: Blocks, *, per: Per = Per.UNIT) -> Parts:
    """Up and down, with an activation between."""
    hidden, width = figures.hidden, figures.width
    return feed(f"{name}.up", figures, hidden, width, split=Split.ROWS, pieces=width, per=per) + feed(
        f"{name}.down", figures, width, hidden, split=Split.COLUMNS, pieces=width, per=per
    )


def modulation(name: str, figures: Blocks, *, vectors: int) -> Parts:
    """Shifts, scales and gates of one block, from the time step (adaLN-Zero, arXiv 2212.09748); on every rank."""
    return (
        linear(name, figures.hidden, vectors * figures.hidden, figures.layers, bias=figures.bias, per=Per.SEQUENCE)
        if figures.layers
        else NOTHING
    )


def embedder(
    name: str, inputs: int, hidden: int, *, outputs: int | None = None, bias: bool = True, per: Per = Per.SEQUENCE
) -> Parts:
    """Two matrices that bring a time step, a pooled prompt or the prompt's tokens to the hidden size."""
    return linear(f"{name}.1", inputs, hidden, bias=bias, per=per, quantizable=False) + linear(
        f"{name}.2", hidden, outputs or hidden, bias=bias, per=per, quantizable=False
    )


def double(figures: Blocks, *, text_out: Layers, latent_vectors: int = 6) -> Parts:
    """Blocks with weights for the latent and others for the prompt; only `text_out` layers write to the prompt's."""
    text = figures.only(text_out)
    mute = figures.only(tuple(layer for layer in figures.layers if layer not in text_out))
    return (
        modulation("latent.modulation", figures, vectors=latent_vectors)
        + modulation("text.modulation", text, vectors=6)
        + modulation("text.modulation.last", mute, vectors=2)
        + project("latent.attention", figures)
        + project("text.attention", figures, per=Per.CONTEXT)
        + joint("attention", figures)
        + output("latent.attention", figures)
        + output("text.attention", text, per=Per.CONTEXT)
        + mlp("latent.mlp", figures)
        + mlp("text.mlp", text, per=Per.CONTEXT)
    )


def single(figures: Blocks) -> Parts:
    """Blocks with the same weights for both; attention and feed-forward run side by side and share the way out."""
    hidden, width, inner = figures.hidden, figures.width, figures.inner
    return (
        modulation("single.modulation", figures, vectors=3)
        + project("single.attention", figures, per=Per.BOTH)
        + joint("single.attention", figures)
        + feed("single.mlp.up", figures, hidden, width, split=Split.ROWS, pieces=width, per=Per.BOTH)
        + feed(
            "single.out",
            figures,
            inner + width,
            hidden,
            split=Split.COLUMNS,
            pieces=figures.heads,
            per=Per.BOTH,
        )
    )


def last(hidden: int, values: int, *, bias: bool = True) -> Parts:
    """The last modulation, and the way out to `values` numbers for each position."""
    return linear("norm_out", hidden, 2 * hidden, bias=bias, per=Per.SEQUENCE, quantizable=False) + linear(
        "out", hidden, values, bias=bias, quantizable=False
    )
