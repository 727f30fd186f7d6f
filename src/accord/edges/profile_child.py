"""The process that measures one engine: `python -m accord.edges.profile_child`.

In: an `Order` on stdin. Out: a `Report` on stdout. Invariant: it ends with its parent, and only time
spent inside the engine's methods is counted.
"""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Set

from accord.edges.profile_wire import NUMBER, Order, Piece, Report, Result, Run, Trial, pack, unpack_order
from accord.run.engines import load
from accord.run.ports import Chunk, Emission, Engine, Job, JobDone, JobFailed
from accord.terms.errors import AccordError, BrokenEdge
from accord.terms.request import Usage

_NONE_BLOCKED: Set[int] = frozenset()
_PR_SET_PDEATHSIG = 1
_RUNS_MIN = 3
_RUNS_MAX = 20


class _Tally:
    """What one run of a trial has given so far."""

    def __init__(self, trial: Trial, ids: range) -> None:
        self.open = set(ids)
        self.first_id = ids[0]
        self.keep = trial.keep_output
        self.engine_s = 0.0
        self.first_s: float | None = None
        self.usage = Usage()
        self.written = 0
        self.output: list[Piece] = []
        self.output_bytes = 0

    def take(self, emission: Emission) -> None:
        if self.first_s is None:
            self.first_s = self.engine_s
        if emission.request_id != self.first_id:
            return
        data = b"".join(emission.buffers)
        self.output_bytes += len(data)
        if self.keep:
            piece = Piece(source="", payload=emission.payload, data=data, index=emission.index, meta=emission.meta)
            self.output.append(piece)


def measure(order: Order) -> Report:
    """Loads the engine and runs every trial. BrokenEdge if a job fails."""
    started = time.perf_counter()
    engine = load(order.spec)
    load_s = time.perf_counter() - started
    results = []
    next_id = 1
    for trial in order.trials:
        runs: list[Run] = []
        ends = time.perf_counter() + order.time_s_max / len(order.trials)
        while len(runs) < _RUNS_MIN or (len(runs) < _RUNS_MAX and time.perf_counter() < ends):
            tally = _run(engine, trial, range(next_id, next_id + trial.copies))
            next_id += trial.copies
            first_s = tally.engine_s if tally.first_s is None else tally.first_s
            runs.append(Run(first_s=first_s, total_s=tally.engine_s, written=tally.written))
        results.append(
            Result(
                name=trial.name,
                runs=tuple(runs),
                usage=tally.usage,
                output_bytes=tally.output_bytes,
                output=tuple(tally.output),
            )
        )
    return Report(results=tuple(results), load_s=load_s)


def _run(engine: Engine, trial: Trial, ids: range) -> _Tally:
    tally = _Tally(trial, ids)
    for request_id in ids:
        job = Job(request_id=request_id, params=trial.params, inputs=frozenset(piece.source for piece in trial.pieces))
        for chunk in [*(_chunk(piece, request_id) for piece in trial.pieces), None]:
            before = time.perf_counter()
            engine.feed(job, chunk)
            tally.engine_s += time.perf_counter() - before
    while tally.open:
        before = time.perf_counter()
        step = engine.step(_NONE_BLOCKED)
        tally.engine_s += time.perf_counter() - before
        for output in step.outputs:
            match output:
                case Emission():
                    tally.take(output)
                case JobDone():
                    tally.open.discard(output.request_id)
                    usage = output.usage or Usage()
                    tally.written += usage.completion_tokens
                    if output.request_id == tally.first_id:
                        tally.usage = usage
                case JobFailed():
                    raise BrokenEdge(f"profile: trial {trial.name}: {output.text}")
        if not step.more and not step.outputs and tally.open:
            raise BrokenEdge(f"profile: trial {trial.name}: the engine stopped with {len(tally.open)} jobs open")
    return tally


def _chunk(piece: Piece, request_id: int) -> Chunk:
    return Chunk(
        source=piece.source,
        payload=piece.payload,
        index=piece.index,
        data=memoryview(piece.data.replace(NUMBER, b"%d" % request_id)),
        meta=piece.meta,
        release=lambda: None,
    )


def main() -> None:
    """Reads the order, measures, and writes the report to what stdout was at the start."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the profiler ends its child itself
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    order = unpack_order(sys.stdin.buffer.read())
    # Libraries print; the report must stand alone on its pipe.
    report_fd = os.dup(1)
    os.dup2(2, 1)
    try:
        report = measure(order)
    except AccordError as error:
        report = Report(broken=str(error))
    with os.fdopen(report_fd, "wb") as pipe:
        pipe.write(pack(report))


if __name__ == "__main__":
    main()
