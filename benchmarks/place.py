"""Packing on the openb traces by the FGD protocol beside FGD and best fit, and the time of a decision.

`unallocated`: percent of devices left, mean of ten seeds. `at least`: what nobody gets below who takes all arrivals
until 90% of the devices are asked for, and who may refuse as he likes (_bound.py). `decision`: `find` and `apply`,
CPU time of the thread; the first pods come to an empty fleet, the others after 70% of all arrivals. `memory`: the most
that the process held. In: --data, a folder with openb/ (alibaba/clusterdata, cluster-trace-gpu-v2023).
"""

import argparse
import multiprocessing
import resource
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np

from _bound import unallocated_least
from _fgd import unallocated as peer_unallocated
from _figures import Figure, write
from _openb import SEEDS, VARIANTS, Trace, arrivals, load
from accord.place.board import WHOLE, Board
from accord.place.gang import apply, find
from accord.place.mix import mix_of, mix_unknown
from accord.place.online import Scores, best_seat
from accord.terms.gang import Gang, Seat

DATA = Path("../shared/data")
PEERS = ("fgd", "best fit")
TAKEN = 0.9  # of all devices is asked for by the arrivals that the bound's schedulers take
PLACED = 0.7  # of all arrivals, before the later decisions
LEARNED = 500  # arrivals between two looks at what came
FIRST, LATER = 1_500, 3_000  # decisions timed on the empty and on the fuller fleet
NODES = (1_000, 1_213, 10_000, 100_000)
BARS = {1_213: 2.0, 10_000: 10.0}  # ms


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
    runs = list(product(VARIANTS, ("ours", *PEERS, "at least", "at least, ever"), SEEDS))
    runs += [("default", "learning", seed) for seed in SEEDS]
    with ProcessPoolExecutor(mp_context=spawn) as pool:
        left = dict(zip(runs, pool.map(_left, [folder] * len(runs), runs), strict=True))
    figures = [*_packing(left), _learning(left), *_timing(speed)]
    write("place", figures)
    return 0


def _packing(left: dict[tuple[str, str, int], float]) -> Iterator[Figure]:
    for variant in VARIANTS:
        ours, fgd, best_fit, least, least_ever = (
            float(np.mean([left[variant, whose, seed] for seed in SEEDS]))
            for whose in ("ours", *PEERS, "at least", "at least, ever")
        )
        name = "unallocated" if variant == "default" else f"unallocated {variant}"
        bar = 3.9 if variant == "default" else fgd
        yield Figure(name=name, value=ours, unit="%", better="lower", bar=bar, peer="FGD", peer_value=fgd)
        yield Figure(name=f"{name}, best fit", value=best_fit, unit="%", better="lower")
        if np.isfinite(least):
            yield Figure(name=f"{name}, at least", value=least, unit="%", better="lower")
        yield Figure(name=f"{name}, at least, choosing", value=least_ever, unit="%", better="lower")


def _learning(left: dict[tuple[str, str, int], float]) -> Figure:
    value = float(np.mean([left["default", "learning", seed] for seed in SEEDS]))
    return Figure(name="unallocated, nothing known before", value=value, unit="%", better="lower")


def _timing(speed: dict[int, Decisions]) -> Iterator[Figure]:
    for nodes, its in speed.items():
        yield Figure(name=f"decision p99 {nodes}", value=its.p99, unit="ms", better="lower", bar=BARS.get(nodes))
        yield Figure(name=f"decision p50 {nodes}", value=its.p50, unit="ms", better="lower")
        bar = 1024.0 if nodes in BARS else None
        yield Figure(name=f"memory {nodes}", value=its.memory, unit="MiB", better="lower", bar=bar)


def _left(folder: Path, run: tuple[str, str, int]) -> float:
    """Percent of devices left in one run."""
    variant, whose, seed = run
    trace = load(folder, variant)
    order = arrivals(trace, seed)
    match whose:
        case "ours":
            board = Board(trace.fleet)
            _fill(board, trace, order)
            return 100 * float(board.share_sum.sum()) / WHOLE / trace.devices
        case "learning":
            board = Board(trace.fleet)
            _fill(board, trace, order, learning=True)
            return 100 * float(board.share_sum.sum()) / WHOLE / trace.devices
        case "fgd" | "best fit":
            return peer_unallocated(trace, order, whose)
        case "at least":
            return unallocated_least(trace, order, taken=TAKEN)
        case _:
            return unallocated_least(trace, order, taken=0.0)


def _fill(board: Board, trace: Trace, order: list[int], *, learning: bool = False) -> list[Seat]:
    """Places all that come; what fits nowhere goes. `best_seat` is `find` for a single replica, at less cost.

    What usually comes is known from the trace's pods, as FGD knows it, or guessed at first and then learned.
    """
    guess = mix_unknown(board)
    scores = Scores(board, guess if learning else mix_of(pod.need for pod in trace.pods))
    seats = []
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
    seats = _fill(Board(trace.fleet), trace, order[:placed])
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
