"""Gangs, topology and devices of Volcano, Koordinator, Kueue and KAI, judged by the rules of their own code."""

import dataclasses
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accord.edges.fleet_plan_file import load_fleet_plan
from accord.edges.plan_fleet import fleet_of
from accord.render.relations import TOPOLOGY_KEYS
from accord.render.switches import hyper_nodes
from accord.terms.gang import Apart, Scope, Together
from tests.render.fleet_plans import B3, GIB, H20, part, plan
from tests.render.vendor_plans import K100, MANY, MIXED, XPU, documents, limits, of_sort, pods, rendered

LEAF, SPINE = TOPOLOGY_KEYS[Scope.LEAF], TOPOLOGY_KEYS[Scope.SPINE]

# Volcano


EXAMPLES = Path(__file__).parents[2] / "examples"


def counted(found):
    """Pods of a plan's pools; a router waits for nobody."""
    pods_of_owners = 0
    for one in found:
        if one["kind"] == "Deployment" and not one["metadata"]["name"].endswith("-router"):
            pods_of_owners += one["spec"]["replicas"]
        if one["kind"] == "LeaderWorkerSet":
            pods_of_owners += one["spec"]["replicas"] * one["spec"]["leaderWorkerTemplate"]["size"]
    return pods_of_owners


@pytest.mark.parametrize("name", ["many", *sorted(path.stem for path in (EXAMPLES / "plans").glob("*.yaml"))])
def test_gangs_wait_for_as_many_pods_as_there_are(name):
    made, on = MANY, MIXED
    if name != "many":
        made = load_fleet_plan(EXAMPLES / "plans" / f"{name}.yaml")
        on = fleet_of(made, EXAMPLES / "fleets" / "mixed.yaml")
    volcano, koordinator, kai = (documents(target, made, on) for target in ("volcano", "koordinator", "kai"))
    (group,) = of_sort(volcano, "PodGroup")
    assert group["spec"]["minMember"] == counted(volcano)
    if "minTaskMember" in group["spec"]:
        assert sum(group["spec"]["minTaskMember"].values()) == counted(volcano)
    told = [pod["metadata"].get("annotations", {}) for pod in pods(koordinator)]
    numbers = {one["gang.scheduling.koordinator.sh/min-available"] for one in told if one}
    assert numbers == {str(counted(koordinator))}
    (group,) = of_sort(kai, "PodGroup")
    assert sum(one.get("minMember", 0) for one in group["spec"]["subGroups"]) == counted(kai)


def test_volcano_groups_all_pods():
    found = documents("volcano", MANY)
    (group,) = of_sort(found, "PodGroup")
    assert group["spec"]["minMember"] == 11
    assert {pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] for pod in pods(found)} == {
        group["metadata"]["name"]
    }
    assert {pod["spec"]["schedulerName"] for pod in pods(found)} == {"volcano"}
    near, soft = group["spec"]["subGroupPolicy"]
    assert near["networkTopology"] == {"mode": "hard", "highestTierAllowed": 1}
    assert (near["subGroupSize"], near["minSubGroups"]) == (6, 1)
    assert near["labelSelector"]["matchExpressions"][0]["values"] == ["decode", "prefill"]
    assert soft["networkTopology"] == {"mode": "soft", "highestTierAllowed": 2}
    # Its documents advise against both at once, and its webhook takes a tier by number or by name, not both.
    assert "minTaskMember" not in group["spec"]
    wanted = near["labelSelector"]["matchLabels"].items()
    assert all(wanted <= pod["metadata"]["labels"].items() for pod in pods(found)), "the selector meets the pods"


def test_volcano_keeps_groups_on_several_nodes_together():
    made = plan(part("a", H20, cards=8, replicas=6), nodes={"a": 2})
    (group,) = of_sort(documents("volcano", made), "PodGroup")
    assert group["spec"] == {
        "minMember": 6,
        "queue": "default",
        "subGroupPolicy": [
            {
                "name": "a",
                "labelSelector": {
                    "matchLabels": {"app.kubernetes.io/instance": "chat"},
                    "matchExpressions": [{"key": "app.kubernetes.io/component", "operator": "In", "values": ["a"]}],
                },
                "matchLabelKeys": [
                    "leaderworkerset.sigs.k8s.io/name",
                    "leaderworkerset.sigs.k8s.io/group-index",
                ],
                "subGroupSize": 2,
                "minSubGroups": 3,
            }
        ],
    }


def test_volcano_counts_each_pool():
    made = plan(part("a", H20, cards=1, replicas=3), part("b", H20, cards=2))
    (group,) = of_sort(documents("volcano", made), "PodGroup")
    assert group["spec"] == {"minMember": 4, "queue": "default", "minTaskMember": {"a": 3, "b": 1}}


