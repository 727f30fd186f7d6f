"""The time line of a service, in the Chrome trace event format, and where one request's time went.

In: replicas' spans and requests' traces. Out: JSON bytes (open in ui.perfetto.dev), and paths.
Source of the format: "Trace Event Format", Chromium project. Invariant: every event that begins ends.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from accord.run.attribution import ACTIVITIES
from accord.run.control import Span, Spans
from accord.terms.graph import DOOR, StageGraph
from accord.terms.request import StageSpan

_REQUESTS_PID = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTrace:
    """One launch of a request, at the door and in each stage. Times in ns of CLOCK_MONOTONIC, 0 for never."""

    rid: int
    arrived_ns: int
    launched_ns: int
    first_text_ns: int
    first_audio_ns: int
    ended_ns: int
    edges: tuple[int, ...]
    complete: bool
    spans: tuple[StageSpan, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """A part of the way to a request's first output: until `stage` gave its first chunk."""

    stage: str
    took_s: float
    busy_s: float


def critical_path(graph: StageGraph, trace: RequestTrace, output: str) -> tuple[Leg, ...]:
    """How the first chunk of `output` (an edge into the door) came about, stage by stage.

    Each stage waited for the last of the inputs that came before its first output: the path goes back along
    these. The legs add up to the time from arrival to the first chunk.
    """
    spans = {span.stage: span for span in trace.spans}
    used = [graph.edges[number] for number in trace.edges]
    stage = next((edge.source for edge in used if edge.name == output), DOOR)
    legs: list[Leg] = []
    while stage in spans:
        span = spans[stage]
        before = [
            edge.source
            for edge in used
            if edge.target == stage
            and edge.source in spans
            and 0 < spans[edge.source].first_output_ns <= span.first_output_ns
        ]
        previous = max(before, key=lambda name: spans[name].first_output_ns, default=None)
        began = trace.arrived_ns if previous is None else spans[previous].first_output_ns
        legs.append(Leg(stage=stage, took_s=(span.first_output_ns - began) / 1e9, busy_s=span.busy_ns / 1e9))
        stage = previous if previous is not None else DOOR
    return tuple(reversed(legs))


def chrome_trace(names: Mapping[int, str], spans: Mapping[int, Spans], traces: tuple[RequestTrace, ...]) -> bytes:
    """All that is known, as one JSON document. Times in microseconds."""
    events: list[dict[str, object]] = []
    for node, name in names.items():
        events.append(_named(node, f"replica {name}"))
        if node in spans:
            events.extend(_activity_event(node, span) for span in spans[node].spans)
    events.append(_named(_REQUESTS_PID, "requests"))
    for trace in traces:
        events.extend(_request_events(trace))
    return msgspec.json.encode({"displayTimeUnit": "ms", "traceEvents": events})


def _activity_event(node: int, span: Span) -> dict[str, object]:
    return {
        "ph": "X",
        "name": ACTIVITIES[span.activity].value,
        "cat": "activity",
        "pid": node,
        "tid": 1,
        "ts": span.start_ns / 1e3,
        "dur": span.length_ns / 1e3,
    }


def _named(pid: int, name: str) -> dict[str, object]:
    return {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}


def _request_events(trace: RequestTrace) -> list[dict[str, object]]:
    request = str(trace.rid)
    events = _pair(request, f"request {trace.rid}", trace.arrived_ns, trace.ended_ns)
    for span in trace.spans:
        # Events of one id are drawn inside each other, and stages overlap without nesting: an id for each.
        name = f"{span.stage}/{span.replica}"
        events += _pair(f"{request}/{name}", name, span.opened_ns, span.ended_ns)
        if span.first_input_ns and span.first_output_ns:
            events += _pair(f"{request}/{name}", "to first output", span.first_input_ns, span.first_output_ns)
    for label, at in (("first text", trace.first_text_ns), ("first audio", trace.first_audio_ns)):
        if at:
            events.append(_event("n", request, label, at))
    return events


def _pair(tree: str, name: str, start_ns: int, end_ns: int) -> list[dict[str, object]]:
    return [_event("b", tree, name, start_ns), _event("e", tree, name, max(start_ns, end_ns))]


def _event(phase: str, tree: str, name: str, at_ns: int) -> dict[str, object]:
    return {
        "ph": phase,
        "cat": "request",
        "id": tree,
        "name": name,
        "pid": _REQUESTS_PID,
        "tid": 1,
        "ts": at_ns / 1e3,
    }
