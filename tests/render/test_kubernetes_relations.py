"""Relations, resources and options in the target `kubernetes`."""

import dataclasses

import pytest

from accord.render.kubernetes import render
from accord.render.rendered import Options
from accord.terms.errors import BadInput
from accord.terms.gang import Apart, Scope, Seat, Together
from tests.render import small
from tests.render.drive import claim_of, of_sort, pod_of, rendered

RELATIONS = [
    (Together(parts=("a", "b"), scope=Scope.HOST), "podAffinity", "kubernetes.io/hostname"),
    (Together(parts=("a", "b"), scope=Scope.LEAF), "podAffinity", "network.topology.nvidia.com/leaf"),
    (Together(parts=("a", "b"), scope=Scope.SPINE), "podAffinity", "network.topology.nvidia.com/spine"),
    (Apart(parts=("a", "b"), scope=Scope.HOST), "podAntiAffinity", "kubernetes.io/hostname"),
    (Apart(parts=("a", "b"), scope=Scope.LEAF), "podAntiAffinity", "network.topology.nvidia.com/leaf"),
]


@pytest.mark.parametrize(("relation", "where", "key"), RELATIONS)
@pytest.mark.parametrize("required", [True, False])
def test_relations_of_hosts_and_switches_are_affinity(relation, where, key, required):
    relation = dataclasses.replace(relation, required=required)
    found, lost = rendered(small.plan(small.part("a"), small.part("b"), small.part("c"), relations=(relation,)))
    for document in of_sort(found, "Deployment"):
        affinity = pod_of(document).get("affinity", {})
        if document["metadata"]["name"] == "p-c":
            assert affinity == {}
            continue
        (kind, (term,)) = next(iter(affinity[where].items()))
        assert kind.startswith("required" if required else "preferred")
        term = term if required else term["podAffinityTerm"]
        assert term["topologyKey"] == key
        assert term["labelSelector"]["matchExpressions"][0]["values"] == ["a", "b"]
    assert set(lost) == {"p: all parts start, or none"}


@pytest.mark.parametrize("scope", [Scope.CARD, Scope.LINK_GROUP, Scope.PCIE_SWITCH, Scope.PCIE_ROOT, Scope.NUMA])
def test_relations_inside_a_host_keep_the_host_and_are_lost(scope):
    relation = Together(parts=("a", "b"), scope=scope, required=scope is not Scope.CARD)
    found, lost = rendered(small.plan(small.part("a"), small.part("b"), relations=(relation,)))
    assert any(str(scope) in what for what in lost)
    (kind,) = pod_of(of_sort(found, "Deployment")[0])["affinity"]["podAffinity"]
    assert kind.startswith("required" if relation.required else "preferred")


def test_pinned_pods_have_no_relations_any_more():
    relation = Together(parts=("a",), scope=Scope.LEAF)
    seats = [Seat(part="a", replica=number, node=f"n{number}", devices=(0,)) for number in range(2)]
    found, lost = rendered(small.plan(small.part(replicas=2), relations=(relation,), seats=seats), pinned=True)
    assert [set(pod_of(one)["affinity"]) for one in of_sort(found, "Deployment")] == [{"nodeAffinity"}] * 2
    assert not any("together" in what for what in lost)


def test_replicas_that_share_a_claim_are_said_to_share_its_part():
    parts = [small.part(name, share=0.3, memory_bytes=small.GIB, replicas=2) for name in ("a", "b")]
    found, lost = rendered(small.plan(*parts, relations=(Together(parts=("a", "b"), scope=Scope.CARD),)))
    assert sum("one claim" in why for why in lost.values()) == 2, "no part's compute is bounded by itself"
    (request,) = claim_of(found, "ResourceClaim")["requests"]
    assert request["exactly"]["capacity"] == {"requests": {"cores": "100", "memory": "4Gi"}}, "all replicas are on it"


def test_several_to_a_host_are_counted_from_zero():
    relation = Apart(parts=("a",), scope=Scope.HOST, most=3)
    found, _ = rendered(small.plan(small.part(replicas=6), relations=(relation,)))
    (term,) = pod_of(of_sort(found, "Deployment")[0])["topologySpreadConstraints"]
    assert (term["maxSkew"], term["whenUnsatisfiable"]) == (3, "DoNotSchedule")
    assert term["minDomains"] > 10_000, "below that many domains, the least that any has counts as 0"


def test_devices_of_a_vendor_without_claims_are_counted():
    plan = small.plan(small.part(cards=4), kind="mlu590")
    found, lost = rendered(plan, small.fleet("mlu590", "mlu370-x8"))
    resources = pod_of(of_sort(found, "Deployment")[0])["containers"][0]["resources"]
    assert resources["limits"]["cambricon.com/mlu"] == "4"
    assert set(lost) == {"a: devices of kind mlu590"}
    assert not rendered(plan, small.fleet("mlu590"))[1]
    fleet = small.fleet("mlu590", "mlu370-x8")
    nodes = tuple(dataclasses.replace(node, labels=(("accelerator", node.devices[0].kind),)) for node in fleet.nodes)
    found, lost = rendered(plan, dataclasses.replace(fleet, nodes=nodes))
    assert "accelerator" in str(pod_of(of_sort(found, "Deployment")[0])["affinity"]["nodeAffinity"])
    assert not lost


def test_an_unknown_kind_is_bad_input():
    with pytest.raises(BadInput, match=r"fleet_plan.pools.a.kind: 'h21'.*--fleet"):
        render(small.plan(kind="h21"), small.fleet(), Options())


def test_requests_equal_limits_and_are_exact():
    part = small.part(cpus=1.5, host_memory_bytes=(1 << 30) + 1, nvme_bytes=3 << 20)
    found, _ = rendered(small.plan(part))
    resources = pod_of(of_sort(found, "Deployment")[0])["containers"][0]["resources"]
    assert resources["limits"] == {"cpu": "1500m", "memory": "1073741825", "ephemeral-storage": "3Mi"}
    assert resources["requests"] == resources["limits"]


def test_images_can_be_replaced_by_pool_and_engine():
    plan = small.plan(small.part("a"), small.part("b"))
    found, _ = rendered(plan, images=(("vllm", "mine/vllm:1"), ("b", "mine/b:2")))
    images = [pod_of(one)["containers"][0]["image"] for one in of_sort(found, "Deployment")]
    assert images == ["mine/vllm:1", "mine/b:2"]


def test_an_autoscaler_only_where_it_is_asked_for():
    plan = small.plan(small.part(replicas=2))
    assert not of_sort(rendered(plan)[0], "HorizontalPodAutoscaler")
    (scaler,) = of_sort(rendered(plan, replicas_max=5)[0], "HorizontalPodAutoscaler")
    assert (scaler["spec"]["minReplicas"], scaler["spec"]["maxReplicas"]) == (2, 5)
