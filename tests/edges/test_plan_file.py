"""A plan as a file: what is written is read back, and what is damaged is named."""

import contextlib
import dataclasses

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from accord.edges.plan_file import dump_plan, load_plan, plan_from_text, save_plan
from accord.models import embedded
from accord.terms.errors import BadInput, BrokenEdge
from accord.terms.estimate import Estimate, Source
from accord.terms.intent import Metric, Objective
from accord.terms.plan import AdmissionLimits, Plan, StagePlan

FIGURES = st.floats(min_value=1e-9, max_value=1e12)
WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=12)


def plan(*, word="a", figure=0.1, count=3):
    graph = embedded.graph()
    stages = tuple(
        StagePlan(
            stage=stage.name,
            engine=word,
            device="cpu",
            threads=count,
            replicas=1,
            batch_max=count,
            memory_bytes=count,
            arena_bytes=1 << 24,
            assets=(word,),
            options=((word, word),),
            work=Estimate(value=figure, unit=word, source=Source.MEASURED, uncertainty=figure),
        )
        for stage in graph.stages
    )
    admission = AdmissionLimits(active_max=count, queue_max=count, queue_s_max=figure)
    objectives = (Objective(metric=Metric.TTFT, percentile=50, bound=figure),)
    return Plan(name=word, graph=graph, stages=stages, admission=admission, objectives=objectives, deterministic=True)


@given(WORDS, FIGURES, st.integers(1, 1 << 30))
def test_a_plan_survives_its_text(word, figure, count):
    made = plan(word=word, figure=figure, count=count)
    assert plan_from_text(dump_plan(made)) == made


@pytest.mark.parametrize(
    "word", ["yes", "1", "1e3", "null", "~", "2026-11-30", "0x10", "- a", "#", "a: b", "'", "é", "  "]
)
def test_words_that_yaml_reads_as_something_else(word):
    assert plan_from_text(dump_plan(plan(word=word))) == plan(word=word)


def test_a_plan_survives_its_file(tmp_path):
    save_plan(plan(), tmp_path / "plan.yaml")
    assert load_plan(tmp_path / "plan.yaml") == plan()
    assert [path.name for path in tmp_path.iterdir()] == ["plan.yaml"]


def test_a_file_that_cannot_be_written(tmp_path):
    with pytest.raises(BrokenEdge, match="writable"):
        save_plan(plan(), tmp_path / "none" / "plan.yaml")


def edited(change):
    document = yaml.safe_load(dump_plan(plan()))
    change(document)
    return yaml.safe_dump(document)


def setter(*path):
    *way, last, value = path

    def change(document):
        for key in way:
            document = document[key]
        document[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "field", "says"),
    [
        (setter("accord", 2), "accord", "write `accord: 1`"),
        (setter("plans", 2), "plans", "did you mean plan?"),
        (setter("plan", "stages", 0, "threads", 0), "plan.stages.recognizer.threads", "1 or more"),
        (setter("plan", "stages", 0, "threads", "two"), "plan.stages[0].threads", "int"),
        (setter("plan", "stages", 0, "thread", 2), "plan.stages[0].thread", "unknown field"),
        (setter("plan", "stages", 0, "arena_bytes", -1), "plan.stages.recognizer.arena_bytes", "out of range"),
        (setter("plan", "stages", 0, "batch_max", 1 << 60), "plan.stages.recognizer.batch_max", "out of range"),
        (setter("plan", "stages", []), "plan", "don't match"),
        (setter("plan", "graph", "edges", 0, "target", "nowhere"), "plan.graph", "joins"),
        (setter("plan", "graph", "edges", 0, "payload", "smell"), "plan.graph.edges[0].payload", "smell"),
        (setter("plan", "admission", "queue_s_max", float("nan")), "plan.admission.queue_s_max", "out of range"),
        (setter("plan", "admission", "active_max", 0), "plan.admission.active_max", "out of range"),
        (setter("plan", None), "plan", "object"),
        (lambda document: document.pop("plan"), "plan", "required"),
        (lambda document: document["plan"].pop("stages"), "plan", "stages"),
    ],
)
def test_an_edited_plan_is_checked(change, field, says):
    with pytest.raises(BadInput) as caught:
        plan_from_text(edited(change))
    assert caught.value.field == field
    assert says in str(caught.value)


def test_defaults_may_be_left_out():
    document = yaml.safe_load(dump_plan(plan()))
    del document["plan"]["stages"][0]["options"]
    short = plan_from_text(yaml.safe_dump(document))
    assert short.stages[0] == dataclasses.replace(plan().stages[0], options=())


@given(st.text(max_size=200) | st.text(max_size=100).map(lambda text: f"accord: 1\nplan: {text}"))
def test_any_text_is_a_plan_or_refused(text):
    with contextlib.suppress(BadInput):
        plan_from_text(text)


@given(st.data())
def test_a_damaged_plan_is_read_or_refused(data):
    """One value anywhere is replaced by another."""
    document = yaml.safe_load(dump_plan(plan()))
    place = document
    while isinstance(place, dict | list) and place:
        keys = list(place) if isinstance(place, dict) else range(len(place))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(place[key], dict | list) or data.draw(st.booleans()):
            place[key] = data.draw(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5))
            break
        place = place[key]
    with contextlib.suppress(BadInput):
        plan_from_text(yaml.safe_dump(document))
