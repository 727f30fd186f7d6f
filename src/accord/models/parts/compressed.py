"""Attention over a window and over compressed entries, and hyper-connections: what DeepSeek-V4 is made of.

In: sizes, ratios, the layers. Out: `Parts`. Invariant: keys and values are one tensor of one head, held by every
tensor-parallel rank. Shapes follow transformers' DeepseekV4ForCausalLM; the compressors' states follow vLLM's.
"""

from dataclasses import dataclass

from accord.models.parts.parts import NOTHING, Layers, Parts, linear, norm, vector
from accord.terms.cache import CacheGroup, CacheKind
from accord.terms.tensors import Dtype, Part, Split, Tensor
from accord.terms.work import Attention, MatMul, Reach


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """Many query heads on one head whose keys are its values, and a grouped low-rank output."""

    hidden: int
    heads: int
    dim: int
    query_rank: int
    groups: int
    output_rank: int
    window: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Compression:
    """One entry for each `ratio` tokens; `overlap`: an entry is made from its own tokens and those of the one before.

    `chosen`: attention reads this many entries, which an indexer chose (None: all of them).
    """

    name: str
    ratio: int
    overlap: bool
    chosen: int | None = None


def windowed(layers: Layers, shape: Shared, *, name: str = "attention") -> Parts:
    """Projections of all layers, and attention to the last tokens."""
    width = shape.heads * shape.dim
    inner = shape.groups * shape.output_rank
    window = f"{name}.window"
    cache = CacheGroup(name=window, kind=CacheKind.WINDOW, layers=layers, key_dim=shape.dim, window=shape.window)
    scores = _scores(layers, shape, name=window, reach=Reach.WINDOW, span=shape.window)
    return (
        linear(f"{name}.q_a", shape.hidden, shape.query_rank, layers)
        + norm(f"{name}.q_norm", shape.query_rank, layers)
        + linear(f"{name}.q_b", shape.query_rank, width, layers, split=Split.ROWS, pieces=shape.heads)
        + linear(f"{name}.kv", shape.hidden, shape.dim, layers)
        + norm(f"{name}.kv_norm", shape.dim, layers)
        + vector(f"{name}.sinks", shape.heads, layers, split=Split.ROWS, pieces=shape.heads, dtype=Dtype.F32)
        + Parts(operators=(scores,), cache=(cache,))
        + linear(f"{name}.o_a", width // shape.groups, inner, layers, split=Split.ROWS, pieces=shape.groups)
        + linear(f"{name}.o_b", inner, shape.hidden, layers, split=Split.COLUMNS, pieces=shape.groups)
    )


def compressed(layers: Layers, shape: Shared, how: Compression) -> Parts:
    """A compressor, and attention to its entries."""
    if not layers:
        return NOTHING
    name = f"attention.{how.name}"
    reach = Reach.CAUSAL if how.chosen is None else Reach.CHOSEN
    scores = _scores(layers, shape, name=name, reach=reach, span=how.chosen, ratio=how.ratio)
    cache = CacheGroup(name=name, kind=CacheKind.COMPRESSED, layers=layers, key_dim=shape.dim, ratio=how.ratio)
    return compressor(layers, how, hidden=shape.hidden, dim=shape.dim, name=f"{how.name}.compressor") + Parts(
        operators=(scores,), cache=(cache,)
    )


def compressed_indexer(
    layers: Layers, shape: Shared, how: Compression, *, heads: int, dim: int, name: str = "indexer"
) -> Parts:
    """An indexer over compressed keys of its own; every rank runs all of it."""
    if not layers:
        return NOTHING
    scores = Attention(
        name=name,
        layers=layers,
        heads=heads,
        key_heads=1,
        key_dim=dim,
        value_dim=0,
        reach=Reach.CAUSAL,
        ratio=how.ratio,
    )
    keys = CacheGroup(name=name, kind=CacheKind.INDEX, layers=layers, key_dim=dim, ratio=how.ratio)
    return (
        linear(f"{name}.q", shape.query_rank, heads * dim, layers)
        + linear(f"{name}.weights", shape.hidden, heads, layers, quantizable=False)
        + compressor(layers, how, hidden=shape.hidden, dim=dim, name=f"{name}.compressor")
        + Parts(operators=(scores,), cache=(keys,))
    )


def compressor(layers: Layers, how: Compression, *, hidden: int, dim: int, name: str) -> Parts:
    """Values and gates of each token, of which `ratio` become one entry; releases keep its matrices unquantized.

    Its state holds both, in float32, for the tokens that the next entry is made from.
    """
    sides = 2 if how.overlap else 1
    state = CacheGroup(
        name=name,
        kind=CacheKind.STATE,
        layers=layers,
        state_values=(sides * how.ratio) * (2 * sides * dim),
        state_dtype=Dtype.F32,
    )
    return (
        linear(f"{name}.kv", hidden, sides * dim, layers, quantizable=False)
        + linear(f"{name}.gate", hidden, sides * dim, layers, quantizable=False)
        + vector(f"{name}.position", how.ratio * sides * dim, layers, dtype=Dtype.F32)
        + norm(f"{name}.norm", dim, layers)
        + Parts(cache=(state,))
    )


def hyper_connection(layers: Layers, *, hidden: int, streams: int, name: str) -> Parts:
    """Manifold-constrained hyper-connections: how a block reads from its `streams` residuals and writes back.

    The projection makes streams * (2 + streams) weights of streams * hidden values; mixing the residuals by streams
    x streams of those is another streams^2 * hidden multiplies, its (2 + streams)th part.
    """
    outputs = (2 + streams) * streams
    return _float_matrix(f"{name}.mix", outputs, streams * hidden, layers, rate=1 + 1 / (2 + streams)) + vector(
        f"{name}.offsets", outputs + 3, layers, dtype=Dtype.F32
    )


def hyper_head(*, hidden: int, streams: int) -> Parts:
    """The streams become one before the last norm."""
    return _float_matrix("hyper_head.mix", streams, streams * hidden, (), part=Part.HEAD) + vector(
        "hyper_head.offsets", streams + 1, part=Part.HEAD, dtype=Dtype.F32
    )


def _float_matrix(
    name: str, rows: int, columns: int, layers: Layers, *, rate: float = 1.0, part: Part = Part.LAYER
) -> Parts:
    weight = Tensor(name=name, part=part, rows=rows, columns=columns, layers=layers, dtype=Dtype.F32)
    return Parts(tensors=(weight,), operators=(MatMul(weight=weight, rate=rate),))


def _scores(layers: Layers, shape: Shared, *, name: str, reach: Reach, span: int | None, ratio: int = 1) -> Attention:
    return Attention(
        name=name,
        layers=layers,
        heads=shape.heads,
        key_heads=1,
        key_dim=shape.dim,
        value_dim=shape.dim,
        reach=reach,
        span=span,
        ratio=ratio,
        values_in_keys=True,
    )
