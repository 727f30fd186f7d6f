"""The target `kubernetes`, judged by Kubernetes' schemas, by CEL, and by what devices publish."""

import dataclasses

import pytest

from accord.terms.fleet import Codec
from accord.terms.fleet_plan import Parallel
from accord.terms.gang import Scope, Seat, Together
from tests.render import small
from tests.render.cel import published, selects
from tests.render.drive import PLANS, claim_of, documents, made, of_sort, pod_of, rendered
from tests.render.outside import faults


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
@pytest.mark.parametrize("pinned", [False, True])
def test_every_document_is_valid(path, pinned):
    found = documents(made(path, pinned=pinned, uuids=True))
    found += documents(made(path, replicas_max=8))
    assert [fault for document in found for fault in faults(document)] == []


def test_the_judges_see_what_is_wrong():
    (document, *_) = of_sort(documents(made(PLANS[0])), "Deployment")
    document["spec"]["template"]["spec"]["contianers"] = []
    assert faults(document)
    (document, *_) = of_sort(documents(made(PLANS[1])), "LeaderWorkerSet")
    document["spec"]["leaderWorkerTemplate"]["sise"] = 2
    document["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["nodename"] = "x"
    assert len(faults(document)) == 2


def test_a_port_under_the_devices_root_is_one_claim_with_one_root():
    part = small.part(cards=2, nic_bytes_per_s=10e9, within=Scope.PCIE_ROOT, nic_within=Scope.PCIE_ROOT)
    found, lost = rendered(small.plan(part))
    claim = claim_of(found)
    assert [(one["name"], one["exactly"]["count"]) for one in claim["requests"]] == [("devices", 2), ("nic", 1)]
    assert claim["constraints"] == [
        {"matchAttribute": "resource.kubernetes.io/pcieRoot", "requests": ["devices", "nic"]}
    ]
    assert not lost
    (nic,) = [one for one in claim["requests"] if one["name"] == "nic"]
    (selector,) = nic["exactly"]["selectors"]
    # As dranet publishes it (its examples/azure_aks_examples/mi300x/resourceslice-dranet.yaml).
    port = {"rdma": True, "rdmaDevice": "mlx5_0", "numaNode": 0, "pciVendor": "Mellanox Technologies"}
    assert selects(selector["cel"]["expression"], {"driver": "dra.net", "attributes": {"dra.net": port}})


def test_a_switch_is_kept_as_its_root_and_said_to_be_lost():
    found, lost = rendered(small.plan(small.part(cards=2, nic_within=Scope.PCIE_SWITCH)))
    assert claim_of(found)["constraints"][0]["matchAttribute"].endswith("pcieRoot")
    assert lost["a: the network port within the devices' pcie-switch"].startswith("no driver publishes PCIe switches")


def test_numa_is_kept_where_the_driver_publishes_it():
    found, lost = rendered(small.plan(small.part(cards=2, within=Scope.NUMA)))
    assert claim_of(found)["constraints"][0]["matchAttribute"].endswith("numaNode")
    assert not lost
    _, lost = rendered(small.plan(small.part(cards=2, within=Scope.NUMA), kind="mi300x"))
    assert "gpu.amd.com publishes no attribute" in lost["a: the devices of a replica within one numa"]


def test_what_holds_anywhere_in_the_fleet_is_not_lost():
    part = small.part(cards=2, within=Scope.LINK_GROUP)
    _, lost = rendered(small.plan(part))
    assert "a: the devices of a replica within one link-group" in lost
    fleet = small.fleet()
    nodes = tuple(
        dataclasses.replace(node, devices=tuple(dataclasses.replace(device, group="nvlink") for device in node.devices))
        for node in fleet.nodes
    )
    _, lost = rendered(small.plan(part), dataclasses.replace(fleet, nodes=nodes))
    assert not lost


def test_a_fraction_is_a_share_of_a_claimed_capacity():
    found, lost = rendered(small.plan(small.part(share=0.3, memory_bytes=8 * small.GIB)))
    (request,) = claim_of(found)["requests"]
    assert request["exactly"]["deviceClassName"] == "hami-core-gpu.project-hami.io"
    assert request["exactly"]["capacity"] == {"requests": {"cores": "30", "memory": "8Gi"}}
    assert not lost


def test_a_fraction_of_a_device_that_is_not_shared_takes_it_whole_and_says_so():
    found, lost = rendered(small.plan(small.part(share=0.3, memory_bytes=8 * small.GIB), kind="mi300x"))
    (request,) = claim_of(found)["requests"]
    assert request["exactly"]["count"] == 1
    assert "capacity" not in request["exactly"]
    assert len(lost) == 2
    assert all("whole" in why for why in lost.values())


def test_a_seat_on_a_partition_claims_that_partition():
    seat = Seat(part="a", replica=0, node="n0", devices=(3,), template="3g.48gb")
    part = small.part(share=0.4, memory_bytes=40 * small.GIB, codecs=(Codec(name="nvdec", units=3),))
    found, lost = rendered(small.plan(part, seats=(seat,)), pinned=True)
    (request,) = claim_of(found)["requests"]
    expressions = [one["cel"]["expression"] for one in request["exactly"]["selectors"]]
    slice_ = published("gpu.nvidia.com", "h20", profile="3g.48gb", parentUUID="GPU-n0-3")
    other = published("gpu.nvidia.com", "h20", profile="3g.48gb", parentUUID="GPU-n0-2")
    assert request["exactly"]["deviceClassName"] == "mig.nvidia.com"
    assert all(selects(one, slice_) for one in expressions)
    assert not all(selects(one, other) for one in expressions)
    assert not lost


def test_parts_on_one_card_share_one_claim():
    parts = (small.part("a", share=0.3, memory_bytes=small.GIB), small.part("b", share=0.5, memory_bytes=3 * small.GIB))
    found, lost = rendered(small.plan(*parts, relations=(Together(parts=("a", "b"), scope=Scope.CARD),)))
    (request,) = claim_of(found, "ResourceClaim")["requests"]
    # The driver's limits are a claim's: it would give both the limit of the last request (its GetCDIContainerEdits).
    assert request["exactly"]["capacity"] == {"requests": {"cores": "80", "memory": "4Gi"}}
    assert len(of_sort(found, "ResourceClaim")) == 1
    pods = [pod_of(one) for one in of_sort(found, "Deployment")]
    assert [pod["resourceClaims"][0]["resourceClaimName"] for pod in pods] == ["p-a-b", "p-a-b"]
    for pod, share in zip(pods, ("0.25", "0.75"), strict=True):
        assert pod["containers"][0]["resources"]["claims"] == [{"name": "claim", "request": "devices"}]
        command = pod["containers"][0]["command"]
        assert command[command.index("--gpu-memory-utilization") + 1] == share, "each engine is told its part of them"
    shares = {"a: 30% of a device's compute", "b: 50% of a device's compute"}
    assert set(lost) == shares | {"p: all parts start, or none"}


def whole_requests(found):
    templates = of_sort(found, "ResourceClaimTemplate")
    return [one["spec"]["spec"]["devices"]["requests"][0]["exactly"] for one in templates]


def test_whole_devices_beside_shared_ones_come_from_the_same_driver():
    """Two drivers that publish one card would give it to two stages."""
    parts = (small.part("a", share=0.3, memory_bytes=small.GIB), small.part("b", cards=2))
    found, lost = rendered(small.plan(*parts))
    requests = [
        one["spec"]["spec"]["devices"]["requests"][0]["exactly"] for one in of_sort(found, "ResourceClaimTemplate")
    ]
    assert {one["deviceClassName"] for one in requests} == {"hami-core-gpu.project-hami.io"}
    assert ["capacity" in one for one in requests] == [True, False], "by default all of a device's capacity is taken"
    assert set(lost) == {"p: all parts start, or none"}
    found, _ = rendered(small.plan(*parts, kind={"a": "h20", "b": "a100-80g"}))
    requests = [
        one["spec"]["spec"]["devices"]["requests"][0]["exactly"] for one in of_sort(found, "ResourceClaimTemplate")
    ]
    assert len({one["deviceClassName"] for one in requests}) == 2, "other kinds are on other nodes"


def test_parts_on_one_card_that_is_not_shared_use_the_same_request():
    parts = (small.part("a", share=0.3, memory_bytes=small.GIB), small.part("b", share=0.5, memory_bytes=small.GIB))
    together = Together(parts=("a", "b"), scope=Scope.CARD)
    found, lost = rendered(small.plan(*parts, relations=(together,), kind="mi300x"))
    assert [one["name"] for one in claim_of(found, "ResourceClaim")["requests"]] == ["devices"]
    assert len(lost) == 5  # two shares, two memories, the gang


def test_pinned_replicas_stand_on_their_nodes_and_devices():
    seats = [Seat(part="a", replica=i, node=f"n{i}", devices=(i, i + 1), nic=i) for i in range(2)]
    plan = small.plan(small.part(cards=2, replicas=2, nic_within=Scope.PCIE_ROOT), seats=seats)
    found, lost = rendered(plan, pinned=True)
    pods = [pod_of(one) for one in of_sort(found, "Deployment")]
    terms = [
        pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        for pod in pods
    ]
    assert terms == [
        [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [f"n{i}"]}]}] for i in (0, 1)
    ]
    for number, template in enumerate(of_sort(found, "ResourceClaimTemplate")):
        devices, nic = template["spec"]["spec"]["devices"]["requests"]
        expressions = [one["cel"]["expression"] for one in devices["exactly"]["selectors"]]
        taken = [
            i
            for i in range(8)
            if all(selects(one, published("gpu.nvidia.com", "h20", uuid=f"GPU-n{number}-{i}")) for one in expressions)
        ]
        assert taken == [number, number + 1]
        port = nic["exactly"]["selectors"][1]["cel"]["expression"]
        for name in ("ifName", "rdmaDevice"):
            own, other = ({"attributes": {"dra.net": {name: f"mlx5_{i}"}}} for i in (number, number + 1))
            assert selects(port, own)
            assert not selects(port, other)
    assert [one["spec"]["selector"]["matchLabels"]["accord/replica"] for one in of_sort(found, "Deployment")] == [
        "0",
        "1",
    ]
    assert set(lost) == {"p: all parts start, or none"}


