"""A fleet's plan as a file: what is written is read back, and what is damaged is named."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from accord.edges.fleet_plan_file import dump_fleet_plan, fleet_plan_from_text, load_fleet_plan, save_fleet_plan
from accord.terms.errors import BadInput, BrokenEdge
from accord.terms.fleet import Codec
from accord.terms.fleet_plan import FleetPlan, Parallel, Pool, Role
from accord.terms.gang import Apart, Bandwidth, Gang, Need, Part, Scope, Seat, Together
from accord.terms.graph import Batching, Capability, Stage, StageGraph
from accord.terms.intent import Metric, Objective
from accord.terms.tensors import Dtype, Quantization

PLANS = sorted((Path(__file__).parents[2] / "examples" / "plans").glob("*.yaml"))
WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1).filter(str.strip)
FIGURES = st.floats(0, 1e15)
COUNTS = st.integers(1, 4)


@st.composite
def plans(draw):
    names = draw(st.lists(WORDS, min_size=1, max_size=3, unique=True))
    graph = StageGraph(
        model=draw(WORDS),
        stages=(Stage(name="s", capabilities=(Capability.AR,), batching=Batching.CONTINUOUS, weights_bytes=7),),
        edges=(),
    )
    pools, parts, seats = [], [], []
    for name in names:
        replicas, nodes = draw(COUNTS), draw(COUNTS)
        pools.append(
            Pool(
                name=name,
                stage="s",
                part=name,
                engine=draw(WORDS),
                kind=draw(WORDS),
                replicas=replicas,
                nodes=nodes,
                role=draw(st.sampled_from(Role)),
                parallel=Parallel(tensor=draw(COUNTS), expert=draw(COUNTS)),
                batch_max=draw(st.none() | COUNTS),
                cache_dtype=draw(st.none() | st.sampled_from(Dtype)),
                quantization=draw(st.none() | st.sampled_from(Quantization)),
                options=tuple(draw(st.lists(st.tuples(WORDS, st.text(max_size=5)), max_size=2))),
            )
        )
        need = Need(
            cards=draw(st.integers(0, 8)),
            share=draw(st.floats(0, 1)),
            cpus=draw(FIGURES),
            codecs=tuple(draw(st.lists(st.builds(Codec, name=WORDS, units=COUNTS), max_size=2))),
        )
        within = draw(st.none() | st.sampled_from(Scope))
        parts.append(Part(name=name, need=need, replicas=replicas * nodes, kinds=(draw(WORDS),), within=within))
        seats += [Seat(part=name, replica=i, node=draw(WORDS), devices=(i,)) for i in range(replicas * nodes)]
    relation = st.one_of(
        st.builds(Together, parts=st.just(tuple(names)), scope=st.sampled_from(Scope), weight=FIGURES),
        st.builds(Apart, parts=st.just(tuple(names)), scope=st.sampled_from(Scope), most=COUNTS),
        st.builds(Bandwidth, source=st.just(names[0]), target=st.just(names[-1]), bytes_per_s=FIGURES),
    )
    return FleetPlan(
        name=draw(WORDS),
        model=draw(WORDS),
        graph=graph,
        pools=tuple(pools),
        gang=Gang(name=draw(WORDS), parts=tuple(parts), relations=tuple(draw(st.lists(relation, max_size=3)))),
        seats=tuple(seats) if draw(st.booleans()) else (),
        objectives=(Objective(metric=Metric.TTFT, percentile=99.0, bound=draw(FIGURES)),),
    )


@given(plans())
def test_a_plan_survives_its_text(plan):
    assert fleet_plan_from_text(dump_fleet_plan(plan)) == plan


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_the_examples_are_as_they_would_be_written(path):
    comments = [line for line in path.read_text().splitlines(keepends=True) if line.startswith("#")]
    assert "".join(comments) + dump_fleet_plan(load_fleet_plan(path)) == path.read_text()


def test_a_plan_survives_its_file(tmp_path):
    plan = load_fleet_plan(PLANS[0])
    save_fleet_plan(plan, tmp_path / "plan.yaml")
    assert load_fleet_plan(tmp_path / "plan.yaml") == plan
    assert [path.name for path in tmp_path.iterdir()] == ["plan.yaml"]
    with pytest.raises(BrokenEdge, match="writable"):
        save_fleet_plan(plan, tmp_path / "none" / "plan.yaml")


def damaged(*path, value=None, drop=False):
    document = yaml.safe_load((PLANS[1]).read_text())
    below = document
    *way, last = path
    for key in way:
        below = below[key]
    if drop:
        del below[last]
    else:
        below[last] = value
    return yaml.safe_dump(document)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (damaged("accord", value=2), "accord: 2: unknown format"),
        (damaged("more", value=1), "more: 1: unknown field"),
        (damaged("fleet_plan", "name", drop=True), "fleet_plan.name: 'absent'"),
        (damaged("fleet_plan", "nam", value="x"), r"fleet_plan.nam: .*did you mean name"),
        (damaged("fleet_plan", "pools", 0, "kidn", value="x"), r"fleet_plan.pools\[0\].kidn: .*unknown field"),
        (damaged("fleet_plan", "pools", 0, "replicas", value=0), r"fleet_plan.pools\[0\].replicas: 0: out of range"),
        (
            damaged("fleet_plan", "pools", 0, "replicas", value="two"),
            r"fleet_plan.pools\[0\].replicas: .*Expected `int`",
        ),
        (damaged("fleet_plan", "pools", 0, "role", value="chef"), r"fleet_plan.pools\[0\].role"),
        (damaged("fleet_plan", "pools", 0, "replicas", value=3), "disagree on replicas"),
        (damaged("fleet_plan", "pools", 0, "stage", value="x"), "serves x, which the graph lacks"),
        (damaged("fleet_plan", "pools", 0, "part", value="x"), "fleet_plan.gang.parts: 'prefill': no pool"),
        (damaged("fleet_plan", "pools", 1, "name", value="prefill"), "fleet_plan.pools: 'prefill': written twice"),
        (damaged("fleet_plan", "gang", "parts", 0, "need", "share", value=1.5), "need.share: 1.5: out of range"),
        (damaged("fleet_plan", "gang", "parts", 0, "need", "cpus", value=-1.0), "need.cpus: -1.0: out of range"),
        (damaged("fleet_plan", "gang", "parts", 0, "need", "cpus", value=float("inf")), "need.cpus: .*range"),
        (damaged("fleet_plan", "gang", "relations", value=3), "relations: 3: not a list"),
        (damaged("fleet_plan", "gang", "relations", 0, value={}), "not one relation"),
        (damaged("fleet_plan", "gang", "relations", 0, value={"togehter": 1}), "did you mean together"),
        (damaged("fleet_plan", "gang", "relations", 0, "together", "parts", value=["x"]), "'x': no such part"),
        (damaged("fleet_plan", "seats", 0, "part", value="x"), r"seats\[0\].part: 'x': no such part"),
        (damaged("fleet_plan", "seats", 0, drop=True), "seats: '3 seats': not one a replica"),
        (damaged("fleet_plan", value=None), "not a mapping"),
    ],
)
def test_damage_is_named(text, says):
    with pytest.raises(BadInput, match=says):
        fleet_plan_from_text(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("accord: 1\nplan: {}", "this is a plan for one machine; .*accord up"),
        ("accord: 1\nnodes: []", "this is a fleet; give the fleet with --fleet"),
        ("accord: 1\nname: x\nmodel: y\nobjectives: {}", "this is an intent; plan it first"),
        ("accord: 1\nmodel: y", "this is an intent"),
        ("accord: 1", "fleet_plan: 'absent': required"),
    ],
)
def test_another_document_is_called_by_its_name(text, says):
    with pytest.raises(BadInput, match=says):
        fleet_plan_from_text(text)
