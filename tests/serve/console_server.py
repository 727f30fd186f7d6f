"""The fake service with clocks that go on, and the door in front of it, for tests of the console.

In: a script, and how the clocks go. Out: a URL to open in a browser. Invariant: what the page
shows can be compared with what the test put in, since nothing here computes or measures anything.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from accord.models.embedded import graph
from accord.serve.config import DoorConfig
from accord.serve.server import serve
from accord.terms.intent import Metric, Objective
from accord.terms.status import Activity, Health, ObjectiveStatus, ReplicaStatus, ServiceStatus, Totals
from tests.serve.fake_service import FakeService, Script

REPLICAS = (("recognizer", 0), ("vision", 0), ("language", 0), ("language", 1), ("acoustic", 0), ("vocoder", 0))

Pace = tuple[float, float, float, float, float]

# Seconds that each snapshot adds to a stage's clocks, in the order of Activity; each row adds up to 1.
PACE: dict[str, Pace] = {
    "recognizer": (0.30, 0.00, 0.00, 0.05, 0.65),
    "vision": (0.00, 0.00, 0.00, 0.00, 1.00),
    "language": (0.90, 0.05, 0.02, 0.03, 0.00),
    "acoustic": (0.40, 0.35, 0.20, 0.05, 0.00),
    "vocoder": (0.25, 0.60, 0.00, 0.10, 0.05),
}


def replica(stage: str, number: int, *, pace: Pace, time_s: Pace) -> ReplicaStatus:
    """One replica, of whose last second `pace` are the shares."""
    return ReplicaStatus(
        stage=stage,
        replica=number,
        pid=4000 + 10 * list(PACE).index(stage) + number,
        health=Health.READY,
        activity=tuple(Activity)[pace.index(max(pace))],
        time_s=time_s,
        active=number + 2,
        served=30,
        restarts=1 if stage == "vocoder" else 0,
        memory_bytes=96 << 20,
        arena_used_bytes=8 << 20,
        arena_bytes=32 << 20,
    )


def snapshot(at: int, replicas: tuple[ReplicaStatus, ...]) -> ServiceStatus:
    """The service after `at` seconds."""
    return ServiceStatus(
        name="voice-assistant (test data)",
        graph=graph(),
        uptime_s=float(at),
        ready=True,
        replicas=replicas,
        objectives=(
            ObjectiveStatus(
                objective=Objective(metric=Metric.TTFT, percentile=50, bound=0.3), measured=0.142, samples=128
            ),
            ObjectiveStatus(
                objective=Objective(metric=Metric.FIRST_AUDIO, percentile=99, bound=0.9), measured=1.07, samples=128
            ),
            ObjectiveStatus(
                objective=Objective(metric=Metric.LATENCY, percentile=99, bound=8.0), measured=None, samples=0
            ),
        ),
        totals=Totals(submitted=1243, done=1230, failed=3, cancelled=4, refused=0, queued=1, active=5, replayed=2),
    )


class LivelyService(FakeService):
    """The scripted service, with clocks: each snapshot is one second after the last and adds `pace` to them."""

    def __init__(self, script: Script | None = None, *, ready: bool = True) -> None:
        super().__init__(script, ready=ready)
        self.at = 0
        self.pace = PACE.copy()
        self._clocks: dict[str, Pace] = {}

    def status(self) -> ServiceStatus:
        self.at += 1
        for stage, pace in self.pace.items():
            before = self._clocks.get(stage, (1000.0, 2000.0, 3000.0, 4000.0, 5000.0))
            a, b, c, d, e = (clock + share for clock, share in zip(before, pace, strict=True))
            self._clocks[stage] = (a, b, c, d, e)
        replicas = tuple(
            replica(stage, number, pace=self.pace[stage], time_s=self._clocks[stage]) for stage, number in REPLICAS
        )
        return replace(snapshot(self.at, replicas), ready=self.ready, graph=self.graph)


@asynccontextmanager
async def console_at(service: FakeService, *, api_key: str | None = None, port: int = 0) -> AsyncIterator[str]:
    """The door over `service`; gives the page's URL. `port` 0 takes any that is free."""
    config = DoorConfig(model="embedded-omni", port=port, api_key=api_key, close_s_max=1.0)
    async with serve(service, config) as bound:
        yield f"http://{config.host}:{bound.port}/"
