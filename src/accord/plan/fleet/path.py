"""From the times of stages to percentiles of a request's.

In: a model's graph, its `Demand`, objectives; by role the moments of its staffing (`menu.COLUMNS`). Out: `Path`, a
`Judge`: each objective's prediction over its bound. Invariant: a slower stage never makes a prediction smaller; times
on a path add up as independent ones, a sum is taken as log-normal, and a percentile over kinds of requests is that of
their mixture.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from accord.plan.fleet.demand import Demand, Pace, RequestKind
from accord.plan.fleet.menu import FIRST, FIRST_VAR, PACE, PACE_VAR, WHOLE, WHOLE_VAR
from accord.plan.fleet.size import NOTHING, Array, Moments
from accord.terms.architecture import Architecture
from accord.terms.fleet_plan import Role
from accord.terms.graph import DOOR
from accord.terms.intent import Metric, Objective

_HALVINGS = 12  # of the bracket around a mixture's percentile, in its logarithm


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleOf:
    """Whose columns stand at one place: a stage, and which part of its work."""

    stage: str
    role: Role


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stage:
    """Moments of one stage, its roles put together."""

    first: Moments
    pace: Moments
    whole: Moments


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """Judges staffings of these roles, in this order."""

    architecture: Architecture
    demand: Demand
    roles: tuple[RoleOf, ...]
    objectives: tuple[Objective, ...]

    def __call__(self, columns: tuple[Array, ...]) -> Array:
        """[rows, objectives]: predictions over bounds."""
        found = [self.predicted(objective, columns) / objective.bound for objective in self.objectives]
        rows = len(columns[0]) if columns else 1
        return np.stack(found, axis=-1) if found else np.zeros((rows, 0))

    def predicted(self, objective: Objective, columns: tuple[Array, ...]) -> Array:
        """What `objective.metric` is at its percentile, by row: seconds, or a ratio for RTF."""
        stages = _stages(self.roles, columns)
        parts = [
            (kind.share, times)
            for kind in self._relevant(objective.metric)
            if (times := self._of_kind(objective.metric, kind, stages)) is not None
        ]
        total = sum(share for share, _ in parts)
        rows = (len(columns[0]),) if columns else (1,)
        if not parts:
            return np.zeros(rows)
        return np.broadcast_to(
            percentile([(share / total, times) for share, times in parts], objective.percentile), rows
        )

    def _of_kind(self, metric: Metric, kind: RequestKind, stages: Mapping[str, _Stage]) -> Moments | None:
        """None: requests of this kind have no such time."""
        writer = self.demand.writer
        match metric:
            case Metric.TPOT:
                return None if writer is None else stages[writer].pace
            case Metric.TTFT:
                return self._begun((writer,) if writer is not None else self._last(kind), kind, stages)
            case Metric.FIRST_AUDIO:
                return self._begun(self._last(kind), kind, stages) if kind.spoken or writer is None else None
            case Metric.LATENCY:
                return self._done(kind, stages)
            case Metric.RTF:
                spoken = kind.spoken or writer is None
                return self._done(kind, stages).times(1.0 / self.demand.audio_s.mean) if spoken else None

    def _relevant(self, metric: Metric) -> tuple[RequestKind, ...]:
        """Kinds with what matters to a metric alone; those that are alike then are one."""
        if metric not in (Metric.TTFT, Metric.TPOT) or self.demand.writer is None:
            return self.demand.kinds
        matter = {self.demand.writer}
        if metric is Metric.TTFT:
            for _ in self.architecture.graph.stages:
                matter |= {edge.source for edge in self.architecture.graph.edges if edge.target in matter}
        shares: dict[frozenset[str], float] = {}
        for kind in self.demand.kinds:
            passed = kind.stages & matter
            shares[passed] = shares.get(passed, 0.0) + kind.share
        return tuple(RequestKind(share=share, stages=passed, spoken=False) for passed, share in shares.items())

    def _begun(self, ends: tuple[str, ...], kind: RequestKind, stages: Mapping[str, _Stage]) -> Moments:
        return _latest([self._first(stage, kind, stages) for stage in ends])

    def _last(self, kind: RequestKind) -> tuple[str, ...]:
        """Stages whose output the door gets, those of speech alone where there is some."""
        ends = [edge.source for edge in self.architecture.graph.edges if edge.target == DOOR]
        ends = [stage for stage in dict.fromkeys(ends) if stage in kind.stages]
        others = [stage for stage in ends if stage != self.demand.writer]
        return tuple(others if kind.spoken and others else ends)

    def _before(self, stage: str, kind: RequestKind) -> tuple[str, ...]:
        edges = self.architecture.graph.edges
        return tuple(dict.fromkeys(e.source for e in edges if e.target == stage and e.source in kind.stages))

    def _first(self, stage: str, kind: RequestKind, stages: Mapping[str, _Stage]) -> Moments:
        """From arrival to the first output of a stage."""
        demand = self.demand.of(stage)
        came = _latest([self._first(other, kind, stages) for other in self._before(stage, kind)])
        for other in self._before(stage, kind):
            # A stage that works in chunks waits until what feeds it has written the first one.
            if demand.pace is Pace.CHUNKS and self.demand.of(other).pace is Pace.WRITES:
                came = came + stages[other].pace.times(max(0.0, demand.first_units - 1.0))
        return came + stages[stage].first

    def _done(self, kind: RequestKind, stages: Mapping[str, _Stage]) -> Moments:
        return _latest([self._end(stage, kind, stages) for stage in self._last(kind)])

    def _end(self, stage: str, kind: RequestKind, stages: Mapping[str, _Stage]) -> Moments:
        """From arrival to the last output of a stage. Streams overlap: the slowest one decides."""
        demand, here = self.demand.of(stage), stages[stage]
        before = self._before(stage, kind)
        if demand.pace is Pace.PASSES:
            return _latest([self._end(other, kind, stages) for other in before]) + here.whole
        own = self._first(stage, kind, stages)
        if demand.pace is Pace.WRITES:
            more = demand.outputs * max(0.0, 1.0 - 1.0 / max(1.0, demand.outputs.mean))
            own = own + here.pace.times_size(more)
        else:
            own = own + here.whole
        streaming = [other for other in before if self.demand.of(other).pace is not Pace.PASSES]
        return _latest([own, *(self._end(other, kind, stages) + here.first for other in streaming)])


def percentile(parts: list[tuple[float, Moments]], percent: float) -> Array:
    """Of a mixture of log-normal times with these shares, by row; infinite where a time is."""
    logs = [(share, *_log_normal(times)) for share, times in parts]
    z = NormalDist().inv_cdf(percent / 100)
    if len(logs) == 1:
        return np.asarray(np.exp(logs[0][1] + z * logs[0][2]))
    points = np.stack(np.broadcast_arrays(*[mu + z * sigma for _, mu, sigma in logs]))
    low, high = points.min(axis=0), points.max(axis=0)
    finite = np.isfinite(high)
    low, high = np.where(finite, low, 0.0), np.where(finite, high, 0.0)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        below = sum(share * _below(middle, mu, sigma) for share, mu, sigma in logs)
        over = below >= percent / 100
        low, high = np.where(over, low, middle), np.where(over, middle, high)
    return np.where(finite, np.exp(high), np.inf)


def _log_normal(times: Moments) -> tuple[Array, Array]:
    with np.errstate(invalid="ignore", divide="ignore"):
        squared = np.where(times.mean > 0, times.variance / times.mean**2, 0.0)
        sigma2 = np.where(np.isfinite(times.mean), np.log1p(np.where(np.isfinite(squared), squared, 0.0)), 0.0)
        mu = np.where(np.isfinite(times.mean), np.log(times.mean) - sigma2 / 2, np.inf)
    return mu, np.sqrt(sigma2)


def _below(x: Array, mu: Array, sigma: Array) -> Array:
    return _normal((x - np.where(np.isfinite(mu), mu, 700.0)) / np.maximum(sigma, 1e-9))


def _normal(x: Array) -> Array:
    """The normal distribution function, to 1e-7 (Abramowitz and Stegun, 26.2.17)."""
    t = 1.0 / (1.0 + 0.2316419 * np.abs(x))
    tail = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    tail = tail * np.exp(-np.minimum(x * x, 1400.0) / 2) / math.sqrt(2 * math.pi)
    return np.asarray(np.where(x >= 0, 1.0 - tail, tail))


def _latest(items: list[Moments]) -> Moments:
    """The one with the largest mean, row by row: paths that run beside each other."""
    if not items:
        return NOTHING
    found = items[0]
    for item in items[1:]:
        later = item.mean > found.mean
        found = Moments(
            mean=np.where(later, item.mean, found.mean), variance=np.where(later, item.variance, found.variance)
        )
    return found


def _stages(roles: tuple[RoleOf, ...], columns: tuple[Array, ...]) -> dict[str, _Stage]:
    """Prefill and decode apart: the first token has to travel with the cache before decoding goes on."""
    found: dict[str, _Stage] = {}
    for place, table in zip(roles, columns, strict=True):
        item = _Stage(
            first=Moments(mean=table[:, FIRST], variance=table[:, FIRST_VAR]),
            pace=Moments(mean=table[:, PACE], variance=table[:, PACE_VAR]),
            whole=Moments(mean=table[:, WHOLE], variance=table[:, WHOLE_VAR]),
        )
        other = found.get(place.stage)
        if other is not None:
            item = _Stage(first=other.first + item.first, pace=other.pace + item.pace, whole=other.whole + item.whole)
        found[place.stage] = item
    return found
