"""Affinity as the schedulers count it, and what one template of workers can pin."""

import dataclasses

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.render.rendered import Options
from accord.render.targets import TARGETS
from accord.render.wishes import Aspect, wishes
from accord.terms.fleet_plan import Parallel
from accord.terms.gang import Scope, Seat, Together
from tests.render import small

FLEET = small.fleet(nodes=3)
SCHEDULERS = ("kubernetes", "hami", "volcano", "koordinator", "kueue", "kai")
LEAF, SPINE, HOST = "network.topology.nvidia.com/leaf", "network.topology.nvidia.com/spine", "kubernetes.io/hostname"

# What the kube-scheduler counts for a pod's required affinity: pods that fit all of its terms (InterPodAffinity,
# podMatchesAllAffinityTerms), in the domain of each. Volcano and KAI call the same code, and have groups besides.


def fits(selector, labels):
    (expression,) = selector["matchExpressions"]
    return selector["matchLabels"].items() <= labels.items() and labels[expression["key"]] in expression["values"]


def required_near(found):
    """Pool -> the pools whose pods keep its pods near, and the key within which they do."""
    pods = {one["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"]: one for one in found}
    near = {}
    for name, one in pods.items():
        affinity = one["spec"]["template"]["spec"].get("affinity", {}).get("podAffinity", {})
        terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", [])
        others = {
            other
            for other, two in pods.items()
            if all(fits(term["labelSelector"], two["spec"]["template"]["metadata"]["labels"]) for term in terms)
        }
        near[name] = (others, {term["topologyKey"] for term in terms})
    return near


TOGETHER = st.builds(
    Together,
    parts=st.sampled_from([("a",), ("a", "b"), ("b", "c"), ("a", "b", "c")]),
    scope=st.sampled_from([Scope.HOST, Scope.LEAF, Scope.SPINE]),
    required=st.booleans(),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(TOGETHER, min_size=1, max_size=3), st.sampled_from(["kubernetes", "hami", "koordinator", "kueue"]))
def test_required_affinity_counts_what_it_must(relations, target):
    plan = small.plan(*(small.part(name) for name in "abc"), relations=relations)
    made = TARGETS[target].load()(plan, FLEET, Options())
    found = [one for one in yaml.safe_load_all(made.files[0].text) if one["kind"] == "Deployment"]
    near, lost = required_near(found), {one.what for one in made.lost}
    asked = [one for one in wishes(plan, FLEET, pinned=False) if one.aspect is Aspect.TOGETHER]
    keys = {Scope.HOST: HOST, Scope.LEAF: LEAF, Scope.SPINE: SPINE}
    for wish in asked:
        if wish.required and wish.what not in lost:
            assert all(set(wish.parts) <= near[part][0] for part in wish.parts)
            assert all(wish.scope and keys[wish.scope] in near[part][1] for part in wish.parts)


def test_two_sets_of_parts_are_lost_where_only_affinity_keeps_them():
    """Decode on one leaf, prefill and decode on one spine: a first decode pod would not mind where prefill is."""
    leaf = Together(parts=("decode",), scope=Scope.LEAF)
    spine = Together(parts=("decode", "prefill"), scope=Scope.SPINE)
    parts = (small.part("prefill"), small.part("decode", replicas=2))
    plan = small.plan(*parts, relations=(leaf, spine))
    fleet = dataclasses.replace(
        FLEET, nodes=tuple(dataclasses.replace(node, leaf="l", spine="s") for node in FLEET.nodes)
    )
    lost = {t: {one.what for one in TARGETS[t].load()(plan, fleet, Options()).lost} for t in SCHEDULERS}
    words = "decode and prefill together on one spine"
    assert {target for target, what in lost.items() if words in what} == {"kubernetes", "hami", "koordinator", "kueue"}
    assert not any("leaf" in what for some in lost.values() for what in some)
    text = TARGETS["kubernetes"].load()(plan, fleet, Options()).files[0].text
    _, decode = [one for one in yaml.safe_load_all(text) if one["kind"] == "Deployment"]
    wished = decode["spec"]["template"]["spec"]["affinity"]["podAffinity"]
    (kept,) = wished["preferredDuringSchedulingIgnoredDuringExecution"]
    assert kept["podAffinityTerm"]["topologyKey"] == SPINE, "it is at least preferred"


def seats(*nodes, nics=None):
    return [
        Seat(part="a", replica=number, node=node, devices=(0,), nic=nics[number] if nics else None)
        for number, node in enumerate(nodes)
    ]


def worker_affinity(plan, **options):
    made = TARGETS["kubernetes"].load()(plan, FLEET, Options(pinned=True, **options))
    (found,) = [one for one in yaml.safe_load_all(made.files[0].text) if one["kind"] == "LeaderWorkerSet"]
    template = found["spec"]["leaderWorkerTemplate"]
    return made, template["leaderTemplate"], template["workerTemplate"]


def test_workers_of_a_pinned_replica_stand_one_to_a_node():
    """They have one template, which names the nodes of them all; two could else go to the first of them."""
    plan = small.plan(small.part(replicas=3), nodes=3, seats=seats("n0", "n1", "n2"), parallel=Parallel(pipeline=3))
    made, leader, worker = worker_affinity(plan)
    assert "podAntiAffinity" not in leader["spec"]["affinity"]
    apart = worker["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    ((term),) = apart
    assert term["topologyKey"] == HOST
    labels, (but,) = term["labelSelector"]["matchLabels"], term["labelSelector"]["matchExpressions"]
    assert labels.items() <= worker["metadata"]["labels"].items()
    assert (but["operator"], but["key"] in leader["metadata"]["labels"]) == ("DoesNotExist", True)
    assert {one.what for one in made.lost} == {"p: all parts start, or none"}


def test_what_one_template_of_workers_cannot_pin_is_lost():
    shared = small.plan(small.part(replicas=3), nodes=3, seats=seats("n0", "n1", "n1"), parallel=Parallel(pipeline=3))
    lost = {one.what for one in worker_affinity(shared)[0].lost}
    assert {"a 1: on node n1", "a 2: on node n1"} <= lost
    part = small.part(cards=1, nic_bytes_per_s=1e9, replicas=3)
    ports = small.plan(part, nodes=3, seats=seats("n0", "n1", "n2", nics=(0, 1, 2)), parallel=Parallel(pipeline=3))
    lost = {one.what for one in worker_affinity(ports)[0].lost}
    assert {what for what in lost if "port" in what} == {
        "a 1: network port 1 of node n1",
        "a 2: network port 2 of node n2",
    }