def test_hyper_nodes_form_a_tree_over_all_nodes():
    found: list[Any] = list(hyper_nodes(MIXED))
    below = {
        one["metadata"]["name"]: [member["selector"]["exactMatch"]["name"] for member in one["spec"]["members"]]
        for one in found
    }
    tiers = {one["metadata"]["name"]: one["spec"]["tier"] for one in found}
    leaves = [name for name, tier in tiers.items() if tier == 1]
    assert sorted(itertools.chain.from_iterable(below[name] for name in leaves)) == sorted(
        node.name for node in MIXED.nodes
    )
    assert [name for name, tier in tiers.items() if tier == 2] == ["spine-spine-0"]
    assert below["spine-spine-0"] == sorted(leaves)


def test_volcano_names_vgpus_only_where_cards_are_shared():
    whole = plan(part("a", H20, cards=2))
    assert [limits(pod) for pod in pods(documents("volcano", whole))] == [{"nvidia.com/gpu": "2"}]
    both = plan(part("a", H20, cards=2), part("b", H20, share=0.25, memory_bytes=3000 << 20))
    assert [limits(pod) for pod in pods(documents("volcano", both))] == [
        {"volcano.sh/vgpu-number": "2"},
        {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "3000", "volcano.sh/vgpu-cores": "25"},
    ]


def test_volcano_keeps_pods_off_each_others_cards_only_if_none_may_share():
    apart = Apart(parts=("a", "b"), scope=Scope.CARD)
    parts = [part(name, H20, share=0.3, memory_bytes=GIB) for name in "abc"]
    policy = "volcano.sh/vgpu-podgroup-policy"
    made = plan(*parts, relations=(apart,))
    assert [pod["metadata"]["annotations"].get(policy) for pod in pods(documents("volcano", made))] == [
        "spread",
        "spread",
        None,
    ]
    assert rendered("volcano", made).lost == ()
    mixed = plan(*parts, relations=(apart, Together(parts=("a", "c"), scope=Scope.CARD)))
    assert [pod["metadata"]["annotations"].get(policy) for pod in pods(documents("volcano", mixed))] == [
        None,
        "spread",
        None,
    ]
    assert len(rendered("volcano", mixed).lost) == 2


# Koordinator. Its scheduler takes these combinations and no others (pkg/scheduler/plugins/deviceshare/utils.go,
# ValidDeviceResourceCombinations), after its webhook has turned `koordinator.sh/gpu` into core, ratio and count.
K = "koordinator.sh/"
COMBINATIONS = [
    {"nvidia.com/gpu"},
    {"amd.com/gpu"},
    {"dcu.com/gpu"},
    {K + "gpu"},
    {K + "gpu.shared", K + "gpu-memory"},
    {K + "gpu.shared", K + "gpu-memory-ratio"},
    {K + "gpu.shared", K + "gpu-core", K + "gpu-memory"},
    {K + "gpu.shared", K + "gpu-core", K + "gpu-memory-ratio"},
    {K + "gpu.shared", "huawei.com/npu-core", "huawei.com/npu-cpu", K + "gpu-memory"},
]


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from((H20, B3, K100, XPU)),
    st.integers(0, 8),
    st.sampled_from((0.01, 0.2, 0.5, 0.99)),
    st.sampled_from((0, 9 * GIB)),
    st.booleans(),
)
def test_koordinator_takes_the_combination(on, cards, share, memory_bytes, port):
    need = {"cards": cards} if cards else {"share": share, "memory_bytes": memory_bytes}
    made = plan(part("a", on, **need, nic_bytes_per_s=1e9 if port else 0.0))
    (pod,) = pods(documents("koordinator", made))
    asked = limits(pod)
    assert asked.pop(K + "rdma", None) == ("100" if port else None)
    assert set(asked) in COMBINATIONS
    for name in ("gpu", "gpu-core", "gpu-memory-ratio"):
        amount = int(asked.get(K + name, 100))
        assert amount <= 100 or amount % 100 == 0


def test_koordinator_gives_device_and_port_on_one_switch():
    made = plan(part("a", H20, cards=2, replicas=2, within=Scope.PCIE_SWITCH, nic_within=Scope.PCIE_ROOT))
    (pod,) = pods(documents("koordinator", made))
    told = pod["metadata"]["annotations"]
    joint = json.loads(told["scheduling.koordinator.sh/device-joint-allocate"])
    assert joint == {"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"}
    assert json.loads(told["scheduling.koordinator.sh/device-allocate-hint"]) == {
        "gpu": {"requiredTopologyScope": "PCIe"}
    }
    assert told["gang.scheduling.koordinator.sh/min-available"] == "2"
    assert limits(pod) == {"koordinator.sh/gpu": "200", "koordinator.sh/rdma": "100"}
    assert pod["spec"]["nodeSelector"] == {"node.koordinator.sh/gpu-vendor": "nvidia"}
    assert rendered("koordinator", made).lost == ()


