"""The plan: which engine runs each stage, with how many threads and replicas.

In: nothing. Out: `Plan`. Invariant: one `StagePlan` for each stage of `graph`, in its order.
"""

from dataclasses import dataclass

from accord.terms.estimate import Estimate
from accord.terms.graph import StageGraph
from accord.terms.intent import Objective


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePlan:
    """How one stage is run.

    `engine` names a row of the engine table. `assets` names the weight packages that it reads.
    `batch_max` bounds the requests inside one replica. `memory_bytes` is what one replica may hold
    besides its weights (for AR: the KV budget). `work` is the cost of one unit of this stage's work.
    """

    stage: str
    engine: str
    device: str
    threads: int
    replicas: int
    batch_max: int
    memory_bytes: int
    arena_bytes: int
    assets: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    work: Estimate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionLimits:
    """How much the service accepts. Waiting longer than `queue_s_max` is refused, not suffered.

    `inflight_bytes_max` bounds the inputs of all accepted requests together.
    """

    active_max: int
    queue_max: int
    queue_s_max: float
    inflight_bytes_max: int = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A value: printed, compared, simulated, rendered or run."""

    name: str
    graph: StageGraph
    stages: tuple[StagePlan, ...]
    admission: AdmissionLimits
    objectives: tuple[Objective, ...] = ()
    deterministic: bool = False

    def __post_init__(self) -> None:
        planned = [item.stage for item in self.stages]
        wanted = [stage.name for stage in self.graph.stages]
        if planned != wanted:
            raise ValueError(f"plan {self.name}: stages {planned} don't match the graph's {wanted}")

    def stage(self, name: str) -> StagePlan:
        """The plan of one stage; KeyError if there is none."""
        for item in self.stages:
            if item.stage == name:
                return item
        raise KeyError(name)
