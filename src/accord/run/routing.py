"""Which edges a request uses, and which replica serves each stage.

In: the graph, the edges a client feeds and wants, the replicas and their load. Out: a `Route`.
Invariant: a route visits one replica a stage, joins the wanted outputs to the given inputs, and no more.
"""

import hashlib
from dataclasses import dataclass

from accord.run.frames import Hop, Route
from accord.terms.errors import BadInput
from accord.terms.graph import DOOR, StageGraph

DOOR_NODE = 0


def active_edges(graph: StageGraph, inputs: frozenset[str], outputs: frozenset[str]) -> tuple[int, ...]:
    """The numbers of the edges that lead from the given inputs to the wanted outputs.

    Raises BadInput when an input leads nowhere or an output can't be had.
    """
    live = _forward(graph, inputs)
    useful = _backward(graph, live, outputs)
    for wanted in sorted(outputs):
        if wanted not in useful:
            ways = sorted(edge.name for edge in graph.edges if edge.source == DOOR)
            raise BadInput(
                field="outputs",
                value=wanted,
                problem=f"can't be made from {sorted(inputs) or 'nothing'}",
                fix=f"give the inputs that it needs (of {ways})",
            )
    for given in sorted(inputs):
        if given not in useful:
            raise BadInput(field="inputs", value=given, problem=f"isn't used for {sorted(outputs)}", fix="leave it out")
    return tuple(number for number, edge in enumerate(graph.edges) if edge.name in useful)


def _forward(graph: StageGraph, inputs: frozenset[str]) -> set[str]:
    live: set[str] = set()
    stages: set[str] = {DOOR}
    while True:
        live = {
            edge.name for edge in graph.edges if (edge.name in inputs if edge.source == DOOR else edge.source in stages)
        }
        grown = {DOOR} | {
            stage.name
            for stage in graph.stages
            if any(edge.name in live and edge.target == stage.name for edge in graph.edges)
            and all(edge.name in live for edge in graph.edges if edge.required and edge.target == stage.name)
        }
        if grown == stages:
            return {edge.name for edge in graph.edges if edge.name in live and edge.target in stages}
        stages = grown


def _backward(graph: StageGraph, live: set[str], outputs: frozenset[str]) -> set[str]:
    useful: set[str] = set()
    while True:
        needed = {edge.source for edge in graph.edges if edge.name in useful} - {DOOR}
        grown = {
            edge.name
            for edge in graph.edges
            if edge.name in live and (edge.name in outputs if edge.target == DOOR else edge.target in needed)
        }
        if grown == useful:
            return useful
        useful = grown


@dataclass(slots=True)
class Candidate:
    """A replica as the router sees it. `load` counts requests that have not left it."""

    node_id: int
    stage: str
    open: bool = True
    load: int = 0


class Router:
    """Chooses replicas: the least loaded, or for sticky stages the same one for a session."""

    def __init__(self, graph: StageGraph) -> None:
        self._graph = graph
        self._by_stage: dict[str, list[Candidate]] = {stage.name: [] for stage in graph.stages}
        self._by_node: dict[int, Candidate] = {}
        self._open: dict[str, int] = {stage.name: 0 for stage in graph.stages}
        self._plans: dict[tuple[frozenset[str], frozenset[str]], tuple[int, ...]] = {}

    def add(self, stage: str, node_id: int) -> None:
        """A replica takes requests from now on."""
        candidate = Candidate(node_id=node_id, stage=stage)
        self._by_stage[stage].append(candidate)
        self._by_node[node_id] = candidate
        self._open[stage] += 1

    def close(self, node_id: int) -> None:
        """The replica, if it is still there, gets no new requests (draining)."""
        candidate = self._by_node.get(node_id)
        if candidate is not None and candidate.open:
            candidate.open = False
            self._open[candidate.stage] -= 1

    def remove(self, node_id: int) -> None:
        """The replica is gone."""
        if node_id in self._by_node:
            self.close(node_id)
            candidate = self._by_node.pop(node_id)
            self._by_stage[candidate.stage].remove(candidate)

    def knows(self, node_id: int) -> bool:
        """Whether the replica is there."""
        return node_id in self._by_node

    def left(self, node_id: int) -> None:
        """A request has left the replica."""
        candidate = self._by_node.get(node_id)
        if candidate is not None:
            candidate.load -= 1

    def load(self, node_id: int) -> int:
        """Requests that have not left the replica; 0 if it is gone."""
        candidate = self._by_node.get(node_id)
        return candidate.load if candidate is not None else 0

    def edges(self, inputs: frozenset[str], outputs: frozenset[str]) -> tuple[int, ...]:
        """`active_edges`, remembered: services see few combinations."""
        key = (inputs, outputs)
        known = self._plans.get(key)
        if known is None:
            known = active_edges(self._graph, inputs, outputs)
            if len(self._plans) < 1024:
                self._plans[key] = known
        return known

    def missing(self, edges: tuple[int, ...]) -> str | None:
        """A stage that these edges need and that has no open replica; None when all have."""
        for number in edges:
            target = self._graph.edges[number].target
            if target != DOOR and not self._open[target]:
                return target
        return None

    def assign(self, edges: tuple[int, ...], session: str | None) -> Route:
        """A route over these edges; each chosen replica's load grows by one. `missing` must be None."""
        chosen: dict[str, int] = {DOOR: DOOR_NODE}
        hops: list[Hop] = []
        for number in edges:
            edge = self._graph.edges[number]
            for name in (edge.source, edge.target):
                if name not in chosen:
                    candidate = self._choose(name, session)
                    candidate.load += 1
                    chosen[name] = candidate.node_id
            hops.append(Hop(number, chosen[edge.source], chosen[edge.target]))
        return tuple(hops)

    def _choose(self, stage: str, session: str | None) -> Candidate:
        candidates = self._by_stage[stage]
        if len(candidates) == 1:
            return candidates[0]
        ready = [candidate for candidate in candidates if candidate.open]
        if session is not None and self._graph.stage(stage).sticky:
            # Rendezvous hashing: when a replica comes or goes, only the sessions that it wins or loses move.
            return max(ready, key=lambda c: hashlib.blake2b(f"{session}\0{c.node_id}".encode()).digest())
        return min(ready, key=lambda c: c.load)
