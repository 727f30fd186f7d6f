"""Which times of which stages add up to what a request sees.

In: a model's graph, its `Demand`, a kind of request, a metric. Out: trails: sums of terms, of which the longest counts.
Invariant: a trail that is a part of another one is left out.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from accord.plan.fleet.demand import Demand, Pace, RequestKind
from accord.terms.architecture import Architecture
from accord.terms.graph import DOOR
from accord.terms.intent import Metric


class What(StrEnum):
    """A time of one stage."""

    FIRST = "first"  # until its first output
    PACE = "pace"  # between outputs
    WRITTEN = "written"  # from its first output to its last
    WHOLE = "whole"  # all of its work


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """`factor` times a time of a stage."""

    stage: str
    what: What
    factor: float = 1.0

    def times(self, factor: float) -> "Term":
        """So many times as much."""
        return replace(self, factor=self.factor * factor)


Trail = tuple[Term, ...]


def trails(architecture: Architecture, demand: Demand, kind: RequestKind, metric: Metric) -> tuple[Trail, ...]:
    """The trails that run beside each other in requests of this kind; none where these have no such time."""
    graph, writer = _Graph(architecture=architecture, demand=demand, kind=kind), demand.writer
    spoken = kind.spoken or writer is None
    found: list[Trail] = []
    match metric:
        case Metric.TPOT:
            found += [] if writer is None else [(Term(stage=writer, what=What.PACE),)]
        case Metric.TTFT:
            ends = (writer,) if writer is not None else graph.last()
            found += [trail for stage in ends for trail in graph.first(stage)]
        case Metric.FIRST_AUDIO:
            found += [trail for stage in graph.last() for trail in graph.first(stage)] if spoken else []
        case Metric.LATENCY:
            found += [trail for stage in graph.last() for trail in graph.end(stage)]
        case Metric.RTF:
            found += [trail for stage in graph.last() for trail in graph.end(stage)] if spoken else []
    return _longest(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Graph:
    """The stages that one kind of request passes."""

    architecture: Architecture
    demand: Demand
    kind: RequestKind

    def last(self) -> tuple[str, ...]:
        """What ends the answer: speech, where there is any, else what else goes to the door."""
        ends = [edge.source for edge in self.architecture.graph.edges if edge.target == DOOR]
        ends = [stage for stage in dict.fromkeys(ends) if stage in self.kind.stages]
        others = [stage for stage in ends if stage != self.demand.writer]
        return tuple(others if self.kind.spoken and others else ends)

    def before(self, stage: str) -> tuple[str, ...]:
        """What feeds a stage."""
        edges = self.architecture.graph.edges
        return tuple(dict.fromkeys(e.source for e in edges if e.target == stage and e.source in self.kind.stages))

    def first(self, stage: str) -> list[Trail]:
        """From arrival to the first output of a stage.

        A stage that works in chunks waits until what feeds it has written the first one.
        """
        demand, before = self.demand.of(stage), self.before(stage)
        waits = tuple(
            Term(stage=other, what=What.PACE, factor=demand.first_units - 1.0)
            for other in before
            if demand.pace is Pace.CHUNKS and demand.first_units > 1.0 and self.demand.of(other).pace is Pace.WRITES
        )
        came = [trail for other in before for trail in self.first(other)] or [()]
        return [(*trail, *waits, Term(stage=stage, what=What.FIRST)) for trail in came]

    def end(self, stage: str) -> list[Trail]:
        """From arrival to the last output of a stage. Streams overlap: the slowest one decides."""
        demand, before = self.demand.of(stage), self.before(stage)
        if demand.pace is Pace.PASSES:
            came = [trail for other in before for trail in self.end(other)] or [()]
            return [(*trail, Term(stage=stage, what=What.WHOLE)) for trail in came]
        rest = Term(stage=stage, what=What.WRITTEN if demand.pace is Pace.WRITES else What.WHOLE)
        streaming = [other for other in before if self.demand.of(other).pace is not Pace.PASSES]
        first = Term(stage=stage, what=What.FIRST)
        own = [(*trail, rest) for trail in self.first(stage)]
        return own + [(*trail, first) for other in streaming for trail in self.end(other)]


def _longest(found: list[Trail]) -> tuple[Trail, ...]:
    """Those that are no part of another one."""
    sets = [frozenset(trail) for trail in found]
    kept: dict[frozenset[Term], Trail] = {}
    for terms, trail in zip(sets, found, strict=True):
        if not any(terms < other for other in sets):
            kept.setdefault(terms, trail)
    return tuple(kept.values())
