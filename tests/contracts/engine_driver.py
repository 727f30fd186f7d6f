"""The replica's side of the Engine port, as a judge.

In: an engine, and job inputs. Out: what each job emitted and how it ended. Invariant: every promise of the
port that can be seen from outside is checked at every call, whoever drives: a test or a state machine.
"""

import select
import time
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from typing import Final

from accord.run.ports import Chunk, Emission, Engine, Job, JobDone, JobFailed, Step, Waking
from accord.terms.graph import DOOR, Payload
from accord.terms.request import ErrorCode, Params

DEADLINE_S: Final = 60.0
_SCRIBBLE: Final = 0xDD


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One chunk to be fed."""

    payload: Payload
    data: bytes
    source: str = DOOR
    index: int = 0
    meta: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInput:
    """All that one job is fed, in order."""

    pieces: tuple[Piece, ...]
    params: Params = field(default_factory=Params)


@dataclass(frozen=True, slots=True, kw_only=True)
class Emitted:
    """A copy of one emission."""

    payload: Payload
    index: int
    meta: bytes
    data: bytes


class _Lent:
    """A chunk's memory. It is overwritten when it is released, so that reading it later shows."""

    def __init__(self, piece: Piece) -> None:
        self.memory = bytearray(piece.data)
        self.releases = 0

    def release(self) -> None:
        self.releases += 1
        self.memory[:] = bytes([_SCRIBBLE]) * len(self.memory)


class Tracked:
    """One job as the driver sees it."""

    def __init__(self, job: Job, given: JobInput) -> None:
        self.job = job
        self.given = given
        self.next_piece = 0
        self.ended_input = False
        self.lent: list[_Lent] = []
        self.emitted: list[Emitted] = []
        self.ending: JobDone | JobFailed | None = None
        self.cancelled = False

    @property
    def over(self) -> bool:
        return self.cancelled or self.ending is not None

    @property
    def data(self) -> dict[tuple[Payload, int], bytes]:
        """What came out, joined: text may be cut anywhere, everything else has its index."""
        joined: dict[tuple[Payload, int], bytes] = {}
        for item in self.emitted:
            key = (item.payload, 0 if item.payload is Payload.TEXT else item.index)
            joined[key] = joined.get(key, b"") + item.meta + item.data
        return joined

    def check_released(self) -> None:
        counts = [lent.releases for lent in self.lent]
        assert counts == [1] * len(counts), f"job {self.job.request_id}: releases of its chunks: {counts}"


