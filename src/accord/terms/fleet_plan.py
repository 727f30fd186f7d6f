"""A plan for a fleet: pools of equal replicas, and where they stand.

In: nothing. Out: `FleetPlan`. Invariant: each pool names a stage of the graph and a part of the gang; several pools
may serve one stage (prefill and decode, or two vendors side by side). Plans for one machine are `Plan`.
"""

from dataclasses import dataclass
from enum import StrEnum

from accord.terms.account import Account
from accord.terms.gang import Gang, Seat
from accord.terms.graph import StageGraph
from accord.terms.intent import Objective
from accord.terms.tensors import Dtype, Quantization


class Role(StrEnum):
    """Which part of a stage's work a pool does."""

    WHOLE = "whole"
    PREFILL = "prefill"
    DECODE = "decode"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parallel:
    """How one replica divides its model. It has `tensor * pipeline * data` ranks; `expert` of them share experts."""

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    expert: int = 1

    @property
    def ranks(self) -> int:
        """Devices of one replica."""
        return self.tensor * self.pipeline * self.data


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Equal replicas of one stage on one kind of device.

    Each replica stands on `nodes` nodes; `part` names the gang's part whose replicas are those nodes' shares
    (`replicas * nodes` of them). `options` are the engine's own, in its spelling.
    """

    name: str
    stage: str
    part: str
    engine: str
    kind: str
    replicas: int = 1
    nodes: int = 1
    role: Role = Role.WHOLE
    parallel: Parallel = Parallel()
    batch_max: int | None = None
    chunk_tokens: int | None = None
    context_tokens_max: int | None = None
    cache_dtype: Dtype | None = None
    quantization: Quantization | None = None
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPlan:
    """A value: printed, compared, simulated, rendered. `model` is what an engine loads (a name or a path).

    `seats` is the placement that Accord decided; empty: the cluster decides. `account`: what the planner promises;
    None where a person wrote the plan.
    """

    name: str
    model: str
    graph: StageGraph
    pools: tuple[Pool, ...]
    gang: Gang
    seats: tuple[Seat, ...] = ()
    objectives: tuple[Objective, ...] = ()
    account: Account | None = None

    def __post_init__(self) -> None:
        stages = {stage.name for stage in self.graph.stages}
        parts = {part.name: part for part in self.gang.parts}
        for pool in self.pools:
            if pool.stage not in stages:
                raise ValueError(f"plan {self.name}: pool {pool.name} serves {pool.stage}, which the graph lacks")
            if pool.part not in parts:
                raise ValueError(f"plan {self.name}: pool {pool.name} names the part {pool.part}, which the gang lacks")
            if parts[pool.part].replicas != pool.replicas * pool.nodes:
                raise ValueError(f"plan {self.name}: pool {pool.name} and its part disagree on replicas")
