"""Small plans and fleets, for tests that ask about one wish at a time.

In: a part's need, relations, seats. Out: a `FleetPlan` of one stage, a `Fleet`. Invariant: both are as plain as can be.
"""

import dataclasses

from accord.edges.fleet_kinds import catalog_kind
from accord.terms.fleet import Device, Fleet, Nic, Node, Numa
from accord.terms.fleet_plan import FleetPlan, Pool
from accord.terms.gang import Gang, Need, Part
from accord.terms.graph import Batching, Capability, Stage, StageGraph

GIB = 1 << 30
GRAPH = StageGraph(
    model="m", stages=(Stage(name="decoder", capabilities=(Capability.AR,), batching=Batching.CONTINUOUS),), edges=()
)


def part(name="a", *, replicas=1, within=None, nic_within=None, **need):
    return Part(name=name, need=Need(**(need or {"cards": 1})), replicas=replicas, within=within, nic_within=nic_within)


def plan(*parts, relations=(), seats=(), kind="h20", name="p", model="org/model", **pool):
    parts = parts or (part(),)
    nodes = pool.get("nodes", 1)
    kinds = kind if isinstance(kind, dict) else {}
    pools = tuple(
        Pool(
            **{
                "name": one.name,
                "stage": "decoder",
                "part": one.name,
                "engine": "vllm",
                "kind": kinds.get(one.name, "h20") if kinds else kind,
                "replicas": one.replicas // nodes,
                **pool,
            }
        )
        for one in parts
    )
    gang = Gang(name=name, parts=tuple(parts), relations=tuple(relations))
    return FleetPlan(name=name, model=model, graph=GRAPH, pools=pools, gang=gang, seats=tuple(seats))


def fleet(*kinds, nodes=2, uuids=True, labels=()):
    """Nodes `n0`, `n1` ... with eight devices of each kind's node, two to a PCIe root with a port beside them."""
    kinds = kinds or ("h20",)

    def node(kind, number):
        name = f"n{number}"
        devices = tuple(
            Device(
                kind=kind,
                numa=i // 4,
                root=f"r{i // 2}",
                bridge=f"s{i // 2}",
                uuid=f"GPU-{name}-{i}" if uuids else None,
            )
            for i in range(8)
        )
        nics = tuple(
            Nic(name=f"mlx5_{i}", bandwidth_bytes_per_s=50e9, numa=i // 2, root=f"r{i}", bridge=f"s{i}", rdma=True)
            for i in range(4)
        )
        numa = (Numa(cpus=48, memory_bytes=512 * GIB), Numa(cpus=48, memory_bytes=512 * GIB))
        return Node(name=name, numa=numa, devices=devices, nics=nics, labels=tuple(labels))

    made = tuple(node(kind, i * nodes + j) for i, kind in enumerate(kinds) for j in range(nodes))
    return Fleet(kinds=tuple(catalog_kind(kind) for kind in kinds), nodes=made)


replaced = dataclasses.replace