def test_koordinator_takes_ascend_templates():
    made = plan(part("a", B3, share=0.2, memory_bytes=9 * GIB))
    (pod,) = pods(documents("koordinator", made))
    assert limits(pod) == {
        "koordinator.sh/gpu.shared": "1",
        "huawei.com/npu-core": "5",
        "huawei.com/npu-cpu": "1",
        "koordinator.sh/gpu-memory": "16384Mi",
    }


# Kueue


def test_kueue_uses_claims_where_devices_must_be_near_each_other():
    made = plan(
        part("a", H20, cards=8, replicas=2, within=Scope.PCIE_ROOT),
        nodes={"a": 2},
        relations=(Together(parts=("a",), scope=Scope.LEAF),),
    )
    found = documents("kueue", made)
    assert of_sort(found, "ResourceClaimTemplate")
    assert not of_sort(found, "Topology")
    assert not any("kueue" in key for pod in pods(found) for key in pod["metadata"].get("annotations", {}))


def test_kueue_keeps_leader_and_workers_below_one_switch():
    made = plan(
        part("a", H20, cards=8, replicas=2), nodes={"a": 2}, relations=(Together(parts=("a",), scope=Scope.LEAF),)
    )
    found = documents("kueue", made)
    (levels,) = of_sort(found, "Topology")
    assert [level["nodeLabel"] for level in levels["spec"]["levels"]] == [SPINE, LEAF, "kubernetes.io/hostname"]
    assert [pod["metadata"]["annotations"] for pod in pods(found)] == [
        {"kueue.x-k8s.io/podset-required-topology": LEAF, "kueue.x-k8s.io/podset-group-name": "replica"}
    ] * 2
    assert [limits(pod) for pod in pods(found)] == [{"nvidia.com/gpu": "8"}] * 2
    assert rendered("kueue", made).lost == (), "one replica is one workload, and starts whole"
    (owner,) = of_sort(found, "LeaderWorkerSet")
    assert owner["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "default"


# KAI


def admitted_by_kai(spec):
    """Its webhook's rules (pkg/apis/scheduling/v2alpha2/podgroup_webhook.go)."""
    assert not ("minMember" in spec and "minSubGroup" in spec)
    groups = {one["name"]: one for one in spec["subGroups"]}
    assert len(groups) == len(spec["subGroups"]), "names are distinct"
    children = {name: [one for one in groups.values() if one.get("parent") == name] for name in groups}
    assert all(one.get("parent", next(iter(groups))) in groups for one in groups.values())
    for name, one in groups.items():
        if children[name]:
            assert "minMember" not in one
            assert one["minSubGroup"] <= len(children[name])
        else:
            assert "minSubGroup" not in one
            assert one["minMember"] >= 1
    assert spec["minSubGroup"] <= sum("parent" not in one for one in groups.values())


@pytest.mark.parametrize("relations", [(), MANY.gang.relations])
def test_kai_admits_the_group(relations):
    made = dataclasses.replace(MANY, gang=dataclasses.replace(MANY.gang, relations=relations))
    (group,) = of_sort(documents("kai", made), "PodGroup")
    admitted_by_kai(group["spec"])


def test_kai_groups_pods_by_pool():
    found = documents("kai", MANY)
    (group,) = of_sort(found, "PodGroup")
    names = {one["name"] for one in group["spec"]["subGroups"] if "minMember" in one}
    for pod in pods(found):
        told = pod["metadata"]["annotations"]
        assert told["pod-group-name"] == group["metadata"]["name"]
        assert told["kai.scheduler/skip-podgrouper"] == "true"
        assert pod["metadata"]["labels"]["kai.scheduler/subgroup-name"] in names
        assert pod["metadata"]["labels"]["kai.scheduler/queue"] == group["spec"]["queue"]
    parent = next(one for one in group["spec"]["subGroups"] if "minSubGroup" in one)
    assert parent["topologyConstraint"] == {"topology": "accord", "requiredTopologyLevel": LEAF}
    assert {one["name"] for one in group["spec"]["subGroups"] if one.get("parent") == parent["name"]} == {
        "prefill",
        "decode",
    }


def test_kai_shares_by_memory_and_counts_no_card_then():
    made = plan(part("a", H20, share=0.5), part("b", H20, share=0.5, memory_bytes=2000 << 20))
    first, second = pods(documents("kai", made))
    assert first["metadata"]["annotations"]["gpu-fraction"] == "0.5"
    assert second["metadata"]["annotations"]["gpu-memory"] == "2000"
    assert limits(first) == limits(second) == {}