class Driver:
    """Feeds and steps one engine. Requests get numbers that were never used before."""

    def __init__(self, engine: Engine, payloads: Set[Payload]) -> None:
        self.engine = engine
        self.payloads = payloads
        self.jobs: dict[int, Tracked] = {}
        self._last: list[tuple[bytes | memoryview, bytes]] = []
        self._next_id = 1

    def open(self, given: JobInput) -> int:
        """A new job; nothing is fed yet."""
        request_id = self._next_id
        self._next_id += 1
        sources = frozenset(piece.source for piece in given.pieces) | {DOOR}
        self.jobs[request_id] = Tracked(Job(request_id=request_id, params=given.params, inputs=sources), given)
        return request_id

    def feed_one(self, request_id: int) -> bool:
        """Feeds the job's next piece, or the end of its input; False if there was nothing left to feed."""
        tracked = self.jobs[request_id]
        if tracked.ended_input or tracked.over:
            return False
        if tracked.next_piece == len(tracked.given.pieces):
            tracked.ended_input = True
            self.engine.feed(tracked.job, None)
            return True
        piece = tracked.given.pieces[tracked.next_piece]
        tracked.next_piece += 1
        lent = _Lent(piece)
        tracked.lent.append(lent)
        self.engine.feed(tracked.job, _chunk(piece, lent))
        return True

    def feed_all(self, request_id: int) -> None:
        """Feeds everything that is left, and the end."""
        while self.feed_one(request_id):
            pass

    def submit(self, given: JobInput) -> int:
        """Opens a job and feeds all of it."""
        request_id = self.open(given)
        self.feed_all(request_id)
        return request_id

    def step(self, blocked: Set[int] = frozenset()) -> Step:
        """One step, whose outputs are checked and kept."""
        for buffer, copy in self._last:
            assert bytes(buffer) == copy, "a buffer changed before the next step"
        step = self.engine.step(blocked)
        self._last = []
        assert set(step.worked) <= self.jobs.keys(), f"worked for unknown requests: {step.worked}"
        assert not set(step.worked) & blocked, f"worked for blocked requests: {step.worked}, {blocked}"
        for output in step.outputs:
            tracked = self.jobs[output.request_id]
            assert not tracked.over, f"output after the end of its job: {output}"
            assert output.request_id not in blocked, f"output for a blocked request: {output}"
            if isinstance(output, Emission):
                tracked.emitted.append(self._keep(output))
            else:
                self._end(tracked, output)
        return step

    def run(self, *, until: Callable[[], bool], blocked: Set[int] = frozenset()) -> None:
        """Steps until `until`, waiting where the engine waits on something outside."""
        deadline_s = time.monotonic() + DEADLINE_S
        while not until():
            assert time.monotonic() < deadline_s, f"not there after {DEADLINE_S} s: {self.describe()}"
            step = self.step(blocked)
            if not step.more and not step.outputs and not until():
                self.wait(deadline_s)

    def run_out(self, *request_ids: int, blocked: Set[int] = frozenset()) -> None:
        """Steps until these jobs are over."""
        self.run(until=lambda: all(self.jobs[key].over for key in request_ids), blocked=blocked)

    def solo(self, given: JobInput) -> Tracked:
        """One job from its start to its end, with nothing beside it."""
        request_id = self.submit(given)
        self.run_out(request_id)
        return self.jobs[request_id]

    def cancel(self, request_id: int) -> None:
        """Cancels, twice, and checks that the chunks came back at once."""
        self.engine.cancel(request_id)
        tracked = self.jobs[request_id]
        tracked.cancelled = True
        tracked.check_released()
        self.engine.cancel(request_id)
        tracked.check_released()

    def forget(self, request_id: int) -> None:
        """Lets go of what is kept of a job that is over."""
        assert self.jobs[request_id].over
        self._last = []
        del self.jobs[request_id]

    def wait(self, deadline_s: float) -> None:
        """Until the engine's file descriptor turns readable; an engine without one has stalled."""
        assert isinstance(self.engine, Waking), f"the engine has stalled: {self.describe()}"
        select.select([self.engine.wake_fd()], [], [], max(0.0, deadline_s - time.monotonic()))

    def describe(self) -> str:
        """The open jobs, in words."""
        return ", ".join(
            f"job {key}: {len(job.emitted)} emissions, input {'ended' if job.ended_input else 'open'}"
            for key, job in self.jobs.items()
            if not job.over
        )

    def _keep(self, output: Emission) -> Emitted:
        assert output.payload in self.payloads, f"unexpected payload {output.payload}"
        for buffer in output.buffers:
            assert memoryview(buffer).c_contiguous
            self._last.append((buffer, bytes(buffer)))
        joined = b"".join(bytes(buffer) for buffer in output.buffers)
        return Emitted(payload=output.payload, index=output.index, meta=output.meta, data=joined)

    def _end(self, tracked: Tracked, output: JobDone | JobFailed) -> None:
        tracked.ending = output
        tracked.check_released()
        if isinstance(output, JobFailed):
            assert output.code in {ErrorCode.BAD_INPUT, ErrorCode.ENGINE, ErrorCode.OVERLOADED}
            assert output.text
        else:
            assert tracked.ended_input, "done before its input had ended"


def _chunk(piece: Piece, lent: _Lent) -> Chunk:
    return Chunk(
        source=piece.source,
        payload=piece.payload,
        index=piece.index,
        data=memoryview(lent.memory).toreadonly(),
        meta=piece.meta,
        release=lent.release,
    )
