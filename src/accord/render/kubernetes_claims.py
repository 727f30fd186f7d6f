"""Devices and network ports of a pool -> resource claims (`resource.k8s.io/v1`), or counts where no driver has claims.

In: a `Member`. Out: `Dress`. Invariant: a pod never gets less than its part needs: where a fraction can't be
claimed, the whole device is.
"""

from dataclasses import dataclass

from accord.render.dress import Claim, Dress, Member, Pairs
from accord.render.engines.table import runs
from accord.render.hami_ask import percent
from accord.render.kubernetes_drivers import (
    FRACTIONS,
    NIC_CLASS,
    NIC_DRIVER,
    NUMA_NODE,
    PCIE_ROOT,
    WHOLE,
    Driver,
    attribute,
    literal,
    of_kind,
    of_memory,
    one_of,
)
from accord.render.names import label_name
from accord.render.plugin_names import whole_devices
from accord.render.pods import byte_quantity, labels, plan_labels
from accord.render.wishes import ports, uuids
from accord.render.workloads import members
from accord.render.yaml_text import Document, Value
from accord.terms.fleet import DeviceKind, Template
from accord.terms.fleet_plan import FleetPlan
from accord.terms.gang import Need, Scope, Together

_CORES = 100  # HAMi's drivers count compute in hundredths of a device
_JOINT = "devices"
_PORT_NAMES = ("ifName", "rdmaDevice")


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """How a fraction is claimed: from `driver`, as a hard partition of this `template` or as a share of its capacity.

    Neither: the whole device.
    """

    driver: Driver
    template: str | None = None
    shared: bool = False


def claim_devices(member: Member) -> Dress:
    """What `member` needs of devices and network ports, as its pods ask for it."""
    mates = tuple(mate.part.name for mate in mates_of(member))
    if mates:
        return _one_card(member, mates)
    own = _Asked(devices="devices", nic="nic")
    requests = own.requests(member)
    if not requests:
        return Dress(limits=_counted(member))
    document: Document = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": member.name, "namespace": member.options.namespace, "labels": labels(member)},
        "spec": {"spec": {"devices": _whole_claim(requests, own.constraints(member))}},
    }
    claim = Claim(name="claim", template=member.name)
    return Dress(
        limits=_counted(member),
        claims=(claim,),
        documents=(*_classes([member]), document),
        tolerations=_tolerations(member),
    )


def _tolerations(member: Member) -> tuple[str, ...]:
    """Kubernetes tolerates taints by itself only for devices that are counted, not for claimed ones."""
    need = member.part.need
    taint = slice_of_member(member).driver.taint if (need.cards or need.share) and member.vendor in WHOLE else None
    return (taint,) if taint else ()


def _one_card(member: Member, mates: tuple[str, ...]) -> Dress:
    """One claim by name, which the pods of all parts use: so they share a card."""
    several = [_mate(member, part) for part in mates]
    asked = [_Asked(devices=label_name(part), nic=label_name(part, "nic")) for part in mates]
    requests = [one for names, mate in zip(asked, several, strict=True) for one in names.requests(mate)]
    constraints = [one for names, mate in zip(asked, several, strict=True) for one in names.constraints(mate)]
    mine, driver = asked[mates.index(member.part.name)], slice_of_member(member).driver
    split = all(slice_of_member(mate).template for mate in several)
    if split:
        devices: list[Value] = [names.devices for names in asked]
        constraints.append({"matchAttribute": f"{driver.name}/{driver.slice_of}", "requests": devices})
        used = [mine.devices]
    else:
        # Drivers bound what a claim has of a device, not what a request of it has: one request holds it for all parts.
        every = {names.devices for names in asked}
        whole = _devices(several[0], several[0].kind, capacity=joint_capacity(several)) if several[0].kind else {}
        requests = [{"name": _JOINT, "exactly": whole}, *(one for one in requests if one["name"] not in every)]
        constraints = []
        used = [_JOINT]
    used += [mine.nic] if any(request["name"] == mine.nic for request in requests) else []
    claim_name = label_name(member.plan.name, *mates)
    document: Document = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": claim_name, "namespace": member.options.namespace, "labels": plan_labels(member)},
        "spec": {"devices": _whole_claim(requests, constraints)},
    }
    return Dress(
        claims=(Claim(name="claim", shared=claim_name, requests=tuple(used)),),
        documents=(*_classes(several), document),
        tolerations=_tolerations(member),
        confines=split,
        visible_bytes=joint_bytes(several),
    )


