"""What a block is made of, and the smallest blocks.

In: sizes and the layers that have the block. Out: `Parts`. Invariant: each matrix multiply has its tensor, and each
tensor is named once.
"""

from dataclasses import dataclass

from accord.terms.cache import CacheGroup
from accord.terms.tensors import Dtype, Part, Split, Tensor
from accord.terms.work import Lookup, MatMul, Operator, Per, Phase

Layers = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Tensors, operators and cache groups, in the order in which they run."""

    tensors: tuple[Tensor, ...] = ()
    operators: tuple[Operator, ...] = ()
    cache: tuple[CacheGroup, ...] = ()

    def __add__(self, other: "Parts") -> "Parts":
        return Parts(
            tensors=self.tensors + other.tensors,
            operators=self.operators + other.operators,
            cache=self.cache + other.cache,
        )


NOTHING = Parts()


def linear(
    name: str,
    inputs: int,
    outputs: int,
    layers: Layers = (),
    *,
    split: Split = Split.NONE,
    pieces: int = 1,
    bias: bool = False,
    per: Per = Per.UNIT,
    rate: float = 1.0,
    part: Part = Part.LAYER,
    quantizable: bool = True,
    copies: int = 1,
    phase: Phase = Phase.ALWAYS,
    dtype: Dtype = Dtype.BF16,
) -> Parts:
    """A matrix that is applied to each unit. A bias is divided as the outputs are, or held by all ranks."""
    if not outputs or not inputs:
        return NOTHING
    weight = Tensor(
        name=name,
        part=part,
        rows=outputs,
        columns=inputs,
        copies=copies,
        layers=layers,
        split=split,
        pieces=pieces,
        quantizable=quantizable,
        dtype=dtype,
    )
    made = Parts(tensors=(weight,), operators=(MatMul(weight=weight, per=per, rate=rate, phase=phase),))
    if not bias:
        return made
    by_output = split in (Split.ROWS, Split.KV_ROWS, Split.VOCABULARY)
    return made + vector(
        f"{name}.bias",
        outputs,
        layers,
        split=split if by_output else Split.NONE,
        pieces=pieces if by_output else 1,
        part=part,
        copies=copies,
        dtype=dtype,
    )


def vector(
    name: str,
    size: int,
    layers: Layers = (),
    *,
    split: Split = Split.NONE,
    pieces: int = 1,
    part: Part = Part.LAYER,
    dtype: Dtype = Dtype.BF16,
    copies: int = 1,
    buffer: bool = False,
) -> Parts:
    """A bias, a scale, a sink: values without a matrix multiply."""
    if not size:
        return NOTHING
    made = Tensor(
        name=name,
        part=part,
        rows=size,
        layers=layers,
        split=split,
        pieces=pieces,
        dtype=dtype,
        copies=copies,
        buffer=buffer,
    )
    return Parts(tensors=(made,))


def norm(name: str, size: int, layers: Layers = (), *, bias: bool = False, copies: int = 1) -> Parts:
    """A normalisation's scale, and its offset for layer norms."""
    made = vector(name, size, layers, part=Part.NORM, copies=copies)
    return made + vector(f"{name}.bias", size, layers, part=Part.NORM, copies=copies) if bias else made


def table(
    name: str, rows: int, columns: int, *, part: Part = Part.EMBEDDING, split: Split = Split.NONE, per: Per = Per.UNIT
) -> Parts:
    """An embedding table, of which each unit reads a row."""
    weight = Tensor(name=name, part=part, rows=rows, columns=columns, split=split, pieces=rows)
    return Parts(tensors=(weight,), operators=(Lookup(weight=weight, per=per),))


def tokens(vocabulary: int, hidden: int, *, name: str = "embed_tokens") -> Parts:
    """The token embedding of a language model."""
    return table(name, vocabulary, hidden, split=Split.VOCABULARY)


def head(
    vocabulary: int, hidden: int, *, tied: Tensor | None = None, bias: bool = False, name: str = "lm_head"
) -> Parts:
    """Logits of each sequence's last token; a tied head reads the embedding again and stores nothing."""
    if tied is not None:
        return Parts(operators=(MatMul(weight=tied, per=Per.SEQUENCE),))
    return linear(
        name,
        hidden,
        vocabulary,
        split=Split.VOCABULARY,
        pieces=vocabulary,
        per=Per.SEQUENCE,
        part=Part.HEAD,
        quantizable=False,
        bias=bias,
    )


def convolution(
    name: str,
    channels: int,
    filters: int,
    layers: Layers = (),
    *,
    kernel: int,
    rate: float,
    groups: int = 1,
    bias: bool = True,
    per: Per = Per.UNIT,
) -> Parts:
    """A convolution: `kernel` is its size over all dimensions, `rate` is output positions a unit."""
    weight = Tensor(name=name, part=Part.LAYER, rows=filters, columns=channels // groups * kernel, layers=layers)
    made = Parts(tensors=(weight,), operators=(MatMul(weight=weight, per=per, rate=rate, convolution=True),))
    return made + vector(f"{name}.bias", filters, layers) if bias else made