def test_a_fleet_without_uuids_loses_the_devices_and_ports():
    seat = Seat(part="a", replica=0, node="n0", devices=(0,), nic=0)
    plan = small.plan(small.part(cards=1, nic_bytes_per_s=1e9), seats=(seat,))
    found, lost = rendered(plan, small.fleet(uuids=False), pinned=True)
    assert set(lost) == {"a 0: device 0 of node n0", "a 0: network port 0 of node n0"}
    assert "uuid" not in str(claim_of(found))


def test_a_replica_on_several_nodes_is_a_leader_and_workers():
    found, _ = rendered(small.plan(small.part(cards=8, replicas=4), nodes=2, parallel=Parallel(tensor=8, pipeline=2)))
    (group,) = of_sort(found, "LeaderWorkerSet")
    template = group["spec"]["leaderWorkerTemplate"]
    assert (group["spec"]["replicas"], template["size"]) == (2, 2)
    leader, worker = template["leaderTemplate"], template["workerTemplate"]
    assert "readinessProbe" in leader["spec"]["containers"][0]
    assert "readinessProbe" not in worker["spec"]["containers"][0]
    (service,) = of_sort(found, "Service")
    assert service["spec"]["selector"].items() <= leader["metadata"]["labels"].items()
    assert not service["spec"]["selector"].items() <= worker["metadata"]["labels"].items()
    assert service["metadata"]["name"] != group["metadata"]["name"], "its controller makes a Service of that name"
    (budget,) = of_sort(found, "PodDisruptionBudget")
    assert budget["spec"]["maxUnavailable"] == 2


@pytest.mark.parametrize("kind", ["h20", "mi300x"])
def test_a_port_stays_near_a_card_that_parts_share(kind):
    shared = {"share": 0.3, "memory_bytes": small.GIB}
    parts = (small.part("a", nic_within=Scope.PCIE_ROOT, **shared), small.part("b", **shared))
    relation = Together(parts=("a", "b"), scope=Scope.CARD)
    found, lost = rendered(small.plan(*parts, relations=(relation,), kind=kind))
    claim = claim_of(found, "ResourceClaim")
    assert [one["name"] for one in claim["requests"]] == ["devices", "a-nic"]
    near = {"matchAttribute": "resource.kubernetes.io/pcieRoot", "requests": ["devices", "a-nic"]}
    assert claim["constraints"] == [near]
    assert not any("port" in what for what in lost)
    used = [pod_of(one)["containers"][0]["resources"]["claims"] for one in of_sort(found, "Deployment")]
    assert [[one["request"] for one in some] for some in used] == [["devices", "a-nic"], ["devices"]]
