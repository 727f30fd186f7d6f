"""Softmax attention with grouped keys and values, over all tokens or a window.

In: heads, their sizes, the layers. Out: `Parts` with a cache group. Invariant: keys and values are divided by KV
head, and held by several ranks where there are fewer heads than ranks.
"""

from accord.models.parts.parts import NOTHING, Layers, Parts, linear, norm, vector
from accord.terms.cache import CacheGroup, CacheKind
from accord.terms.tensors import Part, Split
from accord.terms.work import Attention, Reach

_KINDS = {
    Reach.CAUSAL: CacheKind.FULL,
    Reach.WINDOW: CacheKind.WINDOW,
    Reach.CHUNK: CacheKind.CHUNK,
    Reach.CHOSEN: CacheKind.FULL,  # any entry may be chosen later
}


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
    qk_norm_wide: bool = False,
    sinks: bool = False,
    gate: bool = False,
    head_gate: bool = False,
    cached: bool = True,
    values: bool = True,
    shared: bool = False,
    name: str = "attention",
) -> Parts:
    """GQA (arXiv 2305.13245); `heads == kv_heads` is plain multi-head attention.

    `qk_norm` is the size of a scale on queries and on keys (the head's size, usually; 0: none). `sinks`: a learned
    logit a head (gpt-oss). `gate`: queries come with a gate on the output (Qwen3-Next). `span` goes with WINDOW, CHUNK
    and CHOSEN. `qk_norm_wide`: the scales have a value for each channel of all heads (MiniMax-M2). `head_gate`: a
    matrix gives one gate for each head's output (Step-3.5). `values` False: what gives keys gives values, too (Gemma
    4). `shared`: keys and values are an earlier layer's, whose cache these layers read (Gemma 3n).
    """
    if not layers:
        return Parts()
    value = head_dim if value_dim is None else value_dim
    queries = heads * head_dim * (2 if gate else 1)
    made = linear(f"{name}.q", hidden, queries, layers, split=Split.ROWS, pieces=heads, bias=bias)
    if not shared:
        for side, size in (("k", kv_heads * head_dim), ("v", kv_heads * value if values else 0)):
            made += linear(f"{name}.{side}", hidden, size, layers, split=Split.KV_ROWS, pieces=kv_heads, bias=bias)
        made += norm(f"{name}.k_norm", qk_norm, layers)
    made += norm(f"{name}.q_norm", qk_norm, layers)
    if qk_norm_wide:
        made += _wide_norm(f"{name}.q_norm", layers, size=heads * head_dim, split=Split.ROWS, pieces=heads)
        made += _wide_norm(f"{name}.k_norm", layers, size=kv_heads * head_dim, split=Split.KV_ROWS, pieces=kv_heads)
    made += _by_head(name, layers, hidden=hidden, heads=heads, sinks=sinks, gate=head_gate)
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
    made += Parts(operators=(scores,), cache=(_cache(scores),) if cached and not shared else ())
    return made + linear(
        f"{name}.o", heads * value, out_width or hidden, layers, split=Split.COLUMNS, pieces=heads, bias=out_bias
    )


def _by_head(name: str, layers: Layers, *, hidden: int, heads: int, sinks: bool, gate: bool) -> Parts:
    made = linear(f"{name}.gate", hidden, heads, layers, split=Split.ROWS, pieces=heads) if gate else NOTHING
    return made + vector(f"{name}.sinks", heads, layers, split=Split.ROWS, pieces=heads) if sinks else made


def _wide_norm(name: str, layers: Layers, *, size: int, split: Split, pieces: int) -> Parts:
    return vector(name, size, layers, split=split, pieces=pieces, part=Part.NORM)


def _cache(scores: Attention) -> CacheGroup:
    return CacheGroup(
        name=scores.name,
        kind=_KINDS[scores.reach],
        layers=scores.layers,
        heads=scores.key_heads,
        key_dim=scores.key_dim,
        value_dim=scores.value_dim,
        window=None if scores.reach is Reach.CHOSEN else scores.span,
        pieces=scores.key_heads,
    )
