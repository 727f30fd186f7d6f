"""From the times of stages to percentiles of a request's.

In: a model's graph, its `Demand`, objectives; by role the moments of its staffing (`menu.COLUMNS`). Out: `Path`, a
`Judge`. Invariant: a longer or wider time of a role never makes a prediction smaller (over several kinds of requests:
by more than 3%, in the tail of their mixture). Times along a trail add up as independent ones; of trails beside each
other the larger mean and the larger variance count; a sum is log-normal.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from accord.plan.fleet.demand import Demand
from accord.plan.fleet.front import Flags
from accord.plan.fleet.menu import FIRST, FIRST_VAR, PACE, PACE_VAR, WHOLE, WHOLE_VAR
from accord.plan.fleet.size import Array, Moments
from accord.plan.fleet.trail import Trail, What, trails
from accord.terms.architecture import Architecture
from accord.terms.fleet_plan import Role
from accord.terms.intent import Metric, Objective

_HALVINGS = 20  # of the bracket around a mixture's percentile, in its logarithm: to a part in 20,000 at worst
_SPAN = 50.0  # of that bracket at most


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleOf:
    """Whose columns stand at one place: a stage, and which part of its work."""

    stage: str
    role: Role


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Requests of one kind: their share, and the numbers of the trails that run beside each other in them."""

    share: float
    trails: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """Judges staffings of `roles`, in this order. `parts`: by objective, the kinds of requests that it is about.

    Figures are, for each trail, the sum of the means and the sum of the variances along it: they add up over roles.
    """

    demand: Demand
    roles: tuple[RoleOf, ...]
    objectives: tuple[Objective, ...]
    trails: tuple[Trail, ...]
    parts: tuple[tuple[_Part, ...], ...]

    def figures(self, role: int, columns: Array) -> Array:
        """What one role adds to each trail, [rows, 2 * trails]: means, then variances. `columns`: [rows, COLUMNS]."""
        stage = self.roles[role].stage
        found = np.zeros((len(columns), 2, len(self.trails)))
        for number, trail in enumerate(self.trails):
            for term in trail:
                if term.stage == stage:
                    moments = self._moments(term.what, stage, columns)
                    found[:, 0, number] += moments.mean * term.factor
                    found[:, 1, number] += moments.variance * term.factor**2
        return found.reshape(len(columns), 2 * len(self.trails))

    def near(self, figures: Array) -> Array:
        """Roughly how near the nearest objective is to its bound: of each kind of requests the mean, give or take."""
        found = np.zeros(len(figures))
        for parts, item in zip(self.parts, self.objectives, strict=True):
            far = max(0.0, NormalDist().inv_cdf(item.percentile / 100))
            for part in parts:
                if part.share > 1 - item.percentile / 100:
                    times = self._times(part, figures)
                    found = np.maximum(found, (times.mean + far * np.sqrt(times.variance)) / item.bound)
        return found

    def ratios(self, figures: Array) -> Array:
        """[rows, objectives]: predictions over bounds."""
        found = [self.predicted(number, figures) / item.bound for number, item in enumerate(self.objectives)]
        return np.stack(found, axis=-1) if found else np.zeros((len(figures), 0))

    def meets(self, figures: Array) -> Flags:
        """Which rows meet all objectives."""
        held = np.ones(len(figures), dtype=bool)
        for parts, item in zip(self.parts, self.objectives, strict=True):
            bound = np.log(item.bound * (1 + 1e-9))
            logs = [(part.share, *_logs(self._times(part, figures))) for part in parts]
            below = sum((share * _below(bound, mean, sigma) for share, mean, sigma in logs), np.zeros(()))
            held &= (below >= item.percentile / 100 - 1e-9) | (not parts)
        return held

    def predicted(self, objective: int, figures: Array) -> Array:
        """What an objective's metric is at its percentile, by row: seconds, or a ratio for RTF."""
        parts = [(part.share, self._times(part, figures)) for part in self.parts[objective]]
        if not parts:
            return np.zeros(len(figures))
        return percentile(parts, self.objectives[objective].percentile)

    def _times(self, part: _Part, figures: Array) -> Moments:
        places = list(part.trails)
        split = figures.reshape(len(figures), 2, len(self.trails))
        return Moments(mean=split[:, 0, places].max(axis=1), variance=split[:, 1, places].max(axis=1))

    def _moments(self, what: What, stage: str, columns: Array) -> Moments:
        match what:
            case What.FIRST:
                return Moments(mean=columns[:, FIRST], variance=columns[:, FIRST_VAR])
            case What.PACE:
                return Moments(mean=columns[:, PACE], variance=columns[:, PACE_VAR])
            case What.WHOLE:
                return Moments(mean=columns[:, WHOLE], variance=columns[:, WHOLE_VAR])
            case What.WRITTEN:
                outputs = self.demand.of(stage).outputs
                more = outputs * max(0.0, 1.0 - 1.0 / max(1.0, outputs.mean))
                return Moments(mean=columns[:, PACE], variance=columns[:, PACE_VAR]).times_size(more)


