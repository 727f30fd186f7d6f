"""Packing on the openb traces by the FGD protocol beside FGD and best fit, and the time of a decision.

`unallocated`: percent of devices left, mean of ten seeds. `at least`: what nobody gets below who refuses no fraction
before ours refuses one; `choosing`: who may refuse as he likes (_bound.py). `decision`: `find` and `apply`,
CPU time of the thread; the first pods come to an empty fleet, the others after 70% of all arrivals. `memory`: the most
that the process held. In: --data, a folder with openb/ (alibaba/clusterdata, cluster-trace-gpu-v2023).
"""

import argparse
import multiprocessing
import resource
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import astuple, dataclass, replace
from pathlib import Path

import numpy as np

from _bound import is_free_fraction, unallocated_least
from _fgd import unallocated
from _figures import Figure, write
from _openb import SEEDS, VARIANTS, Trace, arrivals, load
from accord.place.board import WHOLE, Board
from accord.place.gang import apply, find
from accord.place.mix import mix_of, mix_unknown
from accord.place.online import Scores, best_seat
from accord.terms.gang import Gang, Seat

DATA = Path("../shared/data")
PLACED = 0.7  # of all arrivals, before the later decisions
LEARNED = 500  # arrivals between two looks at what came
FIRST, LATER = 1_500, 3_000  # decisions timed on the empty and on the fuller fleet
NODES = (1_000, 1_213, 10_000, 100_000)
BARS = {1_213: 2.0, 10_000: 10.0}  # ms


@dataclass(frozen=True, slots=True)
class Packed:
    """Percent of devices left by ours and the peers, and two lower bounds."""

    ours: float
    fgd: float
    best_fit: float
    at_least: float
    at_least_choosing: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """Percentiles of one fleet size, in ms, and the most memory that the process held, in MiB."""

    p50: float
    p99: float
    memory: float