def joint_capacity(several: list[Member]) -> Document:
    """What all replicas of parts on one card take of it together; nothing where its driver gives out whole devices."""
    if not all(slice_of_member(member).shared for member in several):
        return {}
    cores = sum(percent(member.part.need.share, _CORES) * member.part.replicas for member in several)
    memory = joint_bytes(several)
    return {"cores": str(min(cores, _CORES)), **({"memory": byte_quantity(memory)} if memory else {})}


def joint_bytes(several: list[Member]) -> int | None:
    """The memory of that; None where a part states none, and for a whole device."""
    sizes = [member.part.need.memory_bytes * member.part.replicas for member in several]
    return sum(sizes) if all(sizes) and all(slice_of_member(member).shared for member in several) else None


def mates_of(member: Member) -> list[Member]:
    """Members of all parts on the card of this one, itself among them; none where nothing else is on it."""
    mates = card_mates(member.plan, member.part.name)
    return [_mate(member, part) for part in mates] if len(mates) > 1 and one_vendor(member, mates) else []


def _mate(member: Member, part: str) -> Member:
    """The member of another part on the same card."""
    pool = next(pool for pool in member.plan.pools if pool.part == part)
    return members(member.plan, pool, member.fleet, member.options)[0][0]


def one_vendor(member: Member, parts: tuple[str, ...]) -> bool:
    """Whether one driver with claims has the devices of all these parts."""
    pooled = {pool.part for pool in member.plan.pools}
    if not set(parts) <= pooled:
        return False
    mates = [_mate(member, part) for part in parts]
    return member.vendor in WHOLE and len({(mate.kind.name if mate.kind else "") for mate in mates}) == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """Requests of one part, by the names that they have in their claim."""

    devices: str
    nic: str

    def requests(self, member: Member) -> list[Document]:
        """The request for devices, and the one for a network port."""
        need = member.part.need
        found: list[Document] = []
        if (need.cards or need.share) and member.kind and member.vendor in WHOLE:
            found.append({"name": self.devices, "exactly": _devices(member, member.kind)})
        if need.nic_bytes_per_s or member.part.nic_within:
            found.append({"name": self.nic, "exactly": _nic(member)})
        return found

    def constraints(self, member: Member) -> list[Document]:
        """What the devices and the port must have in common."""
        names = [str(one["name"]) for one in self.requests(member)]
        if self.devices not in names or not member.vendor:
            return []
        driver = slice_of_member(member).driver
        near: dict[str, list[str]] = {}
        if member.part.within and member.part.need.cards > 1:
            near[common_attribute(member.part.within, driver)] = [self.devices]
        if member.part.nic_within and self.nic in names:
            near[common_attribute(member.part.nic_within, driver)] = [self.devices, self.nic]
        found: list[Document] = []
        for name, requests in near.items():
            found += [{"matchAttribute": name, "requests": requests}] if name else []
        return found


def common_attribute(scope: Scope, driver: Driver) -> str:
    """The attribute that things within `scope` share; for a switch the root above it. Empty if there is none."""
    match scope:
        case Scope.PCIE_ROOT | Scope.PCIE_SWITCH if driver.pcie_root:
            return PCIE_ROOT
        case Scope.NUMA if driver.numa:
            return NUMA_NODE
        case _:
            return ""


def _whole_claim(requests: list[Document], constraints: list[Document]) -> Document:
    return {"requests": requests, **({"constraints": constraints} if constraints else {})}


def slice_of_member(member: Member) -> Slice:
    """How the devices of a pool with claims are claimed."""
    need = member.part.need
    if member.kind is None or member.vendor not in WHOLE:
        raise ValueError(f"pool {member.pool.name}: no driver with claims")
    if need.cards and not _kind_is_shared(member):
        return Slice(driver=WHOLE[member.kind.vendor])
    if need.cards:
        # Two drivers that publish one device give it out twice; of a device that is asked for whole, all is taken.
        return Slice(driver=FRACTIONS[member.kind.vendor])
    return slice_of(member.kind, need, _template_of(member.plan, member.part.name))


def _kind_is_shared(member: Member) -> bool:
    """Whether another pool takes shares of the capacity of devices of this kind."""
    needs = {part.name: part.need for part in member.plan.gang.parts}
    others = [pool.part for pool in member.plan.pools if pool.kind == member.pool.kind and needs[pool.part].share]
    kind = member.kind
    return kind is not None and any(
        slice_of(kind, needs[name], _template_of(member.plan, name)).shared for name in others
    )


