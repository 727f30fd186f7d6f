"""The shared-memory arena: loans never overlap, all comes back, and what was written outlives its writer."""

import mmap
import os
import random
import resource
import signal
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from accord.run import arena
from accord.run.arena import ALIGN_BYTES, Arena, ArenaReader

SIZE = 64 * mmap.PAGESIZE

# A child that writes from random numbers of a seed, says where, and waits to be killed.
WRITER = """
import random, sys, time
from accord.run.arena import Arena
fd, size, seed = map(int, sys.argv[1:])
arena = Arena(fd, size)
dice = random.Random(seed)
for length in (1, 4096, 4097, 100_000):
    offset = arena.allocate(length)
    arena.write(offset, (dice.randbytes(length),))
    print(offset, length, flush=True)
print("done", flush=True)
time.sleep(60)
"""

# A child that may make no file of more than a MiB, which is how a kernel without room answers: EFBIG for ENOSPC.
CRAMPED = """
import resource
from accord.run import arena
from accord.terms.errors import BrokenEdge
import mmap
import os
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
before = os.listdir("/proc/self/fd")
try:
    arena.create("voice", 64 << 20)
except BrokenEdge as error:
    print(error)
assert os.listdir("/proc/self/fd") == before
os.close(arena.create("voice", 1 << 20))
"""


class Loans(RuleBasedStateMachine):
    """Allocations and returns in any order, against a plain list of what is on loan."""

    @initialize(pages=st.integers(1, 40))
    def start(self, pages: int) -> None:
        self.size = pages * ALIGN_BYTES
        self.fd = arena.create("test", self.size)
        self.arena = Arena(self.fd, self.size)
        self.reader = ArenaReader(self.fd, self.size)
        self.loans: dict[int, bytes] = {}
        self.written = 0

    @rule(sizes=st.lists(st.integers(0, 5 * ALIGN_BYTES), min_size=1, max_size=8))
    def borrow(self, sizes: list[int]) -> None:
        for size in sizes:
            offset = self.arena.allocate(size)
            if offset is None:
                assert self._longest_gap() < max(1, size), "there was room"
                continue
            self.written += 1
            data = random.Random(self.written).randbytes(size)
            self.arena.write(offset, (data[: size // 3], memoryview(data)[size // 3 :]))
            self.loans[offset] = data

    @precondition(lambda self: self.loans)
    @rule(places=st.lists(st.integers(0, 20), min_size=1, max_size=8))
    def give_back(self, places: list[int]) -> None:
        for place in places:
            if self.loans:
                offset = sorted(self.loans)[place % len(self.loans)]
                self.arena.free(offset)
                del self.loans[offset]
                with pytest.raises(KeyError):
                    self.arena.free(offset)

    @invariant()
    def every_loan_reads_as_it_was_written(self) -> None:
        """If two overlapped, the later would have spoilt the earlier."""
        for offset, data in self.loans.items():
            assert self.reader.view(offset, len(data)) == data

    @invariant()
    def the_books_are_right(self) -> None:
        assert self.arena.used_bytes == sum(map(_rounded, map(len, self.loans.values())))
        assert all(offset % ALIGN_BYTES == 0 for offset in self.loans)

    def teardown(self) -> None:
        if hasattr(self, "arena"):
            for offset in self.loans:
                self.arena.free(offset)
            assert self.arena.used_bytes == 0
            assert self.arena.allocate(self.size) == 0, "all the pieces are one again"
            os.close(self.fd)

    def _longest_gap(self) -> int:
        ends, longest = 0, 0
        for offset in sorted(self.loans):
            longest = max(longest, offset - ends)
            ends = offset + _rounded(len(self.loans[offset]))
        return max(longest, self.size - ends)


def _rounded(size: int) -> int:
    return max(1, -(-size // ALIGN_BYTES)) * ALIGN_BYTES


TestLoans = Loans.TestCase


@given(start=st.integers(-10, SIZE + 10), size=st.integers(0, SIZE + 10))
def test_a_view_lies_inside_or_is_refused(start: int, size: int) -> None:
    fd = arena.create("test", SIZE)
    try:
        reader = ArenaReader(fd, SIZE)
        if 0 <= start <= start + size <= SIZE:
            assert reader.view(start, size).nbytes == size
        else:
            with pytest.raises(ValueError, match="outside the arena"):
                reader.view(start, size)
        with pytest.raises(TypeError):
            reader.view(0, 1)[0] = 1
    finally:
        os.close(fd)


def test_what_another_process_wrote_is_read_even_after_it_was_killed() -> None:
    named = set(os.listdir("/dev/shm"))
    fd = arena.create("writer", SIZE)
    command = [sys.executable, "-c", WRITER, str(fd), str(SIZE), "7"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, pass_fds=(fd,)) as child:
        try:
            reader = ArenaReader(fd, SIZE)
            os.close(fd)  # the mappings alone keep the memory
            places = [tuple(map(int, child.stdout.readline().split())) for _ in range(4)]
            assert child.stdout.readline() == "done\n"
            assert set(os.listdir("/dev/shm")) == named
            views = [reader.view(offset, length) for offset, length in places]
        finally:
            child.send_signal(signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
    dice = random.Random(7)
    assert [bytes(view) for view in views] == [dice.randbytes(length) for _, length in places]
    assert reader.view(*places[1]) == views[1]
    assert set(os.listdir("/dev/shm")) == named


def test_memory_is_there_from_the_start_and_keeps_its_size() -> None:
    data = random.Random(1).randbytes(SIZE)
    fd = arena.create("test", SIZE)
    mine = Arena(fd, SIZE)
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    mine.write(0, (data,))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults < 16, "one for each of 64 pages, if not touched"
    for size in (0, SIZE - 1, SIZE + ALIGN_BYTES):
        with pytest.raises(PermissionError):
            os.ftruncate(fd, size)
    os.close(fd)


def test_without_memory_the_arena_is_a_broken_edge_that_says_what_to_do() -> None:
    """A kernel out of room and one that forbids it answer alike; the second can be had without harm."""
    ended = subprocess.run([sys.executable, "-c", CRAMPED], check=True, capture_output=True, text=True, timeout=60)
    assert ended.stdout.startswith("arena of voice: 64 MiB: ")
    assert "free memory, or plan fewer replicas or smaller arenas" in ended.stdout
