"""Runs and observes: the part of the closed loop that this version has.

In: a running `Service`, a `Request`. Out: what was answered, when, and where the stages' time went.
Invariant: the request has ended when `ask` returns or raises; a cancelled caller cancels the request.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from accord.run.ports import Service
from accord.terms.errors import BrokenEdge
from accord.terms.graph import Payload
from accord.terms.request import Done, Failed, Output, Request, Usage
from accord.terms.status import Activity, ServiceStatus

Hear = Callable[[Output], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTime:
    """Seconds of one stage in each `Activity`, in its order, over all its replicas."""

    stage: str
    time_s: tuple[float, ...]

    def share(self, activity: Activity) -> float:
        """The part of the whole time that went to one activity, 0 to 1."""
        whole = sum(self.time_s)
        return self.time_s[list(Activity).index(activity)] / whole if whole else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bottleneck:
    """The busiest stage, and its bubble: the shares of its time that it lost to each way of waiting."""

    stage: str
    busy: float
    starved: float
    blocked: float
    transferring: float

    @property
    def bubble(self) -> float:
        """What it lost while work was there, 0 to 1."""
        return self.starved + self.blocked + self.transferring


def bottleneck(stages: tuple[StageTime, ...]) -> Bottleneck:
    """The stage that was busy longest. Shares are of the time in which it had work, so without idle."""
    busiest = max(stages, key=lambda item: item.time_s[list(Activity).index(Activity.BUSY)])
    with_work = 1.0 - busiest.share(Activity.IDLE) or 1.0
    return Bottleneck(
        stage=busiest.stage,
        busy=busiest.share(Activity.BUSY) / with_work,
        starved=busiest.share(Activity.STARVED) / with_work,
        blocked=busiest.share(Activity.BLOCKED) / with_work,
        transferring=busiest.share(Activity.TRANSFERRING) / with_work,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answered request. Times count from submission; None if there was no such output."""

    text: str
    transcript: str
    pcm: bytes
    usage: Usage
    first_text_s: float | None
    first_audio_s: float | None
    latency_s: float
    stages: tuple[StageTime, ...]


async def ask(service: Service, request: Request, *, hear: Hear) -> Answer:
    """Submits a request and collects its answer; `hear` is told of every output as it comes.

    Raises Overloaded or BadInput from the service, and BrokenEdge if the request fails.
    """
    before = service.status()
    started = time.monotonic()
    heard: dict[str, bytearray] = {}
    first: dict[Payload, float] = {}
    usage = Usage()
    ticket = await service.submit(request)
    try:
        async for event in ticket:
            match event:
                case Output():
                    key = event.edge
                    if key != "transcript":
                        first.setdefault(event.payload, time.monotonic() - started)
                    heard.setdefault(key, bytearray()).extend(event.data)
                    hear(event)
                case Done():
                    usage = event.usage
                case Failed():
                    raise BrokenEdge(f"the request failed ({event.code}): {event.text}")
    finally:
        ticket.cancel()
    latency_s = time.monotonic() - started
    return Answer(
        text=heard.get("text", bytearray()).decode(errors="replace"),
        transcript=heard.get("transcript", bytearray()).decode(errors="replace"),
        pcm=bytes(heard.get("speech", b"")),
        usage=usage,
        first_text_s=first.get(Payload.TEXT),
        first_audio_s=first.get(Payload.PCM),
        latency_s=latency_s,
        stages=time_between(before, service.status()),
    )


def time_between(before: ServiceStatus, after: ServiceStatus) -> tuple[StageTime, ...]:
    """Where each stage's time went between two snapshots."""
    earlier = {(item.stage, item.replica, item.pid): item.time_s for item in before.replicas}
    spent: dict[str, list[float]] = {stage.name: [0.0] * len(Activity) for stage in after.graph.stages}
    for item in after.replicas:
        start = earlier.get((item.stage, item.replica, item.pid), (0.0,) * len(Activity))
        for number, (end_s, start_s) in enumerate(zip(item.time_s, start, strict=True)):
            spent[item.stage][number] += max(0.0, end_s - start_s)
    return tuple(StageTime(stage=stage, time_s=tuple(times)) for stage, times in spent.items())
