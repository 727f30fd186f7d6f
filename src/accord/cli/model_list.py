"""`accord model --list`, and the one model that has no card: the embedded one.

In: the catalog, or a graph of stages that were measured. Out: lines of words, or plain values for `json`.
"""

from collections.abc import Iterable, Mapping

from accord.cli.drawing import Arrow, Box, draw
from accord.cli.table import Rows, count, size, table_lines
from accord.edges import model_catalog
from accord.edges.model_catalog import Entry
from accord.models import catalog
from accord.models.card import Json
from accord.models.families.table import FAMILIES
from accord.models.read import read_card
from accord.terms.graph import DOOR, StageGraph

_ANY = 1 << 16  # the last column is a sentence: it may run on


def list_lines() -> Iterable[str]:
    """The catalog and the families, as two tables."""
    rows: Rows = [("name", "family", "parameters", "figures from")]
    for entry in _entries():
        made = read_card(entry.card, name=entry.name)
        rows.append((entry.name, made.family, count(made.parameters), entry.source))
    yield "  Models of the catalog"
    yield from table_lines(rows, width=_ANY)
    yield f"    and {', '.join(catalog.MODELS)}, which runs on any machine (`accord demo`)"
    yield ""
    yield "  Families"
    yield from table_lines(_families(), width=_ANY)


def list_json() -> Mapping[str, Json]:
    """The same as one document."""
    models: list[Json] = []
    for entry in _entries():
        made = read_card(entry.card, name=entry.name)
        models.append(
            {"model": entry.name, "family": made.family, "parameters": made.parameters, "source": entry.source}
        )
    families: list[Json] = [
        {"family": family.name, "words": family.words, "model_types": list(family.model_types)} for family in FAMILIES
    ]
    return {"models": models, "embedded": list(catalog.MODELS), "families": families}


def embedded_lines(graph: StageGraph) -> Iterable[str]:
    """A measured model: what its replicas hold."""
    boxes = [
        Box(
            name=stage.name,
            lines=(
                f"{'+'.join(stage.capabilities)}, {stage.batching}",
                f"{size(stage.weights_bytes)}, {size(stage.request_bytes)} a request",
            ),
        )
        for stage in graph.stages
    ]
    arrows = [
        Arrow(source=_end(edge.source), target=_end(edge.target), words=f"{edge.name}: {edge.payload}")
        for edge in graph.edges
    ]
    yield f"  Model  {graph.model}   bytes are what replicas were seen to hold"
    yield ""
    yield from (f"  {line}" for line in draw(boxes, arrows))


def embedded_json(graph: StageGraph) -> Mapping[str, Json]:
    """The same as one document."""
    return {
        "model": graph.model,
        "family": "embedded",
        "stages": [
            {
                "stage": stage.name,
                "capabilities": [str(item) for item in stage.capabilities],
                "batching": str(stage.batching),
                "resident_bytes": stage.weights_bytes,
                "request_bytes": stage.request_bytes,
            }
            for stage in graph.stages
        ],
        "edges": [
            {"edge": edge.name, "source": edge.source, "target": edge.target, "payload": str(edge.payload)}
            for edge in graph.edges
        ],
    }


def _families() -> Rows:
    return [("family", "reads"), *((family.name, family.words) for family in FAMILIES)]


def _entries() -> Iterable[Entry]:
    return (model_catalog.entry(name) for name in model_catalog.names())


def _end(name: str) -> str | None:
    return None if name == DOOR else name
