"""An engine out of one generator function: one piece of work of one job at a time.

In: a function from (job, inbox) to a generator. Out: an Engine that advances the jobs in turn, one
generator step for each `step`. Invariant: every chunk is released exactly once, whatever way a job ends.

The generator yields a tuple of Emissions after each bounded piece of work (it may be empty), or `WAIT`
when it can't go on before another chunk or the end of the input. It returns the job's Usage or None.
It raises BadInput for what the client got wrong; any other exception means that the engine is broken.
"""

from collections import deque
from collections.abc import Callable, Generator, Set
from typing import Final

from accord.run.ports import Chunk, Emission, Job, JobDone, JobFailed, Output, Step
from accord.terms.errors import BadInput
from accord.terms.request import ErrorCode, Usage

WAIT: Final = None


class Inbox:
    """What has arrived for one job. `ended` says that no more will come."""

    def __init__(self) -> None:
        self._chunks: deque[Chunk] = deque()
        self.ended = False

    def take(self) -> Chunk | None:
        """The oldest chunk, or None. The taker releases it before it yields again."""
        return self._chunks.popleft() if self._chunks else None

    def put(self, chunk: Chunk | None) -> None:
        """The engine's side: a chunk, or None for the end of the input."""
        if chunk is None:
            self.ended = True
        else:
            self._chunks.append(chunk)

    def drop(self) -> None:
        """The engine's side: releases what nobody took."""
        while self._chunks:
            self._chunks.popleft().release()


Work = Generator[tuple[Emission, ...] | None, None, Usage | None]


class _Running:
    def __init__(self, job: Job, work: Callable[[Job, Inbox], Work]) -> None:
        self.inbox = Inbox()
        self.work = work(job, self.inbox)
        self.waiting = False


class PlainEngine:
    """`work` as an Engine. Jobs take turns, so a long one doesn't hold back a short one."""

    def __init__(self, work: Callable[[Job, Inbox], Work]) -> None:
        self._work = work
        self._jobs: dict[int, _Running] = {}  # in order of turn

    def feed(self, job: Job, chunk: Chunk | None) -> None:
        """Queues the chunk; no work happens here."""
        running = self._jobs.get(job.request_id)
        if running is None:
            running = self._jobs[job.request_id] = _Running(job, self._work)
        running.inbox.put(chunk)
        running.waiting = False

    def step(self, blocked: Set[int]) -> Step:
        """One piece of work for the next job that can go on."""
        for request_id in self._ready(blocked):
            outputs = self._advance(request_id)
            if outputs is not WAIT:
                return Step(outputs=outputs, more=bool(self._ready(blocked)), worked=(request_id,))
        return Step()

    def cancel(self, request_id: int) -> None:
        """Ends the generator and releases the chunks."""
        running = self._jobs.pop(request_id, None)
        if running is not None:
            running.work.close()
            running.inbox.drop()

    def _ready(self, blocked: Set[int]) -> list[int]:
        return [key for key, running in self._jobs.items() if not running.waiting and key not in blocked]

    def _advance(self, request_id: int) -> tuple[Output, ...] | None:
        running = self._jobs.pop(request_id)
        ending: Output
        try:
            emissions = next(running.work)
        except StopIteration as end:
            ending = JobDone(request_id=request_id, usage=end.value)
        except BadInput as error:
            ending = JobFailed(request_id=request_id, code=ErrorCode.BAD_INPUT, text=str(error))
        else:
            self._jobs[request_id] = running  # its next turn comes after everybody else's
            running.waiting = emissions is WAIT
            return emissions
        running.inbox.drop()
        return (ending,)
