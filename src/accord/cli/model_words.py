"""The words of `accord model`: the graph as a drawing, its stages, weights, caches and work as tables.

In: a `Summary`. Out: lines of plain text. Invariant: every figure comes from the summary; the drawing gives way to
fewer words, or to a list, on a narrow terminal.
"""

import textwrap
from collections.abc import Iterable, Iterator

from accord.cli.drawing import Arrow, Box, draw
from accord.cli.model_cache import cache_lines, page_lines
from accord.cli.table import Rows, article, count, flops, plural, ratio, size, table_lines
from accord.estimate.summary import StageRow, StepRow, Summary
from accord.terms import units
from accord.terms.architecture import Flow
from accord.terms.graph import DOOR, Edge
from accord.terms.refusal import Refusal
from accord.terms.tensors import Dtype, Quantization
from accord.terms.work import OperatorClass

_CLASSES = {OperatorClass.CONVOLUTION: "conv"}
_PORTIONS_MAX = 8
_STREAM = " »"


def summary_lines(found: Summary, *, source: str, words: str, width: int) -> Iterator[str]:
    """All of it, section by section."""
    made = found.architecture
    yield f"  Model  {made.name}"
    yield f"    {made.family}: {words}"
    yield from wrapped([f"from {source}"], width)
    yield ""
    yield from graph_lines(found, width=width)
    yield from _section("Stages", table_lines(_stage_table(found), width=width), _totals(found, width))
    yield from _section("Weights as published, in portions", table_lines(_portion_table(found), width=width, keys=2))
    if found.example.ranks is not None:
        yield from _section(f"On each of {found.example.ranks} tensor-parallel ranks", _rank_lines(found, width))
    yield from cache_lines(found, width)
    yield from page_lines(found, width)
    yield from _section("One example request", table_lines(_step_table(found), width=width, keys=3))
    rules = [f"{row.stage}: {rule.words}" for row in made.needs for rule in row.constraints]
    yield from _section("Constraints", wrapped(rules, width)) if rules else ()
    yield from _section("Remarks", wrapped(made.remarks, width)) if made.remarks else ()
    if made.unread:
        keys = f"nobody reads these, and they could matter: {', '.join(made.unread)}"
        yield from _section("Keys of the card", wrapped([keys], width))


def graph_lines(found: Summary, *, width: int) -> Iterator[str]:
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
            break
    else:
        yield from (f"  {edge.source} ─▶ {edge.target}: {_edge_words(edge, flow)}" for edge, flow in edges)
    chunks = [f"in chunks of {flow.chunk_units:,} from {edge.source}" for edge, flow in edges if _chunked(flow)]
    if any(flow.stream for _, flow in edges):
        words = f"({_STREAM.strip()} streamed{''.join(f', {chunk}' for chunk in chunks)}; the others are one payload)"
        yield from textwrap.wrap(words, max(40, width), initial_indent="  ", subsequent_indent="  ")


def wrapped(lines: Iterable[str], width: int) -> Iterator[str]:
    """Long sentences, broken and indented."""
    for line in lines:
        yield from textwrap.wrap(
            line,
            max(40, width),
            initial_indent="    ",
            subsequent_indent="      ",
            break_long_words=False,  # addresses can be copied
            break_on_hyphens=False,
        )


def _section(title: str, *parts: Iterable[str]) -> Iterator[str]:
    yield ""
    yield f"  {title}"
    for lines in parts:
        yield from lines


def _end(name: str) -> str | None:
    return None if name == DOOR else name


def _chunked(flow: Flow) -> bool:
    return flow.chunk_units is not None and flow.chunk_units > 1


def _edge_words(edge: Edge, flow: Flow) -> str:
    return f"{edge.payload}, {size(flow.unit_bytes)} {article(flow.unit)}{_STREAM if flow.stream else ''}"


def _few_edge_words(edge: Edge, flow: Flow) -> str:
    return f"{edge.payload} {size(flow.unit_bytes)}{_STREAM if flow.stream else ''}"


