"""Multi-head latent attention (MLA) and the indexer that thins it out.

In: heads, ranks, the layers. Out: `Parts` with a latent cache. Invariant: what is cached is the latent and the rotated
key, one entry for all heads, held by every tensor-parallel rank. Shapes: DeepSeek-V2 (arXiv 2405.04434, 2.1).
"""

from dataclasses import dataclass

from accord.models.parts.parts import NOTHING, Layers, Parts, linear, norm
from accord.terms.cache import CacheGroup, CacheKind
from accord.terms.tensors import Split
from accord.terms.work import Attention, MatMul, Per, Phase, Reach


@dataclass(frozen=True, slots=True, kw_only=True)
class Latent:
    """MLA's figures. `query_rank` None: queries come straight from the hidden state.

    A key is `nope` values from the latent and `rope` shared ones. `bias` stands on the matrices that read or write
    hidden states. `gate`: the output is gated by a matrix of its own (Kimi-K3).
    """

    heads: int
    query_rank: int | None
    rank: int
    nope: int
    rope: int
    value: int
    bias: bool = False
    gate: bool = False


def latent_attention(
    layers: Layers, shape: Latent, *, hidden: int, chosen: int | None = None, name: str = "attention"
) -> Parts:
    """MLA in its two forms: keys and values expanded for each head (prefill), or scores over the latent (decode).

    `chosen`: attention reads this many entries, which an indexer chose; engines then run the second form always.
    """
    if not layers:
        return NOTHING
    outputs = shape.heads * shape.value
    gate = linear(f"{name}.gate", hidden, outputs, layers, split=Split.ROWS, pieces=shape.heads)
    return (
        _queries(layers, shape, hidden=hidden, name=name)
        + linear(f"{name}.kv_a", hidden, shape.rank + shape.rope, layers, bias=shape.bias)
        + norm(f"{name}.kv_norm", shape.rank, layers)
        + _expansion(layers, shape, name=name, always_latent=chosen is not None)
        + Parts(operators=_scores(layers, shape, chosen=chosen, name=name), cache=(_cache(layers, shape, name=name),))
        + (gate if shape.gate else NOTHING)
        + linear(f"{name}.o", outputs, hidden, layers, split=Split.COLUMNS, pieces=shape.heads, bias=shape.bias)
    )


def indexer(layers: Layers, *, hidden: int, query_rank: int, heads: int, dim: int, name: str = "indexer") -> Parts:
    """DeepSeek-V3.2's indexer: small keys, and scores of every query against all of them. Every rank runs all of it."""
    if not layers:
        return NOTHING
    scores = Attention(name=name, layers=layers, heads=heads, key_heads=1, key_dim=dim, value_dim=0, reach=Reach.CAUSAL)
    keys = CacheGroup(name=name, kind=CacheKind.INDEX, layers=layers, key_dim=dim)
    return (
        linear(f"{name}.q", query_rank, heads * dim, layers)
        + linear(f"{name}.k", hidden, dim, layers)
        + norm(f"{name}.k_norm", dim, layers, bias=True)
        + linear(f"{name}.weights", hidden, heads, layers, quantizable=False)
        + Parts(operators=(scores,), cache=(keys,))
    )


def _queries(layers: Layers, shape: Latent, *, hidden: int, name: str) -> Parts:
    width = shape.heads * (shape.nope + shape.rope)
    if shape.query_rank is None:
        return linear(f"{name}.q", hidden, width, layers, split=Split.ROWS, pieces=shape.heads)
    return (
        linear(f"{name}.q_a", hidden, shape.query_rank, layers, bias=shape.bias)
        + norm(f"{name}.q_norm", shape.query_rank, layers)
        + linear(f"{name}.q_b", shape.query_rank, width, layers, split=Split.ROWS, pieces=shape.heads)
    )


def _expansion(layers: Layers, shape: Latent, *, name: str, always_latent: bool) -> Parts:
    """From the latent to each head's keys and values.

    Prefill runs it over new tokens and over what is cached. The latent form folds one half into the queries and the
    other into the outputs, which costs as much for each new token, and nothing for cached ones.
    """
    width = shape.heads * (shape.nope + shape.value)
    made = linear(f"{name}.kv_b", shape.rank, width, layers, split=Split.ROWS, pieces=shape.heads)
    if always_latent:
        return made
    again = MatMul(weight=made.tensors[0], per=Per.CONTEXT, phase=Phase.PREFILL)
    return made + Parts(operators=(again,))


def _scores(layers: Layers, shape: Latent, *, chosen: int | None, name: str) -> tuple[Attention, ...]:
    latent = Attention(
        name=name,
        layers=layers,
        heads=shape.heads,
        key_heads=1,
        key_dim=shape.rank + shape.rope,
        value_dim=shape.rank,
        reach=Reach.CAUSAL if chosen is None else Reach.CHOSEN,
        span=chosen,
        phase=Phase.DECODE if chosen is None else Phase.ALWAYS,
        values_in_keys=True,
    )
    if chosen is not None:
        return (latent,)
    expanded = Attention(
        name=name,
        layers=layers,
        heads=shape.heads,
        key_heads=shape.heads,
        key_dim=shape.nope + shape.rope,
        value_dim=shape.value,
        reach=Reach.CAUSAL,
        phase=Phase.PREFILL,
    )
    return (expanded, latent)


def _cache(layers: Layers, shape: Latent, *, name: str) -> CacheGroup:
    return CacheGroup(name=name, kind=CacheKind.LATENT, layers=layers, key_dim=shape.rank + shape.rope)
