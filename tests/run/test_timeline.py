"""The time line: valid trace events that nest, and critical paths that add up. Percentiles as numpy has them."""

import json
from collections import Counter, deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.run.attribution import ACTIVITIES
from accord.run.control import Span, Spans
from accord.run.gauges import percentile
from accord.run.timeline import RequestTrace, chrome_trace, critical_path
from accord.terms.graph import DOOR, Batching, Capability, Edge, Payload, Stage, StageGraph
from accord.terms.request import StageSpan

GRAPH = StageGraph(
    model="talker",
    stages=tuple(
        Stage(name=name, capabilities=(Capability.PREPROCESS,), batching=Batching.PLAIN)
        for name in ("hear", "see", "think", "speak")
    ),
    edges=tuple(
        Edge(name=f"{s}-{t}", source=s, target=t, payload=Payload.TEXT)
        for s, t in (
            (DOOR, "hear"), (DOOR, "see"), ("hear", "think"), ("see", "think"), ("think", DOOR), ("think", "speak"),
            ("speak", DOOR),
        )
    ),
)  # fmt: skip
MS = 1_000_000
# What each event of the trace event format must have, by its phase (Trace Event Format, Chromium project).
REQUIRED = {
    "X": {"name", "cat", "ph", "ts", "dur", "pid", "tid"},
    "b": {"name", "cat", "ph", "ts", "pid", "tid", "id"},
    "e": {"name", "cat", "ph", "ts", "pid", "tid", "id"},
    "n": {"name", "cat", "ph", "ts", "pid", "tid", "id"},
    "M": {"name", "ph", "pid", "args"},
}


def _span(stage: str, *times_ms: int, busy_ms: int = 1) -> StageSpan:
    opened, first_input, first_output, ended = (time * MS for time in times_ms)
    return StageSpan(
        stage=stage,
        replica=0,
        opened_ns=opened,
        first_input_ns=first_input,
        first_output_ns=first_output,
        ended_ns=ended,
        busy_ns=busy_ms * MS,
    )


def _trace(*spans: StageSpan, arrived_ms: int = 100, ended_ms: int = 1000, edges: tuple[int, ...]) -> RequestTrace:
    return RequestTrace(
        rid=7,
        arrived_ns=arrived_ms * MS,
        launched_ns=arrived_ms * MS,
        first_text_ns=0,
        first_audio_ns=0,
        ended_ns=ended_ms * MS,
        edges=edges,
        complete=True,
        spans=spans,
    )


@st.composite
def traces(draw: st.DrawFn) -> RequestTrace:
    """A request whose stages did things in a possible order: opened, first input, first output, ended; or never."""
    arrived = draw(st.integers(1, 10**6))
    spans = []
    for stage in draw(st.sets(st.sampled_from(("hear", "see", "think", "speak")))):
        times = sorted(draw(st.lists(st.integers(arrived, arrived + 10**6), min_size=4, max_size=4)))
        came, went = draw(st.sampled_from(((1, 1), (1, 0), (0, 0), (0, 1))))
        spans.append(
            StageSpan(
                stage=stage,
                replica=draw(st.integers(0, 3)),
                opened_ns=times[0],
                first_input_ns=times[1] * came,
                first_output_ns=times[2] * went,
                ended_ns=times[3],
                busy_ns=draw(st.integers(0, times[3] - times[0])),
            )
        )
    return RequestTrace(
        rid=draw(st.integers(1, 1 << 40)),
        arrived_ns=arrived,
        launched_ns=arrived,
        first_text_ns=draw(st.sampled_from((0, arrived + 5))),
        first_audio_ns=0,
        ended_ns=arrived + 2 * 10**6,
        edges=tuple(range(len(GRAPH.edges))),
        complete=draw(st.booleans()),
        spans=tuple(spans),
    )


activity_spans = st.builds(
    Span,
    activity=st.integers(0, len(ACTIVITIES) - 1),
    start_ns=st.integers(0, 1 << 60),
    length_ns=st.integers(0, 1 << 40),
)


