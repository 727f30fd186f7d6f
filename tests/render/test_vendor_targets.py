"""The targets with schedulers of their own, judged by those projects' schemas and admission rules."""

import dataclasses
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accord.edges.fleet_plan_file import load_fleet_plan
from accord.edges.plan_fleet import fleet_of
from accord.render.wishes import Aspect, wishes
from accord.terms.gang import Scope, Seat, Together
from tests.render.fleet_plans import B3, GIB, H20, fleet, part, plan
from tests.render.outside import faults
from tests.render.test_yaml_text import HOSTILE
from tests.render.vendor_plans import MANY, MIXED, documents, of_sort, pods, rendered

EXAMPLES = Path(__file__).parents[2] / "examples"
PLANS = sorted((EXAMPLES / "plans").glob("*.yaml"))
EXAMPLE_FLEET = EXAMPLES / "fleets" / "mixed.yaml"

NAMES = ("hami", "volcano", "koordinator", "kueue", "kai")


@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize("growing", [None, 8])
def test_every_document_is_valid(target, growing):
    found = documents(target, MANY, replicas_max=growing)
    assert [fault for one in found for fault in faults(one)] == []
    assert of_sort(found, "LeaderWorkerSet")
    assert of_sort(found, "Deployment")


@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_every_document_of_the_examples_is_valid(target, path):
    made = load_fleet_plan(path)
    found = documents(target, made, fleet_of(made, EXAMPLE_FLEET), pinned=bool(made.seats))
    assert [fault for one in found for fault in faults(one)] == []


@pytest.mark.parametrize("target", NAMES)
def test_pinned_documents_are_valid_and_name_their_nodes(target):
    seats = [Seat(part="a", replica=number, node=f"n{number * 5:02}", devices=(0, 1)) for number in range(2)]
    made = plan(
        part("a", H20, cards=2, replicas=2), seats=seats, relations=(Together(parts=("a",), scope=Scope.SPINE),)
    )
    found = documents(target, made, pinned=True)
    assert [fault for one in found for fault in faults(one)] == []
    terms = [
        pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        for pod in pods(found)
    ]
    assert [term[0]["matchFields"][0]["values"] for term in terms] == [["n00"], ["n05"]]
    assert not of_sort(found, "Topology")
    assert not of_sort(found, "HyperNode")


@pytest.mark.parametrize("target", NAMES)
def test_the_text_is_the_same_every_time(target):
    assert rendered(target, MANY) == rendered(target, MANY)


@pytest.mark.parametrize("target", NAMES)
def test_what_is_lost_stands_at_the_head_of_the_file(target):
    found = rendered(target, MANY)
    head = found.files[0].text.partition("---\n")[0]
    assert all(line.startswith("# ") for line in head.splitlines())
    for one in found.lost:
        assert f"# Lost: {one.what}: {one.why}\n" in head
    told = {one.what for one in found.lost}
    assert "10 GB/s from prefill to decode" in told, "no scheduler knows bandwidth between nodes"
    assert "speech: 1 nvdec unit" in told, "none counts codec units of a shared device"
    assert told <= {wish.what for wish in wishes(MANY, MIXED, pinned=False)}


# What each scheduler is for must not be lost.
KEPT = {
    "hami": {Aspect.MEMORY, Aspect.COMPUTE, Aspect.KIND, Aspect.CARDS},
    "volcano": {Aspect.GANG, Aspect.TOGETHER},
    "koordinator": {Aspect.GANG, Aspect.NIC, Aspect.NIC_RATE, Aspect.NIC_WITHIN},
    "kueue": {Aspect.NIC, Aspect.CARDS},
    "kai": {Aspect.GANG, Aspect.TOGETHER},
}


@pytest.mark.parametrize("target", NAMES)
def test_what_each_is_for_is_kept(target):
    told = {one.what for one in rendered(target, MANY).lost}
    kept = [wish for wish in wishes(MANY, MIXED, pinned=False) if wish.aspect in KEPT[target]]
    assert kept
    assert [wish.what for wish in kept if wish.what in told] == []


@pytest.mark.parametrize("target", NAMES)
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_hostile_names_stay_names(target, data):
    names = st.sampled_from(HOSTILE)
    first, second, node, leaf = (data.draw(names) for _ in range(4))
    second = second if second != first else f"{second}2"
    on = fleet(H20, B3, nodes=1, names=[f"{node}a", f"{node}b"])
    on = dataclasses.replace(on, nodes=tuple(dataclasses.replace(one, leaf=leaf) for one in on.nodes))
    made = plan(
        part(first, H20, cards=8, replicas=2),
        part(second, B3, share=0.2, memory_bytes=9 * GIB),
        name=data.draw(names),
        nodes={first: 2},
        relations=(Together(parts=(first,), scope=Scope.LEAF),),
    )
    text = rendered(target, made, on).files[0].text
    assert text.isascii()
    found = list(yaml.safe_load_all(text))
    assert [fault for one in found for fault in faults(one)] == []
    sorts = [one["kind"] for one in found]
    calm = plan(
        part("a", H20, cards=8, replicas=2),
        part("b", B3, share=0.2, memory_bytes=9 * GIB),
        nodes={"a": 2},
        relations=(Together(parts=("a",), scope=Scope.LEAF),),
    )
    expected = [one["kind"] for one in documents(target, calm, fleet(H20, B3, nodes=1))]
    assert [one for one in sorts if one != "HyperNode"] == [one for one in expected if one != "HyperNode"]
