"""What a running service says of itself.

In: nothing. Out: `ServiceStatus`, a snapshot. Invariant: shares of one replica add up to 1 once it has lived.
"""

from dataclasses import dataclass
from enum import StrEnum

from accord.terms.graph import StageGraph
from accord.terms.intent import Objective


class Activity(StrEnum):
    """What a replica's time goes to. The bubble is starved + blocked + transferring."""

    BUSY = "busy"  # inside a step of its engine
    STARVED = "starved"  # has requests, waits for their input
    BLOCKED = "blocked"  # has output, waits for credit or arena space
    TRANSFERRING = "transferring"  # copies payloads or writes frames
    IDLE = "idle"  # has no request


class Health(StrEnum):
    """Where a replica stands in its life."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    DEAD = "dead"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaStatus:
    """One process. `time_s` follows the order of `Activity`."""

    stage: str
    replica: int
    pid: int
    health: Health
    activity: Activity
    time_s: tuple[float, ...]
    active: int
    served: int
    restarts: int
    memory_bytes: int
    arena_used_bytes: int
    arena_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectiveStatus:
    """An objective against what was measured; `measured` is None before the first sample."""

    objective: Objective
    measured: float | None
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Counts since start. submitted = done + failed + cancelled + refused + queued + active."""

    submitted: int
    done: int
    failed: int
    cancelled: int
    refused: int
    queued: int
    active: int
    replayed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStatus:
    """The whole service at one moment."""

    name: str
    graph: StageGraph
    uptime_s: float
    ready: bool
    replicas: tuple[ReplicaStatus, ...]
    objectives: tuple[ObjectiveStatus, ...]
    totals: Totals
