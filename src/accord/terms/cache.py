"""What a request keeps resident between steps: keys, values, latents, states.

In: nothing. Out: `CacheGroup`. Invariant: one group's layers keep entries of one size; arithmetic over
groups lives in `estimate/cache.py` and `estimate/pages.py`.
"""

from dataclasses import dataclass
from enum import StrEnum

from accord.terms.tensors import Dtype


class CacheKind(StrEnum):
    """How a layer's memory of a sequence grows."""

    FULL = "full"  # an entry for each token
    WINDOW = "window"  # an entry for each of the last `window` tokens
    CHUNK = "chunk"  # an entry for each token of the current chunk of `window` tokens
    LATENT = "latent"  # an entry for each token, shared by all heads (MLA); can't be divided by tensor parallelism
    INDEX = "index"  # small keys that choose which entries attention reads; an entry for each token
    COMPRESSED = "compressed"  # an entry for each `ratio` tokens
    STATE = "state"  # of one size, whatever the length
    CROSS = "cross"  # keys and values of an encoder's output, written once a request


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheGroup:
    """Layers whose entries are alike.

    An entry has `heads * (key_dim + value_dim)` values in each layer, in the cache's dtype. `window` bounds the
    entries that stay (for CROSS: the encoder's longest output). STATE keeps `state_values` values a layer and
    request, in `state_dtype` whatever the cache's dtype. `pieces` is how many parts tensor parallelism can divide
    an entry into (1: each rank holds all of it).
    """

    name: str
    kind: CacheKind
    layers: tuple[int, ...]
    heads: int = 1
    key_dim: int = 0
    value_dim: int = 0
    window: int | None = None
    ratio: int = 1
    state_values: int = 0
    state_dtype: Dtype = Dtype.F32
    pieces: int = 1

    @property
    def entry_values(self) -> int:
        """Values of one entry in one layer."""
        return self.heads * (self.key_dim + self.value_dim)
