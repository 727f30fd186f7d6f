"""Bytes that a request keeps resident between steps.

In: cache groups, tokens, a dtype, ranks. Out: bytes. Invariant: bytes never shrink as tokens grow, and stop growing at
a window; a rank holds at least its part and at most the whole.
"""

import math
from collections.abc import Iterable
from dataclasses import replace

from accord.terms.cache import CacheGroup, CacheKind
from accord.terms.tensors import DTYPE_BYTES, Dtype


def request_bytes(groups: Iterable[CacheGroup], *, tokens: int, dtype: Dtype) -> int:
    """Bytes of one sequence of `tokens` tokens, over all layers of all groups."""
    return sum(group_bytes(group, tokens=tokens, dtype=dtype) for group in groups)


def group_bytes(group: CacheGroup, *, tokens: int, dtype: Dtype) -> int:
    """Bytes of one sequence in one group."""
    layers = len(group.layers)
    state = layers * group.state_values * DTYPE_BYTES[group.state_dtype]
    return layers * entries(group, tokens=tokens) * group.entry_values * DTYPE_BYTES[dtype] + state


def entries(group: CacheGroup, *, tokens: int) -> int:
    """Entries that one layer keeps for a sequence of `tokens` tokens."""
    match group.kind:
        case CacheKind.FULL | CacheKind.LATENT | CacheKind.INDEX:
            return tokens // group.ratio
        case CacheKind.WINDOW | CacheKind.CHUNK:
            return min(tokens, group.window or tokens)
        case CacheKind.COMPRESSED:
            return tokens // group.ratio
        case CacheKind.CROSS:
            return group.window or 0
        case CacheKind.STATE:
            return 0


def token_bytes(group: CacheGroup, *, dtype: Dtype) -> float:
    """Bytes that one more token adds below any window."""
    return len(group.layers) * group.entry_values * DTYPE_BYTES[dtype] / group.ratio


def next_token_bytes(group: CacheGroup, *, tokens: int, dtype: Dtype) -> int:
    """Bytes that the token after the first `tokens` adds: none beyond a window, none between compressed entries."""
    return group_bytes(group, tokens=tokens + 1, dtype=dtype) - group_bytes(group, tokens=tokens, dtype=dtype)


def growth_end(group: CacheGroup) -> int | None:
    """The length at which a sequence stops growing here; None if it never does."""
    match group.kind:
        case CacheKind.WINDOW | CacheKind.CHUNK:
            return group.window
        case CacheKind.STATE | CacheKind.CROSS:
            return 0
        case _:
            return None


def on_rank(groups: Iterable[CacheGroup], ranks: int) -> tuple[CacheGroup, ...]:
    """What one of `ranks` tensor-parallel ranks keeps: its share of the heads, or all of what can't be divided.

    With fewer KV heads than ranks, each is held by several. Where the pieces don't come out even, this is the fullest
    rank (weights of such a layout are refused by shares.py).
    """
    return tuple(_on_rank(group, ranks) for group in groups)


def _on_rank(group: CacheGroup, ranks: int) -> CacheGroup:
    pieces = math.ceil(group.pieces / ranks)
    return replace(
        group,
        heads=math.ceil(group.heads * pieces / group.pieces),
        state_values=math.ceil(group.state_values * pieces / group.pieces),
        pieces=pieces,
    )
