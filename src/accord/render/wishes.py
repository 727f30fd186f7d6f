"""Everything that a plan wishes of the place where it runs, one by one, so that a target answers each of them.

In: a `FleetPlan`, the `Fleet` where one is known. Out: `Wish`es in words, and those that a target can't express.
Invariant: whatever a plan's parts, relations and seats ask for is one wish; a target has an answer for each.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from accord.render.rendered import Lost
from accord.terms import units
from accord.terms.fleet import Device, DeviceKind, Fleet, Nic, Node, Vendor
from accord.terms.fleet_plan import FleetPlan, Pool
from accord.terms.gang import Apart, Bandwidth, Part, Relation, Scope, Seat, Together


class Aspect(StrEnum):
    """What a wish is about."""

    KIND = "device kind"
    CARDS = "whole devices"
    MEMORY = "device memory of a fraction"
    COMPUTE = "compute share of a fraction"
    CODECS = "codec units"
    CPUS = "CPU cores and host memory"
    NVME = "local scratch"
    NIC = "a network port"
    NIC_RATE = "network bandwidth"
    WITHIN = "a replica's devices near each other"
    NIC_WITHIN = "network port near the devices"
    TOGETHER = "parts near each other"
    APART = "replicas apart"
    BANDWIDTH = "bandwidth between parts"
    GANG = "all or nothing"
    PIN_NODE = "the node that was chosen"
    PIN_DEVICE = "the devices that were chosen"
    PIN_NIC = "the network port that was chosen"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """One wish, `what` in words. `parts` are those it binds; `vendors` make their devices.

    `replica` is the one of the part that a pin is about. `named`: the fleet knows the names (UUIDs, port names) that a
    pin needs. `held`: the fleet is such that the wish holds wherever the part stands.
    """

    aspect: Aspect
    what: str
    parts: tuple[str, ...] = ()
    vendors: tuple[Vendor, ...] = ()
    scope: Scope | None = None
    required: bool = True
    most: int = 1
    replica: int | None = None
    named: bool = True
    held: bool = False


# Why a target can't express a wish, or None if it does.
Judge = Callable[[Wish], str | None]


def lost(plan: FleetPlan, fleet: Fleet | None, judge: Judge, *, pinned: bool) -> tuple[Lost, ...]:
    """The wishes of `plan` that `judge` can't express, in the plan's order, and those of parts that nothing runs."""
    pooled = {pool.part for pool in plan.pools}
    found = []
    for wish in wishes(plan, fleet, pinned=pinned):
        if not pooled & set(wish.parts):
            found.append(Lost(what=wish.what, why="no pool of the plan runs this part"))
        elif not wish.held and (why := judge(wish)) is not None:
            found.append(Lost(what=wish.what, why=why))
    return tuple(found)


def wishes(plan: FleetPlan, fleet: Fleet | None, *, pinned: bool) -> Iterator[Wish]:
    """Every wish of `plan`; the chosen nodes and devices only where they are to be kept."""
    pools = {pool.part: pool for pool in plan.pools}
    vendors = {name: _vendor(pool, fleet) for name, pool in pools.items()}
    for part in plan.gang.parts:
        yield from _of_part(part, pools.get(part.name), vendors.get(part.name, ()), fleet)
    for relation in plan.gang.relations:
        yield _of_relation(relation, vendors)
    if sum(part.replicas for part in plan.gang.parts) > 1:
        names = tuple(part.name for part in plan.gang.parts)
        yield Wish(aspect=Aspect.GANG, what=f"{plan.gang.name}: all parts start, or none", parts=names)
    if pinned:
        for seat in plan.seats:
            yield from _of_seat(seat, vendors.get(seat.part, ()), fleet)


def kind_of(name: str, fleet: Fleet | None) -> DeviceKind | None:
    """The device kind of this name, where the fleet knows it."""
    return next((kind for kind in fleet.kinds if kind.name == name), None) if fleet else None


def _vendor(pool: Pool, fleet: Fleet | None) -> tuple[Vendor, ...]:
    kind = kind_of(pool.kind, fleet)
    return () if kind is None else (kind.vendor,)


def _of_part(part: Part, pool: Pool | None, vendors: tuple[Vendor, ...], fleet: Fleet | None) -> Iterator[Wish]:
    need = part.need
    kinds = (pool.kind,) if pool else part.kinds

    def wish(aspect: Aspect, words: str, *, scope: Scope | None = None, held: bool = False) -> Wish:
        what = f"{part.name}: {words}"
        return Wish(aspect=aspect, what=what, parts=(part.name,), vendors=vendors, scope=scope, held=held)

    if kinds and (need.cards or need.share):
        yield wish(Aspect.KIND, f"devices of kind {' or '.join(kinds)}")
    if need.cards:
        yield wish(Aspect.CARDS, f"{need.cards} whole {'device' if need.cards == 1 else 'devices'}")
    if need.share:
        yield wish(Aspect.COMPUTE, f"{units.format_share(need.share)} of a device's compute")
        if need.memory_bytes:
            yield wish(Aspect.MEMORY, f"{units.format_size_bytes(need.memory_bytes)} of a device's memory")
    for codec in need.codecs:
        yield wish(Aspect.CODECS, f"{codec.units} {codec.name} {'unit' if codec.units == 1 else 'units'}")
    if need.cpus or need.host_memory_bytes:
        yield wish(Aspect.CPUS, f"{need.cpus:g} cores and {units.format_size_bytes(need.host_memory_bytes)} of memory")
    if need.nvme_bytes:
        yield wish(Aspect.NVME, f"{units.format_size_bytes(need.nvme_bytes)} of local scratch")
    if need.nic_bytes_per_s or part.nic_within:
        yield wish(Aspect.NIC, "a network port of its own")
    if need.nic_bytes_per_s:
        yield wish(Aspect.NIC_RATE, f"{_rate(need.nic_bytes_per_s)} of network bandwidth")
    if part.within and need.cards > 1:
        anyway = held(fleet, kinds, part.within, nics=False)
        yield wish(Aspect.WITHIN, f"the devices of a replica within one {part.within}", scope=part.within, held=anyway)
    if part.nic_within:
        words = f"the network port within the devices' {part.nic_within}"
        anyway = held(fleet, kinds, part.nic_within, nics=True)
        yield wish(Aspect.NIC_WITHIN, words, scope=part.nic_within, held=anyway)


def _of_relation(relation: Relation, vendors: dict[str, tuple[Vendor, ...]]) -> Wish:
    match relation:
        case Together(parts=parts, scope=scope, required=required):
            aspect, words, most = Aspect.TOGETHER, f"{' and '.join(parts)} together on one {scope}", 1
        case Apart(parts=parts, scope=scope, required=required, most=most):
            aspect, words = Aspect.APART, f"replicas of {' and '.join(parts)} apart, {most} to a {scope}"
        case Bandwidth(source=source, target=target):
            words = f"{_rate(relation.bytes_per_s)} from {source} to {target}"
            both = (source, target)
            makers = tuple(vendor for name in both for vendor in vendors.get(name, ()))
            return Wish(aspect=Aspect.BANDWIDTH, what=words, parts=both, vendors=makers)
    return Wish(
        aspect=aspect,
        what=words if required else f"{words} (preferred)",
        parts=parts,
        vendors=tuple(vendor for name in parts for vendor in vendors.get(name, ())),
        scope=scope,
        required=required,
        most=most,
    )


def held(fleet: Fleet | None, kinds: tuple[str, ...], scope: Scope, *, nics: bool) -> bool:
    """Whether all devices of these kinds on each node (and its network ports) stand in one `scope` anyway."""
    nodes = fleet.nodes if fleet else ()
    nodes = tuple(node for node in nodes if any(device.kind in kinds for device in node.devices))
    return bool(nodes) and all(_one(node, kinds, scope, nics=nics) for node in nodes)


def _one(node: Node, kinds: tuple[str, ...], scope: Scope, *, nics: bool) -> bool:
    devices = [device for device in node.devices if device.kind in kinds]
    both: tuple[Device | Nic, ...] = (*devices, *(node.nics if nics else ()))
    match scope:
        case Scope.HOST | Scope.LEAF | Scope.SPINE:
            return True
        case Scope.NUMA:
            return len({one.numa for one in both}) == 1
        case Scope.PCIE_ROOT:
            found = {one.root for one in both}
        case Scope.PCIE_SWITCH:
            found = {one.bridge for one in both}
        case Scope.LINK_GROUP:
            found = {device.group for device in devices} if not nics else {None}
        case Scope.CARD:
            return len(devices) == 1 and not nics
    return len(found) == 1 and None not in found


def _of_seat(seat: Seat, vendors: tuple[Vendor, ...], fleet: Fleet | None) -> Iterator[Wish]:
    where = f"{seat.part} {seat.replica}"

    def wish(aspect: Aspect, words: str, *, named: bool = True, held: bool = False) -> Wish:
        what = f"{where}: {words} {seat.node}"
        binds = (seat.part,)
        return Wish(
            aspect=aspect, what=what, parts=binds, vendors=vendors, replica=seat.replica, named=named, held=held
        )

    yield wish(Aspect.PIN_NODE, "on node")
    if seat.devices:
        numbers = ", ".join(map(str, seat.devices))
        known = uuids((seat,), fleet) is not None
        # Whole devices that are all of the node's need no names.
        node = next((node for node in fleet.nodes if node.name == seat.node), None) if fleet else None
        every = node is not None and len(node.devices) == len(seat.devices) and seat.share_milli in (0, 1000)
        yield wish(Aspect.PIN_DEVICE, f"device {numbers} of node", named=known, held=every)
    if seat.nic is not None:
        yield wish(Aspect.PIN_NIC, f"network port {seat.nic} of node", named=ports((seat,), fleet) is not None)


def uuids(seats: tuple[Seat, ...], fleet: Fleet | None) -> tuple[str, ...] | None:
    """The UUIDs of the devices of these seats; None if the fleet doesn't know one of them."""
    nodes = {node.name: node for node in fleet.nodes} if fleet else {}
    found = []
    for seat in seats:
        devices = nodes[seat.node].devices if seat.node in nodes else ()
        found += [devices[number].uuid if number < len(devices) else None for number in seat.devices]
    return tuple(one for one in found if one) if found and all(found) else None


def ports(seats: tuple[Seat, ...], fleet: Fleet | None) -> tuple[str, ...] | None:
    """The names of the network ports of these seats; None if the fleet doesn't know one of them.

    A fleet that was written by hand, without UUIDs, has made-up names for ports, too.
    """
    nodes = {node.name: node for node in fleet.nodes} if fleet else {}
    found = []
    for seat in (seat for seat in seats if seat.nic is not None):
        node = nodes.get(seat.node)
        real = node is not None and all(device.uuid for device in node.devices)
        nic = node.nics[seat.nic] if node and real and seat.nic is not None and seat.nic < len(node.nics) else None
        found.append(nic.name if nic else None)
    return tuple(one for one in found if one) if found and all(found) else None


def _rate(bytes_per_s: float) -> str:
    return f"{bytes_per_s / 1e9:g} GB/s"
