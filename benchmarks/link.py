"""One payload from process to process over the runtime's own link, against one copy and one read of its size.

The link: arena, streams, credit and socket of the runtime; from the call that sends until the last byte was
read, in place, by the other process. The reference, in turn with the link: one memcpy into warm memory of the
kernel's ordinary pages, as the arena has, and one read of it, in one process. Ratios are of medians; those of
minima, against a copy into huge pages, and against a bare hand-over without any protocol, are reported too.
"""

import argparse
import mmap
import statistics
import time
from dataclasses import dataclass

import numpy as np

from _bare import Bare, bare
from _figures import Figure, write
from _link_peers import SGLANG_OMNI, VLLM_OMNI, PeerTimes, ask
from _pair import Pair, pair, read

MIB = 1 << 20
SIZES_MIB = (1, 16, 64)
BARS = {1: 1.6, 16: 1.15, 64: 1.15}
ROUNDS = {1: 400, 16: 80, 64: 30}
WARM_UP = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One payload, in ns: elapsed, and processor time of all processes that took part."""

    wall_ns: int
    cpu_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """All rounds of one size: the link, a copy into ordinary pages, one into huge ones, a bare hand-over."""

    link: tuple[Sample, ...]
    reference: tuple[Sample, ...]
    huge: tuple[Sample, ...]
    bare: tuple[Sample, ...]


def main() -> None:
    """Measures every size, and the peers where a Python that has them is named."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--peers", metavar="PYTHON", help="a Python that has vllm-omni and sglang-omni installed")
    peers = arguments.parse_args().peers
    times = ask(peers, SIZES_MIB) if peers else ()
    with pair(2 * max(SIZES_MIB) * MIB) as link:
        measured = {}
        for size in SIZES_MIB:
            with bare(size * MIB) as floor:
                measured[size] = _measure(link, floor, size)
    figures = [figure for size in SIZES_MIB for figure in _figures(size, measured[size], times)]
    write("link", figures)


def _measure(link: Pair, floor: Bare, size_mib: int) -> Measured:
    source = np.random.default_rng(size_mib).integers(0, 1 << 40, size_mib * MIB // 8, dtype=np.uint64)
    payload, wanted = source.data.cast("B"), read(source)
    ordinary, huge = (_memory(size_mib * MIB, advice) for advice in (mmap.MADV_NOHUGEPAGE, mmap.MADV_HUGEPAGE))
    ways = [
        lambda: _passed(link, payload, wanted),
        lambda: _copied(payload, ordinary, wanted),
        lambda: _copied(payload, huge, wanted),
        lambda: _handed(floor, payload, wanted),
    ]
    rounds: list[list[Sample]] = [[] for _ in ways]
    for number in range(ROUNDS[size_mib] + WARM_UP):
        # Each way comes first in turn, so that none always finds the caches as the same other one left them.
        for way in (0, 1, 2, 3) if number % 2 else (3, 2, 1, 0):
            rounds[way].append(ways[way]())
    link_rounds, reference, huge_rounds, bare_rounds = (tuple(samples[WARM_UP:]) for samples in rounds)
    return Measured(link=link_rounds, reference=reference, huge=huge_rounds, bare=bare_rounds)


def _memory(size_bytes: int, advice: int) -> memoryview:
    area = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    area.madvise(advice)
    warm = memoryview(area)
    warm[:] = bytes(size_bytes)
    return warm


def _copied(payload: memoryview, warm: memoryview, wanted: int) -> Sample:
    cpu_ns, began_ns = time.process_time_ns(), time.monotonic_ns()
    warm[:] = payload  # of contiguous bytes: one memcpy
    total = read(np.frombuffer(warm, np.uint64))
    sample = Sample(wall_ns=time.monotonic_ns() - began_ns, cpu_ns=time.process_time_ns() - cpu_ns)
    _check(total, wanted)
    return sample


def _passed(link: Pair, payload: memoryview, wanted: int) -> Sample:
    cpu_ns, began_ns = time.process_time_ns(), time.monotonic_ns()
    answer = link.pass_on(payload)
    cpu_ns = time.process_time_ns() - cpu_ns + answer.cpu_ns - link.peer_cpu_ns
    link.peer_cpu_ns = answer.cpu_ns
    _check(answer.total, wanted)
    return Sample(wall_ns=answer.read_ns - began_ns, cpu_ns=cpu_ns)


def _handed(floor: Bare, payload: memoryview, wanted: int) -> Sample:
    began_ns = time.monotonic_ns()
    total, read_ns = floor.pass_on(payload)
    _check(total, wanted)
    return Sample(wall_ns=read_ns - began_ns, cpu_ns=0)


def _check(total: int, wanted: int) -> None:
    if total != wanted:
        raise ValueError(f"a payload with the sum {wanted} arrived with {total}")


def _figures(size: int, measured: Measured, peers: tuple[PeerTimes, ...]) -> list[Figure]:
    link, reference = ([sample.wall_ns for sample in samples] for samples in (measured.link, measured.reference))
    reference_ns, reference_cpu_ns = statistics.median(reference), _cpu_ns(measured.reference)
    wall = {row.peer: row.wall_ns / reference_ns for row in peers if row.size_mib == size}
    cpu = {row.peer: row.cpu_ns / reference_cpu_ns for row in peers if row.size_mib == size}
    ratio, cpu_ratio = statistics.median(link) / reference_ns, _cpu_ns(measured.link) / reference_cpu_ns
    huge_ns = statistics.median(sample.wall_ns for sample in measured.huge)
    bare_ns = statistics.median(sample.wall_ns for sample in measured.bare)
    return [
        _ratio(f"{size} MiB ratio", ratio, bar=BARS[size], peer=(VLLM_OMNI, wall.get(VLLM_OMNI))),
        _ratio(f"{size} MiB ratio beside sglang-omni", ratio, peer=(SGLANG_OMNI, wall.get(SGLANG_OMNI))),
        _ratio(f"{size} MiB ratio of minima", min(link) / min(reference)),
        _ratio(f"{size} MiB ratio to huge pages", statistics.median(link) / huge_ns),
        _ratio(f"{size} MiB ratio to a bare hand-over", statistics.median(link) / bare_ns),
        _ratio(f"{size} MiB bare hand-over ratio", bare_ns / reference_ns),
        _ratio(f"{size} MiB cpu ratio", cpu_ratio, peer=(VLLM_OMNI, cpu.get(VLLM_OMNI))),
        _ratio(f"{size} MiB cpu ratio beside sglang-omni", cpu_ratio, peer=(SGLANG_OMNI, cpu.get(SGLANG_OMNI))),
        Figure(name=f"{size} MiB", value=statistics.median(link) / 1e6, unit="ms", better="lower"),
    ]


def _cpu_ns(samples: tuple[Sample, ...]) -> float:
    return statistics.fmean(sample.cpu_ns for sample in samples)


def _ratio(
    name: str, value: float, *, bar: float | None = None, peer: tuple[str, float | None] | None = None
) -> Figure:
    named, value_of_peer = peer or (None, None)
    return Figure(name=name, value=value, unit="x", better="lower", bar=bar, peer=named, peer_value=value_of_peer)


if __name__ == "__main__":
    main()
