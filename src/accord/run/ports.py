"""The ports of the runtime: the engine below it, the service above it.

In: nothing. Out: Protocols and the frozen values that cross them (msgspec's, where many are made a second:
they cost a tenth). Invariant: an engine is called from one thread, and never blocks longer than one step.
"""

from collections.abc import AsyncIterator, Callable, Sequence, Set
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import msgspec

from accord.terms.graph import Payload
from accord.terms.request import ErrorCode, Event, Params, Request, Usage
from accord.terms.status import ServiceStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSpec:
    """All that an engine needs to load.

    `assets` maps weight package names to unpacked folders. `batch_max` bounds requests at once;
    `memory_bytes` bounds what they hold (for AR: the KV cache). `deterministic`: a request's output
    must not depend on what else is in the batch.
    """

    engine: str
    stage: str
    threads: int
    batch_max: int
    memory_bytes: int
    assets: tuple[tuple[str, str], ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    deterministic: bool = False


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One request at one stage. `inputs` names the stages (or the door) that will send chunks."""

    request_id: int
    params: Params
    inputs: frozenset[str]


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """One input chunk, a view into the sender's memory.

    `data` may be read until `release` is called; `release` gives its bytes back to the sender as
    credit, so call it as soon as the data has been read, once.
    """

    source: str
    payload: Payload
    index: int
    data: memoryview
    meta: bytes
    release: Callable[[], None]


class Emission(msgspec.Struct, frozen=True, kw_only=True):
    """One output chunk: goes to every wanted edge of the stage that carries `payload`.

    `buffers` are contiguous and are written one after the other; they must stay unchanged until the
    next call of `step`.
    """

    request_id: int
    payload: Payload
    buffers: tuple[bytes | memoryview, ...]
    index: int = 0
    meta: bytes = b""


class JobDone(msgspec.Struct, frozen=True, kw_only=True):
    """The job has emitted its last chunk."""

    request_id: int
    usage: Usage | None = None


class JobFailed(msgspec.Struct, frozen=True, kw_only=True):
    """The job can't go on. BAD_INPUT is the client's fault; ENGINE is ours."""

    request_id: int
    code: ErrorCode
    text: str


Output = Emission | JobDone | JobFailed


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """What one step gave. `more`: calling `step` again without new input would do work.

    `worked` holds the requests that this step computed for: its time is charged to them.
    """

    outputs: Sequence[Output] = ()
    more: bool = False
    worked: Sequence[int] = ()


class Engine(Protocol):
    """One engine of one stage.

    The first `feed` of a request id opens the job. A job is over when the engine has returned its
    JobDone or JobFailed, or when `cancel` returned. Errors of one job are values (JobFailed);
    an exception from any method means the engine itself is broken, and the replica is restarted.
    """

    def feed(self, job: Job, chunk: Chunk | None) -> None:
        """Takes one chunk; None says that all inputs of the job have ended. Must be quick."""
        ...

    def step(self, blocked: Set[int]) -> Step:
        """Does one bounded piece of work, for none of the `blocked` requests (they have no credit)."""
        ...

    def cancel(self, request_id: int) -> None:
        """Forgets the job, releasing its chunks and memory before it returns. Unknown ids are ignored."""
        ...


@runtime_checkable
class Waking(Protocol):
    """An engine that waits on something outside (an HTTP server) also has this.

    The replica steps the engine whenever the file descriptor turns readable; the engine drains it.
    """

    def wake_fd(self) -> int:
        """A file descriptor that is readable when `step` has something to collect."""
        ...


class Ticket(Protocol):
    """One accepted request. Iterating gives `Output`s, then exactly one `Done` or `Failed`."""

    def __aiter__(self) -> AsyncIterator[Event]:
        """The events. An event that is not taken holds back its sender, stage by stage."""
        ...

    def cancel(self) -> None:
        """Stops the request everywhere. Idempotent; does nothing once the request has ended."""
        ...


class Service(Protocol):
    """What the HTTP door needs of the runtime."""

    async def submit(self, request: Request) -> Ticket:
        """Waits, within the plan's bound, until the request is accepted; else raises Overloaded."""
        ...

    def status(self) -> ServiceStatus:
        """A snapshot; cheap enough for ten a second."""
        ...