def path_of(
    architecture: Architecture, demand: Demand, roles: tuple[RoleOf, ...], objectives: tuple[Objective, ...]
) -> Path:
    """The judge of these roles."""
    known: dict[Trail, int] = {}
    parts = []
    for item in objectives:
        shares: dict[tuple[Trail, ...], float] = {}
        for kind in demand.kinds:
            found = trails(architecture, demand, kind, item.metric)
            if found:
                shares[found] = shares.get(found, 0.0) + kind.share
        total = sum(shares.values())
        scale = 1.0 / demand.audio_s.mean if item.metric is Metric.RTF else 1.0
        parts.append(
            tuple(
                _Part(
                    share=share / total,
                    trails=tuple(known.setdefault(_scaled(trail, scale), len(known)) for trail in found),
                )
                for found, share in shares.items()
            )
        )
    return Path(demand=demand, roles=roles, objectives=objectives, trails=tuple(known), parts=tuple(parts))


def _scaled(trail: Trail, scale: float) -> Trail:
    return trail if scale == 1.0 else tuple(term.times(scale) for term in trail)


def percentile(parts: Iterable[tuple[float, Moments]], percent: float) -> Array:
    """Of a mixture of log-normal times with these shares, by row.

    Below the mean a wider distribution of the same mean has the smaller percentiles. That slower devices would look
    better by being less even is no use to anyone: of all variances up to the given one, the worst counts.
    """
    z = max(0.0, NormalDist().inv_cdf(percent / 100))
    logs = [(share, *_logs(times)) for share, times in parts]
    worst = [(mean, np.minimum(sigma, z)) for _, mean, sigma in logs]
    points = [mean + z * sigma - sigma**2 / 2 for mean, sigma in worst]
    if len(points) == 1:
        return np.asarray(np.exp(points[0]))
    low, high = np.min(points, axis=0), np.max(points, axis=0)
    low = np.maximum(low, high - _SPAN)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        below = sum((share * _below(middle, mean, sigma) for share, mean, sigma in logs), np.zeros(()))
        over = below >= percent / 100 - 1e-12
        low, high = np.where(over, low, middle), np.where(over, middle, high)
    return np.asarray(np.exp(high))


def _below(log_x: Array | float, log_mean: Array, sigma: Array) -> Array:
    """The part of log-normal times that are at most x, where of all variances up to the given one the worst counts."""
    far = np.maximum(log_x - log_mean, 0.0)
    spread = np.maximum(np.minimum(sigma, np.sqrt(2 * far)), 1e-9)
    return np.where(log_x - log_mean < -1e-12, 0.0, _normal(far / spread + spread / 2))


def _logs(times: Moments) -> tuple[Array, Array]:
    """The logarithm of the mean, and the standard deviation of the logarithm."""
    mean = np.maximum(times.mean, 1e-300)
    return np.log(mean), np.sqrt(np.log1p(times.variance / mean / mean))


def _normal(x: Array) -> Array:
    """The normal distribution function, to 1e-7 (Abramowitz and Stegun, 26.2.17)."""
    t = 1.0 / (1.0 + 0.2316419 * np.abs(x))
    tail = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    tail = tail * np.exp(-np.minimum(x * x, 1400.0) / 2) / math.sqrt(2 * math.pi)
    return np.asarray(np.where(x >= 0, 1.0 - tail, tail))