def _box_lines(row: StageRow) -> tuple[str, ...]:
    lines = (
        f"{'+'.join(row.stage.capabilities)}, {row.stage.batching}",
        f"{count(row.needs.parameters)} parameters, {size(row.stored_bytes)}",
    )
    if not row.cache:
        return lines
    held = size(row.cache_bytes(row.usual_tokens, Dtype.BF16))
    return (*lines, f"{held} for {plural(row.usual_tokens, row.needs.unit)}")


def _stage_table(found: Summary) -> Rows:
    rows: Rows = [("stage", "does", "batching", "unit", "parameters", "published", "in bf16", "stored as")]
    for row in found.stages:
        kinds = [kind for kind in row.quantizations if kind is not Quantization.NONE]
        rows.append(
            (
                row.stage.name,
                "+".join(row.stage.capabilities),
                row.stage.batching,
                row.needs.unit,
                count(row.needs.parameters),
                size(row.stored_bytes),
                size(row.bf16_bytes),
                " + ".join([*kinds, "plain"]),
            )
        )
    return rows


def _totals(found: Summary, width: int) -> Iterator[str]:
    published = found.stored_bytes
    whole = (
        f"{found.architecture.parameters:,} parameters; {size(published)} "
        f"({units.megabytes(published) / 1e3:,.2f} GB) as published, {size(found.bf16_bytes)} in bf16"
    )
    others = ", ".join(f"{kind} {size(held)}" for kind, held in found.other_bytes)
    yield from wrapped((whole, f"all matrices that allow it in {others}"), width)


def _portion_table(found: Summary) -> Rows:
    rows: Rows = [("stage", "portion", "count", "parameters each", "bytes each", "bytes")]
    for row in found.stages:
        for portion in row.portions[:_PORTIONS_MAX]:
            held = portion.count * portion.stored_bytes
            each = (count(portion.parameters), size(portion.stored_bytes))
            rows.append((row.stage.name, portion.name, f"{portion.count:,}", *each, size(held)))
        left = row.portions[_PORTIONS_MAX:]
        if left:
            held = sum(portion.count * portion.stored_bytes for portion in left)
            number = sum(portion.count for portion in left)
            rows.append((row.stage.name, "others, all unlike", f"{number:,}", "-", "-", size(held)))
    return rows


def _rank_lines(found: Summary, width: int) -> Iterator[str]:
    rows: Rows = [("stage", "weights", "of them held twice", "padding", "a request in bf16")]
    refused = []
    for row in found.stages:
        if row.rank is None:
            continue
        held = size(row.rank.request_bytes) if row.cache else "-"
        match row.rank.shares:
            case Refusal() as refusal:
                rows.append((row.stage.name, "-", "-", "-", held))
                refused.append(f"{row.stage.name}: {refusal.value}: {refusal.limit}; {' or '.join(refusal.fix)}")
            case share:
                ranks = found.example.ranks or 1
                twice, padding = share.duplicate_bytes / ranks, share.padding_bytes / ranks
                extra = [size(part) if part else "-" for part in (twice, padding)]
                rows.append((row.stage.name, size(share.largest_bytes), *extra, held))
    yield from table_lines(rows, width=width)
    yield from wrapped(refused, width)


def _step_table(found: Summary) -> Rows:
    steps = [(row, step) for row in found.stages for step in row.steps]
    kinds = [kind for kind in OperatorClass if any(step.flops(kind) for _, step in steps)]
    head = (*(_CLASSES.get(kind, kind) for kind in kinds), "moved", "FLOP/B")
    rows: Rows = [("stage", "step", "of", "FLOPs", *head)]
    for row, step in steps:
        figures = [flops(step.flops(kind)) if step.flops(kind) else "-" for kind in kinds]
        moved = size(step.traffic.moved_bytes)
        whole = (flops(step.traffic.flops), *figures, moved, ratio(step.traffic.intensity))
        rows.append((row.stage.name, step.phase, _load_words(row, step), *whole))
    return rows


def _load_words(row: StageRow, step: StepRow) -> str:
    batch = f"{step.load.batch} x " if step.load.batch > 1 else ""
    context = f" after {step.load.context:,}" if step.load.context else ""
    return f"{batch}{plural(step.load.new, row.needs.unit)}{context}"
