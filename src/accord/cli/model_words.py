"""The words of `accord model`: the graph as a drawing, its stages, caches and work as tables.

In: a `Summary`. Out: lines of plain text. Invariant: every figure comes from the summary; nothing is wider than it
must be, and the drawing gives way to a list on a narrow terminal.
"""

from collections.abc import Iterable

from accord.cli.drawing import Arrow, Box, draw
from accord.estimate.summary import StageRow, StepRow, Summary
from accord.terms import units
from accord.terms.architecture import Flow
from accord.terms.cache import CacheGroup, CacheKind
from accord.terms.graph import DOOR, Edge
from accord.terms.tensors import Dtype, Quantization
from accord.terms.work import OperatorClass

Rows = list[tuple[str, ...]]

_KINDS = {
    CacheKind.FULL: "full",
    CacheKind.WINDOW: "window",
    CacheKind.CHUNK: "chunk",
    CacheKind.LATENT: "latent",
    CacheKind.INDEX: "index keys",
    CacheKind.COMPRESSED: "compressed",
    CacheKind.STATE: "state",
    CacheKind.CROSS: "cross",
}


def summary_lines(found: Summary, *, source: str, words: str, width: int) -> Iterable[str]:
    """All of it, section by section."""
    made = found.architecture
    yield f"  Model  {made.name}   {made.family}: {words}"
    yield f"         {source}"
    yield ""
    yield from graph_lines(found, width=width)
    yield ""
    yield "  Stages"
    yield from table_lines(_stage_table(found))
    yield f"    {_total(found)}"
    if any(row.cache for row in found.stages):
        yield ""
        yield "  Cache of a request, by group of layers"
        yield from table_lines(_cache_table(found))
        yield from (f"    {line}" for line in _cache_totals(found))
    yield ""
    yield "  One example request"
    yield from table_lines(_step_table(found))
    yield from _notes(found)


def graph_lines(found: Summary, *, width: int) -> Iterable[str]:
    """The drawing; with fewer words, or as a list of edges, where it is wider than the terminal."""
    graph = found.architecture.graph
    boxes = [Box(name=row.stage.name, lines=_box_lines(row)) for row in found.stages]
    edges = tuple(zip(graph.edges, found.architecture.flows, strict=True))
    for said in (_edge_words, _few_edge_words):
        arrows = [
            Arrow(source=_end(edge.source), target=_end(edge.target), words=said(edge, flow)) for edge, flow in edges
        ]
        lines = draw(boxes, arrows)
        if max(map(len, lines)) + 2 <= width:
            yield from (f"  {line}" for line in lines)
            return
    yield from (f"  {edge.source} ─▶ {edge.target}: {_edge_words(edge, flow)}" for edge, flow in edges)


def table_lines(rows: Rows) -> Iterable[str]:
    """A table whose first row is its heading; figures, and their headings, stand to the right."""
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    right = [all(cell[:1].isdigit() or cell in ("", "-") for cell in column[1:]) for column in columns]
    for row in rows:
        cells = zip(row, widths, right, strict=True)
        yield "    " + "  ".join(c.rjust(w) if to_right else c.ljust(w) for c, w, to_right in cells).rstrip()


