"""Bytes that a request keeps resident between steps.

In: cache groups, tokens, a dtype. Out: bytes. Invariant: bytes never shrink as tokens grow, and stop growing at a
window.
"""

from collections.abc import Iterable

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