def main() -> int:
    """Measures all; 2 if the trace isn't there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help=f"folder with openb/ (default {DATA})")
    folder = parser.parse_args().data / "openb"
    names = ("nodes.csv", *(f"pods_{variant}.csv.gz" for variant in VARIANTS))
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        print(f"place: {folder}: {', '.join(missing)} missing; give the folder above openb/ with --data")
        return 2
    # Each fleet size in a process of its own, so that memory is its own; packing on all cores afterwards.
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn, max_tasks_per_child=1) as alone:
        speed = dict(zip(NODES, alone.map(_decisions, [folder] * len(NODES), NODES), strict=True))
    with ProcessPoolExecutor(mp_context=spawn) as pool:
        rows = [pool.map(_run, [folder] * len(SEEDS), [variant] * len(SEEDS), SEEDS) for variant in VARIANTS]
        packed = {variant: _mean(row) for variant, row in zip(VARIANTS, rows, strict=True)}
        learning = float(np.mean(list(pool.map(_learning, [folder] * len(SEEDS), SEEDS))))
    figures = [figure for variant in VARIANTS for figure in _packing(variant, packed[variant])]
    figures.append(Figure(name="unallocated, nothing known before", value=learning, unit="%", better="lower"))
    write("place", [*figures, *_timing(speed)])
    return 0


def _mean(packed: Iterable[Packed]) -> Packed:
    return Packed(*(float(np.mean(column)) for column in zip(*map(astuple, packed), strict=True)))


def _packing(variant: str, its: Packed) -> Iterator[Figure]:
    name = "unallocated" if variant == "default" else f"unallocated {variant}"
    bar = 3.9 if variant == "default" else its.fgd
    yield Figure(name=name, value=its.ours, unit="%", better="lower", bar=bar, peer="FGD", peer_value=its.fgd)
    yield Figure(name=f"{name}, best fit", value=its.best_fit, unit="%", better="lower")
    yield Figure(name=f"{name}, at least", value=its.at_least, unit="%", better="lower")
    yield Figure(name=f"{name}, at least, choosing", value=its.at_least_choosing, unit="%", better="lower")


def _timing(speed: dict[int, Decisions]) -> Iterator[Figure]:
    for nodes, its in speed.items():
        yield Figure(name=f"decision p99 {nodes}", value=its.p99, unit="ms", better="lower", bar=BARS.get(nodes))
        yield Figure(name=f"decision p50 {nodes}", value=its.p50, unit="ms", better="lower")
        bar = 1024.0 if nodes in BARS else None
        yield Figure(name=f"memory {nodes}", value=its.memory, unit="MiB", better="lower", bar=bar)


def _run(folder: Path, variant: str, seed: int) -> Packed:
    trace = load(folder, variant)
    order = arrivals(trace, seed)
    board = Board(trace.fleet)
    seats = _fill(board, trace, order)
    refused = (
        number
        for number, (pick, seat) in enumerate(zip(order, seats, strict=True))
        if seat is None and is_free_fraction(trace.pods[pick])
    )
    return Packed(
        ours=_left(board, trace),
        fgd=unallocated(trace, order, "fgd"),
        best_fit=unallocated(trace, order, "best fit"),
        at_least=unallocated_least(trace, order, held=next(refused, len(order))),
        at_least_choosing=unallocated_least(trace, order, held=0),
    )


def _learning(folder: Path, seed: int) -> float:
    trace = load(folder, "default")
    board = Board(trace.fleet)
    _fill(board, trace, arrivals(trace, seed), learning=True)
    return _left(board, trace)


def _left(board: Board, trace: Trace) -> float:
    return 100 * float(board.share_sum.sum()) / WHOLE / trace.devices


def _fill(board: Board, trace: Trace, order: list[int], *, learning: bool = False) -> list[Seat | None]:
    """Places all that come; what fits nowhere goes. `best_seat` is `find` for a single replica, at less cost.

    What usually comes is known from the trace's pods, as FGD knows it, or guessed at first and then learned.
    """
    guess = mix_unknown(board)
    scores = Scores(board, guess if learning else mix_of(pod.need for pod in trace.pods))
    seats: list[Seat | None] = []
    for number, pick in enumerate(order):
        if learning and number and number % LEARNED == 0:
            came = (trace.pods[earlier].need for earlier in order[:number])
            scores = Scores(board, mix_of(came, prior=guess))
        seat = best_seat(scores, trace.pods[pick])
        if seat is not None:
            board.take(seat)
        seats.append(seat)
    return seats


def _decisions(folder: Path, nodes: int) -> Decisions:
    trace = load(folder, "default")
    order = arrivals(trace, SEEDS[0])
    placed = int(PLACED * len(order))
    seats = [seat for seat in _fill(Board(trace.fleet), trace, order[:placed]) if seat is not None]
    copies = -(-nodes // len(trace.fleet.nodes))
    wide = tuple(replace(node, name=_copy(node.name, n)) for n in range(copies) for node in trace.fleet.nodes)
    board = Board(replace(trace.fleet, nodes=wide[:nodes]))
    times = _timed(board, trace, order[:FIRST])
    board = Board(board.fleet)
    for seat in (replace(seat, node=_copy(seat.node, n)) for n in range(copies) for seat in seats):
        if seat.node in board.row:
            board.take(seat)
    times += _timed(board, trace, order[placed : placed + LATER])
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    p50, p99 = np.percentile(times, (50, 99))
    return Decisions(p50=float(p50), p99=float(p99), memory=memory)


def _timed(board: Board, trace: Trace, order: list[int]) -> list[float]:
    scores = Scores(board, mix_of(pod.need for pod in trace.pods))
    times = []
    for pick in order:
        begin_s = time.thread_time()
        placement = find(board, scores, Gang(name="pod", parts=(trace.pods[pick],)))
        if placement is not None:
            apply(board, placement)
        times.append(1e3 * (time.thread_time() - begin_s))
    return times


def _copy(name: str, number: int) -> str:
    return f"{name}.{number:03d}"


if __name__ == "__main__":
    sys.exit(main())