def count(number: float) -> str:
    """A count for people: "30.5B" is 30.5 billion."""
    for size, unit in ((1e15, "P"), (1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{_three(number / size)}{unit}"
    return f"{number:.0f}"


def size(size_bytes: float) -> str:
    """Bytes for people, with three digits."""
    return units.format_size_bytes(round(size_bytes), digits=3)


def flops(number: float) -> str:
    """FLOPs for people."""
    for factor, unit in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= factor:
            return f"{_three(number / factor)}{unit}"
    return f"{number:.0f}"


def _three(number: float) -> str:
    return f"{number:.0f}" if number >= 99.95 else f"{number:.3g}"


def _end(name: str) -> str | None:
    return None if name == DOOR else name


def _edge_words(edge: Edge, flow: Flow) -> str:
    each = f"{edge.payload}, {size(flow.unit_bytes)} a {flow.unit}"
    if not flow.stream:
        return each
    chunk = flow.chunk_units
    return f"{each}, {'streamed' if chunk in (None, 1) else f'in chunks of {chunk}'}"


def _few_edge_words(edge: Edge, flow: Flow) -> str:
    return f"{edge.payload} {size(flow.unit_bytes)}"


def _box_lines(row: StageRow) -> tuple[str, ...]:
    capabilities = "+".join(row.stage.capabilities)
    lines = [f"{capabilities}, {row.stage.batching}", f"{count(row.parameters)} parameters", size(row.stored_bytes)]
    lines[1:] = [f"{lines[1]}, {lines[2]}"]
    if row.cache:
        lines.append(f"{size(row.cache_bytes(row.usual_tokens, Dtype.BF16))} a request")
    return tuple(lines)


def _stage_table(found: Summary) -> Rows:
    rows: Rows = [("stage", "does", "batching", "unit", "parameters", "weights as published", "in bf16", "stored")]
    for row in found.stages:
        rows.append(
            (
                row.stage.name,
                "+".join(row.stage.capabilities),
                row.stage.batching,
                row.needs.unit,
                count(row.parameters),
                size(row.stored_bytes),
                size(row.bf16_bytes),
                _stored_words(row),
            )
        )
    return rows


def _stored_words(row: StageRow) -> str:
    kinds = [kind for kind in row.quantizations if kind is not Quantization.NONE]
    return " + ".join([*kinds, "plain"])


def _total(found: Summary) -> str:
    published = found.stored_bytes
    return (
        f"{found.parameters:,} parameters; {size(published)} ({units.megabytes(published) / 1e3:,.2f} GB) "
        f"as published, {size(found.bf16_bytes)} in bf16"
    )


def _cache_table(found: Summary) -> Rows:
    full = found.architecture.context_max
    head = ("stage", "layers", "kind", "entry", "a token: bf16", "fp8", "a request: bf16", "fp8")
    rows: Rows = [(*head, f"at {full:,}: bf16", "fp8") if full else head]
    for stage in found.stages:
        for row in stage.cache:
            cells = (
                row.stage,
                str(len(row.group.layers)),
                _kind_words(row.group),
                _entry_words(row.group),
                *(size(figure) if figure else "-" for figure in row.token_bytes),
                *(size(figure) for figure in row.usual_bytes),
            )
            rows.append((*cells, *(size(figure) for figure in row.full_bytes)) if row.full_bytes else cells)
    return rows


def _kind_words(group: CacheGroup) -> str:
    words = _KINDS[group.kind]
    if group.window is not None:
        words += f" {group.window}"
    return f"{words}, 1 in {group.ratio}" if group.ratio > 1 else words


def _entry_words(group: CacheGroup) -> str:
    if group.kind is CacheKind.STATE:
        return f"{count(group.state_values)} {group.state_dtype}"
    heads = f"{group.heads} x " if group.heads > 1 else ""
    sides = str(group.key_dim) if not group.value_dim else f"({group.key_dim} + {group.value_dim})"
    return heads + sides


def _cache_totals(found: Summary) -> Iterable[str]:
    for row in found.stages:
        if not row.cache:
            continue
        usual = ", ".join(f"{size(row.cache_bytes(row.usual_tokens, dtype))} in {dtype}" for dtype in _CACHE)
        line = f"{row.stage.name}: {row.usual_tokens:,} {row.needs.unit}s keep {usual}"
        full = found.architecture.context_max
        if full is not None:
            line += f"; {full:,} keep {', '.join(size(row.cache_bytes(full, dtype)) for dtype in _CACHE)}"
        yield line


_CACHE = (Dtype.BF16, Dtype.FP8)


def _step_table(found: Summary) -> Rows:
    steps = [step for row in found.stages for step in row.steps]
    kinds = [kind for kind in OperatorClass if any(kind == name for step in steps for name, _ in step.flops)]
    rows: Rows = [("stage", "step", "of", "FLOPs", *kinds)]
    for step in steps:
        by_kind = dict(step.flops)
        figures = (flops(by_kind[kind]) if kind in by_kind else "-" for kind in kinds)
        rows.append((step.stage, step.phase, _load_words(found, step), flops(step.flops_total), *figures))
    return rows


def _load_words(found: Summary, step: StepRow) -> str:
    unit = found.architecture.of(step.stage).unit
    batch = f"{step.load.batch} x " if step.load.batch > 1 else ""
    context = f" after {step.load.context:,}" if step.load.context else ""
    return f"{batch}{step.load.new:,} {unit}{'s' if step.load.new > 1 else ''}{context}"


def _notes(found: Summary) -> Iterable[str]:
    made = found.architecture
    rules = [f"{row.stage}: {rule.words}" for row in made.needs for rule in row.constraints]
    for title, lines in (("Constraints", rules), ("Remarks", made.remarks)):
        if lines:
            yield ""
            yield f"  {title}"
            yield from (f"    {line}" for line in lines)
    if made.unread:
        yield ""
        yield f"  Nobody reads these keys of the card, and they could matter: {', '.join(made.unread)}"
