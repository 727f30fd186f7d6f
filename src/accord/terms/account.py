"""What a plan for a fleet promises, costs and stands on.

In: nothing. Out: `Account` and its parts, `FrontPoint`. Invariant: figures are those that the planner decided by, not
figures worked out again; what isn't known (a price) is None, and `unpriced` names it.
"""

from dataclasses import dataclass
from enum import StrEnum

from accord.terms.estimate import Source
from accord.terms.intent import Objective


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolAccount:
    """One pool under the rate of the intent.

    `rate_rps` of its stage's requests reach the whole pool; it could carry `capacity_rps` and still meet the
    objectives. `utilisation` is the part of its time that it is busy, 0 to 1. `memory_bytes` are taken of the
    `memory_bytes_max` of its fullest device (the whole device's, where a replica has a share of one). `devices` counts
    shares of a device as parts. `weakest` names the figure behind `source`.
    """

    pool: str
    rate_rps: float
    capacity_rps: float
    utilisation: float
    batch: float  # requests in one replica at once, in the mean
    memory_bytes: int
    memory_bytes_max: int
    devices: float
    cost_usd_per_hour: float | None
    source: Source
    uncertainty: float
    weakest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """An objective, and what the plan reaches (seconds; a ratio for RTF)."""

    objective: Objective
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """A limit that the plan stands at or near: without it, there would be a better plan.

    `field` is a path of the intent or of the fleet (`objectives.tpot_p99`, `fleet.h200`). `used` is the part of the
    limit that is used, 0 to 1.
    """

    field: str
    value: str
    limit: str
    used: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerUp:
    """The best plan of another make (other kinds, roles or parallelism somewhere).

    `more_usd_per_hour` and `more_devices` are over the plan's own; `more_usd_per_hour` is None where prices aren't
    known. `fewer_rps`: by how much less it carries, where the plan was chosen for its rate.
    """

    words: str
    cost_usd_per_hour: float | None
    devices: float
    more_usd_per_hour: float | None
    more_devices: float
    fewer_rps: float = 0.0


class MarginKind(StrEnum):
    """What one more of would be bought."""

    DOLLAR = "dollar"  # an hour
    MILLISECOND = "millisecond"  # of an objective
    CARD = "card"  # of one kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Margin:
    """What `added` more of a limit changes: dollars an hour, milliseconds, cards.

    `field` is what would be written otherwise (`budget.per_hour`, `objectives.ttft_p99`, `fleet.h200`).
    """

    kind: MarginKind
    field: str
    added: float
    saved_usd_per_hour: float = 0.0
    saved_devices: float = 0.0
    gained_rps: float = 0.0


class Aim(StrEnum):
    """What the plan was chosen by."""

    COST = "cost"  # the least cost an hour
    DEVICES = "devices"  # the fewest devices, since prices aren't known
    RATE = "rate"  # the highest rate under the budget


@dataclass(frozen=True, slots=True, kw_only=True)
class QuirkNote:
    """A known fault of a device that touches this model: what was done about it.

    `cost_ratio` is the workaround's time over the native call's; None: `kind` was left out of `stage`.
    """

    quirk: str
    kind: str
    stage: str
    cost_ratio: float | None
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The whole plan: `pools` in the order of the plan's.

    `rate_rps` is asked for (with aim RATE: reached), `rate_rps_max` is what all pools together could carry.
    `cost_usd_per_hour` and `cost_usd_per_request` are None while `unpriced` names kinds that the plan uses.
    """

    aim: Aim
    pools: tuple[PoolAccount, ...]
    predicted: tuple[Predicted, ...]
    rate_rps: float
    rate_rps_max: float
    devices: float
    cost_usd_per_hour: float | None
    cost_usd_per_request: float | None
    source: Source
    uncertainty: float
    weakest: str
    unpriced: tuple[str, ...] = ()
    binds: tuple[Binding, ...] = ()
    runner_up: RunnerUp | None = None
    margins: tuple[Margin, ...] = ()
    quirks: tuple[QuirkNote, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontPoint:
    """One plan that no other beats in both: cheaper, or (`value`) better in what the front is about.

    `field` says what `value` is: `workload.rate_rps` (more is better) or an objective such as `objectives.ttft_p99`.
    """

    field: str
    value: float
    cost_usd_per_hour: float | None
    devices: float
    words: str
