"""Puts stages and edges together into an `Architecture`.

In: `StageDraft`s and `EdgeDraft`s of a family. Out: `Architecture`. Invariant: bytes in the graph are computed from
the tensors and caches, never given.
"""

from dataclasses import dataclass

from accord.estimate.cache import request_bytes
from accord.estimate.weights import stored_bytes
from accord.models.card import PARAMETERS_MAX, Card
from accord.models.parts.parts import Parts
from accord.models.stored import stored_of
from accord.terms.architecture import Architecture, Constraint, Flow, Needs, Unit
from accord.terms.errors import BadInput
from accord.terms.graph import DOOR, Batching, Capability, Edge, Payload, Stage, StageGraph
from accord.terms.tensors import Dtype


@dataclass(frozen=True, slots=True, kw_only=True)
class StageDraft:
    """One stage of a family. `card` is the mapping whose quantization settings apply to it."""

    name: str
    capabilities: tuple[Capability, ...]
    batching: Batching
    unit: Unit
    parts: Parts
    card: Card
    constraints: tuple[Constraint, ...] = ()
    example_units: int = 1000
    example_context: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeDraft:
    """One edge of a family, with what a unit of its payload weighs."""

    source: str
    target: str
    payload: Payload
    unit: Unit
    unit_bytes: int
    stream: bool = False
    chunk_units: int | None = None
    required: bool = False


def architecture(
    card: Card,
    *,
    name: str,
    family: str,
    stages: tuple[StageDraft, ...],
    edges: tuple[EdgeDraft, ...],
    context_max: int | None = None,
    remarks: tuple[str, ...] = (),
) -> Architecture:
    """The whole, with its bytes; BadInput for a model larger than any machine."""
    needs = tuple(
        Needs(
            stage=draft.name,
            unit=draft.unit,
            tensors=draft.parts.tensors,
            operators=draft.parts.operators,
            cache=draft.parts.cache,
            constraints=draft.constraints,
            example_units=draft.example_units,
            example_context=draft.example_context,
        )
        for draft in stages
    )
    total = sum(item.parameters for item in needs)
    if total > PARAMETERS_MAX:
        raise BadInput(field="card", value=total, problem="more parameters than any model has", fix="check its sizes")
    stored, unmet = stored_of(((draft.card, draft.parts.tensors) for draft in stages), card)
    made = tuple(
        Stage(
            name=draft.name,
            capabilities=draft.capabilities,
            batching=draft.batching,
            weights_bytes=stored_bytes(item.tensors, how),
            request_bytes=request_bytes(item.cache, tokens=context_max or 0, dtype=Dtype.BF16),
            sticky=bool(item.cache),
        )
        for draft, item, how in zip(stages, needs, stored, strict=True)
    )
    return Architecture(
        name=name,
        family=family,
        graph=StageGraph(model=name, stages=made, edges=tuple(_edge(edge) for edge in edges)),
        needs=needs,
        flows=tuple(_flow(edge) for edge in edges),
        stored=stored,
        context_max=context_max,
        unread=card.unread(),
        remarks=(*remarks, *unmet),
    )


def text_in(target: str) -> EdgeDraft:
    """The prompt's tokens, from the door."""
    return EdgeDraft(source=DOOR, target=target, payload=Payload.TOKENS, unit=Unit.TOKEN, unit_bytes=4, required=True)


def text_out(source: str) -> EdgeDraft:
    """The answer's tokens, one by one, to the door."""
    return EdgeDraft(
        source=source, target=DOOR, payload=Payload.TOKENS, unit=Unit.TOKEN, unit_bytes=4, stream=True, chunk_units=1
    )


def _edge_name(edge: EdgeDraft) -> str:
    return f"{edge.source}-{edge.target}.{edge.payload}"


def _edge(edge: EdgeDraft) -> Edge:
    return Edge(
        name=_edge_name(edge), source=edge.source, target=edge.target, payload=edge.payload, required=edge.required
    )


def _flow(edge: EdgeDraft) -> Flow:
    return Flow(
        edge=_edge_name(edge),
        unit=edge.unit,
        unit_bytes=edge.unit_bytes,
        stream=edge.stream,
        chunk_units=edge.chunk_units,
    )