def _template_of(plan: FleetPlan, part: str) -> str | None:
    """The template that all seats of a part name."""
    templates = {seat.template for seat in plan.seats if seat.part == part}
    return next(iter(templates)) if len(templates) == 1 else None


def _devices(member: Member, kind: DeviceKind, *, capacity: Document | None = None) -> Document:
    need, found = member.part.need, slice_of_member(member)
    driver = found.driver
    selectors = of_kind(driver, kind)
    if found.template:
        selectors.append(one_of(driver.name, str(driver.profile), [found.template]))
    else:
        selectors += of_memory(driver, kind)
    selectors += [f"{attribute(driver.name, 'type')} == {literal(driver.whole)}"] if driver.whole else []
    pins, name = uuids(member.seats, member.fleet), driver.slice_of if found.template else driver.uuid
    if pins and name:
        selectors.append(one_of(driver.name, name, pins))
    if capacity is None and found.shared:
        capacity = {"cores": str(percent(need.share, _CORES))}
        capacity |= {"memory": byte_quantity(need.memory_bytes)} if need.memory_bytes else {}
    return {
        "deviceClassName": (driver.slice_class if found.template else None) or driver.device_class,
        "allocationMode": "ExactCount",
        "count": need.cards or 1,
        "selectors": [{"cel": {"expression": one}} for one in selectors],
        **({"capacity": {"requests": capacity}} if capacity else {}),
    }


def _nic(member: Member) -> Document:
    selectors = [f"{attribute(NIC_DRIVER, 'rdma')} == true"]
    pins = ports(member.seats, member.fleet)
    if pins:
        # A port is known by the name of its interface or of its RDMA device; it may lack either.
        domain = f"device.attributes[{literal(NIC_DRIVER)}]"
        names = [f"({literal(one)} in {domain} && {one_of(NIC_DRIVER, one, pins)})" for one in _PORT_NAMES]
        selectors.append(" || ".join(names))
    return {
        "deviceClassName": NIC_CLASS,
        "allocationMode": "ExactCount",
        "count": 1,
        "selectors": [{"cel": {"expression": one}} for one in selectors],
    }


def _classes(several: list[Member]) -> list[Document]:
    """The device classes that no driver brings."""
    wanted: dict[str, str] = {}
    for member in several:
        need = member.part.need
        if (need.cards or need.share) and member.vendor in WHOLE and not slice_of_member(member).driver.ships_class:
            wanted[slice_of_member(member).driver.device_class] = slice_of_member(member).driver.name
        if need.nic_bytes_per_s or member.part.nic_within:
            wanted[NIC_CLASS] = NIC_DRIVER
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": name},
            "spec": {"selectors": [{"cel": {"expression": f"device.driver == {literal(driver)}"}}]},
        }
        for name, driver in wanted.items()
    ]


def slice_of(kind: DeviceKind, need: Need, template: str | None) -> Slice:
    """How a fraction of a device of this kind is claimed. `template` is what its seat says."""
    whole = WHOLE[kind.vendor]
    named = next((one for one in kind.templates if one.name == template), None) or _smallest(kind, need)
    if whole.profile is not None and named is not None and (template is not None or not kind.soft_share):
        return Slice(driver=whole, template=named.name)
    fractions = FRACTIONS.get(kind.vendor)
    return Slice(driver=fractions, shared=True) if fractions and kind.soft_share else Slice(driver=whole)


def card_mates(plan: FleetPlan, part: str) -> tuple[str, ...]:
    """All parts with processes that must stand on one card with this one; empty if none must."""
    running = {pool.part for pool in plan.pools if runs(plan, pool)}
    for relation in plan.gang.relations:
        match relation:
            case Together(parts=parts, scope=Scope.CARD, required=True) if part in parts:
                return tuple(sorted(set(parts) & running))
            case _:
                continue
    return ()


def _smallest(kind: DeviceKind, need: Need) -> Template | None:
    fitting = [one for one in kind.templates if one.memory_bytes >= need.memory_bytes and one.share >= need.share]
    return min(fitting, key=lambda one: (one.memory_bytes, one.share, one.name), default=None)


def _counted(member: Member) -> Pairs:
    """Whole devices, counted by the vendor's plugin, where no driver with claims is known; a fraction takes one."""
    return () if member.vendor in WHOLE else whole_devices(member)
