"""KV buffers in memory that is reserved at full length and only backed by pages that are used.

In: sizes. Out: one float32 array a cache and layer, and addresses of ranges of slots.
Invariant: a slot's resident bytes follow its tokens, since one block of tokens is one page of each head:
the kernel's page table is the block table, and attention kernels see plain contiguous memory.
"""

import mmap

import numpy as np
import numpy.typing as npt

from accord.terms.errors import BrokenEdge

_FLOAT_BYTES = 4
_MAP_NORESERVE = 0x4000  # asm-generic/mman.h; Python 3.11 has no name for it


class KvMemory:
    """(caches, slots, heads, capacity, width) float32."""

    def __init__(self, *, caches: int, slots: int, heads: int, capacity: int, width: int) -> None:
        self._token_bytes = width * _FLOAT_BYTES
        if capacity * self._token_bytes % mmap.PAGESIZE:
            raise ValueError(f"capacity {capacity} is not a whole number of blocks")
        shape = (caches, slots, heads, capacity, width)
        size = int(np.prod(shape)) * _FLOAT_BYTES
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
        try:
            self._map = mmap.mmap(-1, size, flags=flags)
        except OSError as error:
            raise BrokenEdge(
                f"can't reserve {size >> 20} MiB of address space for the KV cache: {error}; "
                "raise the limit (`ulimit -v unlimited`), or plan a smaller batch"
            ) from error
        self._map.madvise(mmap.MADV_NOHUGEPAGE)
        self._array: npt.NDArray[np.float32] = np.frombuffer(self._map, np.float32).reshape(shape)

    def view(self, cache: int, first: int, count: int) -> npt.NDArray[np.float32]:
        """(count, heads, capacity, width) of neighbouring slots; contiguous."""
        return self._array[cache, first : first + count]

    def copy(self, source: int, target: int, tokens: int) -> None:
        """Copies the first positions of one slot to another, in all caches."""
        self._array[:, target, :, :tokens] = self._array[:, source, :, :tokens]

    def free(self, slot: int, keep: int) -> None:
        """Gives the pages behind the first `keep` positions back to the system; they read as zeros."""
        caches, slots, heads, capacity, _ = self._array.shape
        head_bytes = capacity * self._token_bytes
        kept = -(-keep * self._token_bytes // mmap.PAGESIZE) * mmap.PAGESIZE
        for cache in range(caches):
            for head in range(heads):
                start = ((cache * slots + slot) * heads + head) * head_bytes
                self._map.madvise(mmap.MADV_DONTNEED, start + kept, head_bytes - kept)


def block_tokens(width: int) -> int:
    """Tokens of one head in one page."""
    return max(1, mmap.PAGESIZE // (width * _FLOAT_BYTES))