@given(
    names=st.dictionaries(st.integers(0, 20), st.text(min_size=1, max_size=8), max_size=4),
    requests=st.lists(traces(), max_size=3, unique_by=lambda trace: trace.rid),
    spans=st.lists(activity_spans, max_size=4),
)
def test_a_trace_is_valid_and_everything_that_begins_ends(
    names: dict[int, str], requests: list[RequestTrace], spans: list[Span]
) -> None:
    kept = {node: Spans(ticket=1, spans=spans, last=True) for node in list(names)[:1]}
    document = json.loads(chrome_trace(names, kept, tuple(requests)))
    events = document["traceEvents"]
    for event in events:
        assert REQUIRED[event["ph"]] <= set(event), event
        assert event.get("ts", 0) >= 0
        assert event.get("dur", 0) >= 0
    named = {event["pid"] for event in events if event["ph"] == "M"}
    assert {event["pid"] for event in events} <= named, "every process has a name"
    _check_nesting([event for event in events if event["ph"] in "be"])


def _check_nesting(events: list[dict[str, object]]) -> None:
    """Events of one category and id are one stack: the format nests them, so they must not cross."""
    stacks: dict[tuple[object, object], list[tuple[float, float]]] = {}
    begun = Counter((event["cat"], event["id"], event["name"]) for event in events if event["ph"] == "b")
    ended = Counter((event["cat"], event["id"], event["name"]) for event in events if event["ph"] == "e")
    assert begun == ended
    open_ones: dict[tuple[object, object, object], float] = {}
    for event in events:
        key = (event["cat"], event["id"], event["name"])
        at = float(str(event["ts"]))
        if event["ph"] == "b":
            open_ones[key] = at
        else:
            began = open_ones.pop(key)
            assert began <= at
            stacks.setdefault(key[:2], []).append((began, at))
    for slices in stacks.values():
        for one in slices:
            for other in slices:
                assert not one[0] < other[0] < one[1] < other[1], f"{one} and {other} cross"


def test_times_are_microseconds() -> None:
    trace = _trace(_span("think", 110, 120, 150, 900), edges=(2, 4))
    events = json.loads(chrome_trace({}, {}, (trace,)))["traceEvents"]
    begins = {event["name"]: event["ts"] for event in events if event["ph"] == "b"}
    assert begins == {"request 7": 100_000, "think/0": 110_000, "to first output": 120_000}


@given(traces())
def test_the_legs_of_a_critical_path_add_up(trace: RequestTrace) -> None:
    for output, last in (("think-door", "think"), ("speak-door", "speak")):
        span = next((span for span in trace.spans if span.stage == last), None)
        legs = critical_path(GRAPH, trace, output)
        if span is None:
            assert legs == ()
        elif span.first_output_ns:
            total_s = (span.first_output_ns - trace.arrived_ns) / 1e9
            assert sum(leg.took_s for leg in legs) == pytest.approx(total_s, abs=1e-9)
            assert all(leg.took_s >= 0 for leg in legs)
            assert legs[-1].stage == last


def test_the_path_goes_through_the_input_that_came_last() -> None:
    spans = (
        _span("hear", 100, 101, 300, 310, busy_ms=150),
        _span("see", 100, 101, 200, 210, busy_ms=90),
        _span("think", 100, 200, 450, 900, busy_ms=100),
        _span("speak", 100, 450, 500, 950, busy_ms=40),
    )
    legs = critical_path(GRAPH, _trace(*spans, edges=tuple(range(7))), "speak-door")
    assert [(leg.stage, leg.took_s, leg.busy_s) for leg in legs] == [
        ("hear", 0.2, 0.15),
        ("think", 0.15, 0.1),
        ("speak", 0.05, 0.04),
    ]


def test_an_input_that_came_too_late_is_not_on_the_path() -> None:
    spans = (_span("hear", 100, 101, 300, 310), _span("see", 100, 101, 800, 810), _span("think", 100, 300, 450, 900))
    legs = critical_path(GRAPH, _trace(*spans, edges=(0, 1, 2, 3, 4)), "think-door")
    assert [leg.stage for leg in legs] == ["hear", "think"]


@given(
    samples=st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=200),
    rank=st.one_of(st.sampled_from((0, 50, 55, 90, 95, 99, 99.9, 100)), st.floats(0, 100)),
)
def test_percentiles_are_numpys_inverted_cdf(samples: list[float], rank: float) -> None:
    assert percentile(deque(samples), rank) == np.percentile(samples, rank, method="inverted_cdf")


def test_no_samples_have_no_percentile() -> None:
    assert percentile(deque(), 50) is None
