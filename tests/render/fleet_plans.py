"""Small fleet plans for tests of renders: pools of one device kind each, on a fleet of the test's own."""

from accord.terms.fleet import Device, DeviceKind, Figure, Fleet, Nic, Node, Numa, Tag, Vendor
from accord.terms.fleet_plan import FleetPlan, Parallel, Pool
from accord.terms.gang import Gang, Need, Part
from accord.terms.graph import DOOR, Batching, Capability, Edge, Payload, Stage, StageGraph

GIB = 1 << 30


def kind(name, vendor, *, gib=None, **more):
    memory = Figure(value=gib * GIB, tag=Tag.ASSUMED, source="a test") if gib else None
    return DeviceKind(name=name, vendor=vendor, memory_bytes=memory, **more)


H20 = kind("h20", Vendor.NVIDIA, gib=96)
B3 = kind("ascend-910b3", Vendor.ASCEND, gib=64)


def fleet(*kinds, nodes=4, uuids=True, names=None):
    """Nodes of eight devices of each kind in turn, two nodes to a leaf switch, one spine over all."""
    made = []
    for number in range(nodes * max(1, len(kinds))):
        one = kinds[number % len(kinds)]
        devices = tuple(
            Device(
                kind=one.name,
                numa=at // 4,
                root=f"r{at // 2}",
                bridge=f"b{at // 2}",
                group="g",
                uuid=f"U-{number}-{at}" if uuids else None,
            )
            for at in range(8)
        )
        nics = tuple(
            Nic(name=f"mlx5_{at}", bandwidth_bytes_per_s=5e10, numa=at // 2, root=f"r{at}", bridge=f"b{at}", rdma=True)
            for at in range(4)
        )
        made.append(
            Node(
                name=names[number] if names else f"n{number:02}",
                numa=(Numa(cpus=64, memory_bytes=512 * GIB),) * 2,
                devices=devices,
                nics=nics,
                leaf=f"leaf-{number // 2}",
                spine="spine-0",
            )
        )
    return Fleet(kinds=tuple(kinds), nodes=tuple(made))


def plan(*parts, name="chat", relations=(), seats=(), nodes=None):
    """One pool a part, on the part's first kind."""
    nodes = nodes or {}
    pools = tuple(
        Pool(
            name=part.name,
            stage="decoder",
            part=part.name,
            engine="vllm",
            kind=part.kinds[0],
            replicas=part.replicas // nodes.get(part.name, 1),
            nodes=nodes.get(part.name, 1),
            parallel=Parallel(tensor=max(1, part.need.cards), pipeline=nodes.get(part.name, 1)),
        )
        for part in parts
    )
    stage = Stage(name="decoder", capabilities=(Capability.AR,), batching=Batching.CONTINUOUS)
    edges = (
        Edge(name="in", source=DOOR, target="decoder", payload=Payload.TOKENS),
        Edge(name="out", source="decoder", target=DOOR, payload=Payload.TOKENS),
    )
    return FleetPlan(
        name=name,
        model="org/model",
        graph=StageGraph(model="model", stages=(stage,), edges=edges),
        pools=pools,
        gang=Gang(name=name, parts=tuple(parts), relations=tuple(relations)),
        seats=tuple(seats),
    )


def part(name, on, *, replicas=1, within=None, nic_within=None, **need):
    return Part(name=name, need=Need(**need), replicas=replicas, kinds=(on.name,), within=within, nic_within=nic_within)
