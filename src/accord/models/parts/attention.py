"""Softmax attention with grouped keys and values, over all tokens or a window.

In: heads, their sizes, the layers. Out: `Parts` with a cache group. Invariant: keys and values are divided by KV
head, and held by several ranks where there are fewer heads than ranks.
"""

from accord.models.parts.parts import Layers, Parts, linear, norm, vector
from accord.terms.cache import CacheGroup, CacheKind
from accord.terms.tensors import Split
from accord.terms.work import Attention, Reach

_KINDS = {Reach.CAUSAL: CacheKind.FULL, Reach.WINDOW: CacheKind.WINDOW, Reach.CHUNK: CacheKind.CHUNK}


def grouped(
    layers: Layers,
    *,
    hidden: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    value_dim: int | None = None,
    reach: Reach = Reach.CAUSAL,
    span: int | None = None,
    bias: bool = False,
    out_bias: bool = False,
    out_width: int | None = None,
    qk_norm: int = 0,
    sinks: bool = False,
    gate: bool = False,
    cached: bool = True,
    name: str = "attention",
) -> Parts:
    """GQA (arXiv 2305.13245); `heads == kv_heads` is plain multi-head attention.

    `qk_norm` is the size of a scale on queries and on keys (the head's size, usually; 0: none). `sinks`: a learned
    logit a head (gpt-oss). `gate`: queries come with a gate on the output (Qwen3-Next). `span` goes with WINDOW, CHUNK.
    """
    if not layers:
        return Parts()
    value = head_dim if value_dim is None else value_dim
    queries = heads * head_dim * (2 if gate else 1)
    made = (
        linear(f"{name}.q", hidden, queries, layers, split=Split.ROWS, pieces=heads, bias=bias)
        + linear(f"{name}.k", hidden, kv_heads * head_dim, layers, split=Split.KV_ROWS, pieces=kv_heads, bias=bias)
        + linear(f"{name}.v", hidden, kv_heads * value, layers, split=Split.KV_ROWS, pieces=kv_heads, bias=bias)
        + norm(f"{name}.q_norm", qk_norm, layers)
        + norm(f"{name}.k_norm", qk_norm, layers)
    )
    if sinks:
        made += vector(f"{name}.sinks", heads, layers, split=Split.ROWS, pieces=heads)
    scores = Attention(
        name=name,
        layers=layers,
        heads=heads,
        key_heads=kv_heads,
        key_dim=head_dim,
        value_dim=value,
        reach=reach,
        span=span,
    )
    made += Parts(operators=(scores,), cache=(_cache(scores),) if cached else ())
    return made + linear(
        f"{name}.o", heads * value, out_width or hidden, layers, split=Split.COLUMNS, pieces=heads, bias=out_bias
    )


def _cache(scores: Attention) -> CacheGroup:
    return CacheGroup(
        name=scores.name,
        kind=_KINDS[scores.reach],
        layers=scores.layers,
        heads=scores.key_heads,
        key_dim=scores.key_dim,
        value_dim=scores.value_dim,
        window=scores.span,
        pieces=scores.key_heads,
    )
