"""Hypothesis strategies: tiny fleets of any shape, sensible or not, and gangs that nearly fit them."""

from dataclasses import replace

from hypothesis import strategies as st

from accord.terms.fleet import (
    Codec,
    Device,
    DeviceKind,
    Figure,
    Fleet,
    Nic,
    Node,
    Numa,
    Tag,
    Taken,
    Template,
    Vendor,
)  # fmt: skip
from accord.terms.gang import Apart, Bandwidth, Gang, Need, Part, Relation, Scope, Together

UNIT = 1 << 30
GB = 10**9


def memory(units: int) -> Figure:
    return Figure(value=units * UNIT, tag=Tag.ASSUMED, source="a test")


KINDS = (
    DeviceKind(name="hard", vendor=Vendor.ASCEND, memory_bytes=memory(4), soft_share=False, templates=(
        Template(name="half", memory_bytes=2 * UNIT, share=0.5, count_max=2, codecs=(Codec(name="dec", units=1),)),
        Template(name="quarter", memory_bytes=UNIT, share=0.25, count_max=3),
    ), codecs=(Codec(name="dec", units=2),)),
    DeviceKind(name="pair", vendor=Vendor.ASCEND, memory_bytes=memory(2), pairs=True),
    DeviceKind(name="soft", vendor=Vendor.NVIDIA, memory_bytes=memory(4), codecs=(Codec(name="dec", units=3),)),
)  # fmt: skip
NEAR = [Scope.LINK_GROUP, Scope.PCIE_SWITCH, Scope.PCIE_ROOT, Scope.NUMA]


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Node:
    domains = draw(st.integers(1, 2))
    numa = st.integers(0, domains - 1)
    root, bridge, group = (
        st.sampled_from([None, "r0", "r1"]),
        st.sampled_from([None, "b0"]),
        st.sampled_from([None, "g"]),
    )
    kinds = st.sampled_from(["soft", "soft", "hard", "pair"])
    device = st.builds(Device, kind=kinds, numa=numa, root=root, bridge=bridge, group=group)
    nic = st.builds(
        Nic,
        name=st.just("nic"),
        bandwidth_bytes_per_s=st.sampled_from([2.0 * GB, 4.0 * GB]),
        numa=numa,
        root=root,
        bridge=bridge,
    )
    return Node(
        name=name,
        numa=tuple(
            Numa(cpus=draw(st.integers(1, 4)), memory_bytes=draw(st.integers(1, 4)) * UNIT) for _ in range(domains)
        ),
        devices=tuple(draw(st.lists(device, max_size=4))),
        nics=tuple(draw(st.lists(nic, max_size=2))),
        leaf=draw(st.sampled_from([None, "l0", "l1"])),
        spine=draw(st.sampled_from([None, "s0"])),
        nvme_bytes=draw(st.integers(0, 2)) * UNIT,
    )


@st.composite
def held(draw: st.DrawFn, node: str, device: int, kind: str) -> Taken:
    """Some of a device, all of it, or a partition."""
    share = draw(st.sampled_from([0.0, 0.25, 0.5, 1.0]))
    its = Taken(node=node, owner="before", device=device, share=share, memory_bytes=UNIT if share < 1 else 2 * UNIT)
    if kind == "hard" and share < 1:
        return replace(its, share=0.25, template="quarter")
    if kind == "soft":
        return replace(its, codecs=draw(st.sampled_from([(), (Codec(name="dec", units=2),)])))
    return its


@st.composite
def fleets(draw: st.DrawFn) -> Fleet:
    its = tuple(draw(nodes(f"n{number}")) for number in range(draw(st.integers(1, 3))))
    taken = []
    for node in its:
        for number, device in enumerate(node.devices):
            if draw(st.integers(0, 4)) == 0:
                taken.append(draw(held(node.name, number, device.kind)))
        if draw(st.booleans()):
            taken.append(Taken(node=node.name, owner="before", cpus=1.0, numa=len(node.numa) - 1))
    return Fleet(kinds=KINDS, nodes=its, taken=tuple(taken))


@st.composite
def needs(draw: st.DrawFn) -> Need:
    cards, share = draw(
        st.sampled_from([(0, 0.0), (0, 0.3), (0, 0.3), (0, 0.5), (0, 0.6), (1, 0.0), (1, 0.0), (2, 0.0), (3, 0.0)])
    )
    units = draw(st.sampled_from([0, 0, 1, 2]))
    device = cards or share or draw(st.booleans())  # memory or codecs alone are of a device, too
    return Need(
        cards=cards,
        share=share,
        memory_bytes=draw(st.integers(0, 2)) * UNIT if device else 0,
        codecs=(Codec(name="dec", units=units),) if units and device else (),
        cpus=draw(st.sampled_from([0.0, 0.0, 0.5, 1.0, 2.0, 3.0])),
        host_memory_bytes=draw(st.integers(0, 3)) * UNIT,
        nic_bytes_per_s=draw(st.sampled_from([0.0, 0.0, 1.0 * GB, 2.0 * GB])),
        nvme_bytes=draw(st.sampled_from([0, 0, 0, 1])) * UNIT,
    )


def on_devices(need: Need) -> bool:
    return bool(need.cards or need.share or need.memory_bytes or need.codecs)


@st.composite
def gangs(draw: st.DrawFn, required: bool | None = True) -> Gang:
    parts = []
    for number in range(draw(st.integers(1, 3))):
        need = draw(needs())
        near = NEAR if on_devices(need) else [Scope.NUMA]
        parts.append(
            Part(
                name=f"p{number}",
                need=need,
                replicas=draw(st.integers(1, 2)),
                kinds=draw(st.sampled_from([(), (), ("soft",), ("hard", "pair")])) if on_devices(need) else (),
                within=draw(st.sampled_from([None, None, None, None, *near])),
                nic_within=draw(
                    st.sampled_from([None, None, None, *(scope for scope in near if scope is not Scope.LINK_GROUP)])
                ),
            )
        )
    names = [part.name for part in parts]
    bare = [part.name for part in parts if not on_devices(part.need)]
    relations: list[Relation] = []
    for _ in range(draw(st.integers(0, 2))):
        some = tuple(draw(st.lists(st.sampled_from(names), min_size=1, unique=True)))
        scopes = [Scope.NUMA, Scope.HOST, Scope.LEAF, Scope.SPINE]
        if not set(some) & set(bare):
            scopes += [Scope.CARD, Scope.LINK_GROUP, Scope.PCIE_SWITCH, Scope.PCIE_ROOT]
        must = draw(st.booleans()) if required is None else required
        weight = draw(st.sampled_from([0.1, 1.0, 3.0]))
        match draw(st.integers(0, 4)):
            case 0 | 1:
                relations.append(
                    Together(parts=some, scope=draw(st.sampled_from(scopes)), required=must, weight=weight)
                )
            case 2 | 3:
                most = draw(st.integers(1, 2))
                relations.append(
                    Apart(parts=some, scope=draw(st.sampled_from(scopes)), most=most, required=must, weight=weight)
                )
            case _ if len(names) > 1:
                source, target = draw(st.permutations(names))[:2]
                relations.append(
                    Bandwidth(source=source, target=target, bytes_per_s=draw(st.sampled_from([1.0, 1.5])) * GB)
                )
    return Gang(name="gang", parts=tuple(parts), relations=tuple(relations))
