"""A pooled, pre-faulted shared-memory arena: one for each node, written by it, read by its peers.

In: payload sizes. Out: offsets into the arena. Invariant: an extent is either free or on loan, never both.
The memory is an anonymous memfd: it needs no name, no room in /dev/shm and no clean-up, because the
kernel keeps it for as long as any process maps it. A loan thus survives its writer's crash, and the
writer takes back a crashed reader's loans (see sender.py).
"""

import errno
import fcntl
import mmap
import os
from bisect import bisect_left, bisect_right, insort

from accord.terms.errors import BrokenEdge

# Credit counts bytes: extents much coarser than that would fill an arena before its windows are full.
ALIGN_BYTES = 256
# Memory that the reader has just read is slow to write again: its lines lie in the other core's cache. Taking turns
# within a part of the arena that the shared cache holds makes the copy of 1 MiB 2.5 times as fast (measured on two
# cores with 1 MiB of their own and 32 MiB together).
TURN_BYTES = 8 << 20
_MADV_POPULATE_READ = 22
_MADV_POPULATE_WRITE = 23


def create(name: str, size_bytes: int) -> int:
    """A new memfd of `size_bytes`, sealed against resizing; BrokenEdge if there is no memory for it."""
    fd = os.memfd_create(f"accord-{name}", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.posix_fallocate(fd, 0, size_bytes)
    except OSError as error:
        os.close(fd)
        raise BrokenEdge(
            f"arena of {name}: {size_bytes >> 20} MiB: {os.strerror(error.errno or errno.ENOMEM)}; "
            "free memory, or plan fewer replicas or smaller arenas"
        ) from error
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    return fd


class Arena:
    """The writer's side: next fit over free extents, which merge when they are given back."""

    def __init__(self, fd: int, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.used_bytes = 0
        self._map = mmap.mmap(fd, size_bytes)
        _populate(self._map, _MADV_POPULATE_WRITE)
        self._view = memoryview(self._map)
        self._next = 0
        self._starts: list[int] = [0]
        self._free: dict[int, int] = {0: size_bytes}
        self._loans: dict[int, int] = {}

    def allocate(self, size_bytes: int) -> int | None:
        """The offset of a free extent, or None when no extent is large enough now."""
        wanted = max(ALIGN_BYTES, -(-size_bytes // ALIGN_BYTES) * ALIGN_BYTES)
        found = self._find(wanted)
        if found is None:
            return None
        position, offset = found
        start = self._starts.pop(position)
        end = start + self._free.pop(start)
        for left, right in ((offset + wanted, end), (start, offset)):
            if right > left:
                self._starts.insert(position, left)
                self._free[left] = right - left
        self._loans[offset] = wanted
        self.used_bytes += wanted
        self._next = offset + wanted if offset + wanted < TURN_BYTES else 0
        return offset

    def fits(self, size_bytes: int) -> bool:
        """Whether a payload of this size could ever be held."""
        return size_bytes <= self.size_bytes

    def write(self, offset: int, buffers: tuple[bytes | memoryview, ...]) -> None:
        """Copies the buffers, one after the other, to `offset`."""
        for buffer in buffers:
            flat = memoryview(buffer).cast("B")
            self._view[offset : offset + len(flat)] = flat
            offset += len(flat)

    def free(self, offset: int) -> None:
        """Gives an extent back; KeyError if it is not on loan."""
        length = self._loans.pop(offset)
        self.used_bytes -= length
        position = bisect_left(self._starts, offset)
        if position < len(self._starts) and self._starts[position] == offset + length:
            length += self._free.pop(self._starts.pop(position))
        if position > 0:
            before = self._starts[position - 1]
            if before + self._free[before] == offset:
                self._free[before] += length
                return
        insort(self._starts, offset)
        self._free[offset] = length

    def _find(self, wanted: int) -> tuple[int, int] | None:
        """The position of a free extent and an offset in it: after the last one made, else the first that fits."""
        position = bisect_right(self._starts, self._next) - 1
        if position >= 0:
            start = self._starts[position]
            if start + self._free[start] - self._next >= wanted:
                return position, self._next
        for position, start in enumerate(self._starts):
            if self._free[start] >= wanted:
                return position, start
        return None

    def close(self) -> None:
        """Lets go of the memory; readers keep what they map."""
        self._view.release()
        self._map.close()


class ArenaReader:
    """A peer's arena, read-only. Views stay valid after the peer has died."""

    def __init__(self, fd: int, size_bytes: int) -> None:
        self._map = mmap.mmap(fd, size_bytes, prot=mmap.PROT_READ)
        _populate(self._map, _MADV_POPULATE_READ)
        self._view = memoryview(self._map)

    def view(self, offset: int, size_bytes: int) -> memoryview:
        """A read-only view of a payload; ValueError if it lies outside the arena."""
        if offset < 0 or offset + size_bytes > len(self._view):
            raise ValueError(f"payload at {offset} of {size_bytes} bytes lies outside the arena")
        return self._view[offset : offset + size_bytes]


def _populate(area: mmap.mmap, advice: int) -> None:
    try:
        area.madvise(advice)
    except OSError as error:
        # Kernels before 5.14 don't know the advice: touching each page does the same, slower.
        if error.errno != errno.EINVAL:
            raise BrokenEdge(f"arena: {os.strerror(error.errno or 0)}; free memory, or plan smaller arenas") from error
        for page in range(0, len(area), mmap.PAGESIZE):
            if advice == _MADV_POPULATE_WRITE:
                area[page] = 0
            else:
                area[page]
