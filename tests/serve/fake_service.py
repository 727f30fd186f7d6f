"""A `Service` without stages, whose answers are scripts.

In: a script for each request. Out: events, one at a time. Invariant: an event that is not taken holds
the producer, as the runtime's credits do; what was produced, taken and cancelled can be looked at.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import msgspec

from accord.models.embedded import graph
from accord.run.payloads import PCM_RATE_HZ, PcmMeta
from accord.terms.errors import AccordError
from accord.terms.graph import Payload, StageGraph
from accord.terms.intent import Metric, Objective
from accord.terms.request import Done, ErrorCode, Event, Failed, FinishReason, Output, Request, Usage
from accord.terms.status import Activity, Health, ObjectiveStatus, ReplicaStatus, ServiceStatus, Totals


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Nothing for a while."""

    seconds: float


Step = Output | Failed | Wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """One answer. `refusal` is raised by submit; `queue_s` is how long submit waits before it accepts."""

    steps: tuple[Step, ...] = ()
    usage: Usage = field(
        default_factory=lambda: Usage(
            prompt_tokens=11, completion_tokens=7, audio_s=1.5, finish_reason=FinishReason.STOP
        )
    )
    refusal: AccordError | None = None
    queue_s: float = 0.0
    repeat: int = 1


def text(*deltas: str) -> tuple[Step, ...]:
    """Text deltas."""
    return tuple(Output(edge="text", payload=Payload.TEXT, index=i, data=d.encode()) for i, d in enumerate(deltas))


def heard(*deltas: str) -> tuple[Step, ...]:
    """Transcript deltas."""
    return tuple(
        Output(edge="transcript", payload=Payload.TEXT, index=i, data=d.encode()) for i, d in enumerate(deltas)
    )


def sound(*chunks: bytes) -> tuple[Step, ...]:
    """PCM chunks."""
    meta = msgspec.msgpack.encode(PcmMeta(rate_hz=PCM_RATE_HZ))
    return tuple(
        Output(edge="speech", payload=Payload.PCM, index=i, data=chunk, meta=meta) for i, chunk in enumerate(chunks)
    )


def fail(code: ErrorCode, said: str) -> tuple[Step, ...]:
    """The request ends badly."""
    return (Failed(code=code, text=said),)


class FakeTicket:
    """One accepted request. `produced` counts events made, taken or not."""

    def __init__(self, script: Script, request: Request) -> None:
        self.request = request
        self.cancelled = False
        self.last: Event | None = None
        self.produced = 0
        self._script = script
        self._ready: asyncio.Queue[Event] = asyncio.Queue(maxsize=1)
        self._producer = asyncio.ensure_future(self._produce())

    async def _produce(self) -> None:
        for _ in range(self._script.repeat):
            for step in self._script.steps:
                match step:
                    case Wait(seconds=seconds):
                        await asyncio.sleep(seconds)
                    case event:
                        self.produced += 1
                        await self._ready.put(event)
                        if isinstance(event, Failed):
                            return
        self.produced += 1
        await self._ready.put(Done(usage=self._script.usage))

    async def __aiter__(self) -> AsyncIterator[Event]:
        ended = False
        while not ended:
            event = await self._ready.get()
            ended = not isinstance(event, Output)
            if ended:
                self.last = event
            yield event

    def cancel(self) -> None:
        if self.last is not None:
            return
        self.cancelled = True
        self._producer.cancel()
        while not self._ready.empty():
            self._ready.get_nowait()
        self.last = Failed(code=ErrorCode.CANCELLED, text="cancelled by the client")
        self._ready.put_nowait(self.last)


class FakeService:
    """Answers every request with `script`, or with what `script(request)` gives."""

    def __init__(self, script: Script | Callable[[Request], Script] | None = None, *, ready: bool = True) -> None:
        self.script = script or Script(steps=text("Hello", " there", "!"))
        self.ready = ready
        self.graph: StageGraph = graph()
        self.requests: list[Request] = []
        self.tickets: list[FakeTicket] = []
        self.queued = 0
        self.withdrawn = 0
        self.refused = 0

    async def submit(self, request: Request) -> FakeTicket:
        self.requests.append(request)
        script = self.script if isinstance(self.script, Script) else self.script(request)
        self.queued += 1
        try:
            await asyncio.sleep(script.queue_s)
        except asyncio.CancelledError:
            self.withdrawn += 1
            raise
        finally:
            self.queued -= 1
        if script.refusal is not None:
            self.refused += 1
            raise script.refusal
        ticket = FakeTicket(script, request)
        self.tickets.append(ticket)
        return ticket

    def status(self) -> ServiceStatus:
        replicas = tuple(
            ReplicaStatus(
                stage=stage.name,
                replica=0,
                pid=1000 + number,
                health=Health.READY if self.ready or stage.name != "language" else Health.STARTING,
                activity=Activity.IDLE,
                time_s=(1.5, 2.0, 0.25, 0.125, 6.125),
                active=0,
                served=len(self.tickets),
                restarts=1 if stage.name == "vocoder" else 0,
                memory_bytes=100 << 20,
                arena_used_bytes=4096,
                arena_bytes=1 << 20,
            )
            for number, stage in enumerate(self.graph.stages)
        )
        wanted = Objective(metric=Metric.TTFT, percentile=50, bound=0.3)
        return ServiceStatus(
            name="fake",
            graph=self.graph,
            uptime_s=10.0,
            ready=self.ready,
            replicas=replicas,
            objectives=(ObjectiveStatus(objective=wanted, measured=None, samples=0),),
            totals=self._totals(),
        )

    def _totals(self) -> Totals:
        ended = [ticket.last for ticket in self.tickets]
        cancelled = sum(ticket.cancelled for ticket in self.tickets) + self.withdrawn
        done = sum(isinstance(last, Done) for last in ended)
        failed = sum(
            isinstance(last, Failed) for ticket in self.tickets if not ticket.cancelled for last in (ticket.last,)
        )
        return Totals(
            submitted=len(self.requests),
            done=done,
            failed=failed,
            cancelled=cancelled,
            refused=self.refused,
            queued=self.queued,
            active=sum(last is None for last in ended),
            replayed=0,
        )
