"""Devices and network ports of a pool -> resource claims (`resource.k8s.io/v1`), or counts where no driver has claims.

In: a `Member`. Out: `Dress`. Invariant: a pod never gets less than its part needs: where a fraction can't be
claimed, the whole device is.
"""

from dataclasses import dataclass

from accord.render.dress import Claim, Dress, Member, Pairs
from accord.render.hami_ask import percent
from accord.render.kubernetes_drivers import (
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
from accord.render.kubernetes_slices import CORES, joint_bytes, joint_capacity, mates_of, slice_of_member
from accord.render.names import label_name
from accord.render.plugin_names import whole_devices
from accord.render.pods import byte_quantity, labels, plan_labels
from accord.render.wishes import ports, uuids
from accord.render.yaml_text import Document, Value
from accord.terms.fleet import DeviceKind
from accord.terms.gang import Scope

_JOINT = "devices"
_PORT_NAMES = ("ifName", "rdmaDevice")


def claim_devices(member: Member) -> Dress:
    """What `member` needs of devices and network ports, as its pods ask for it."""
    mates = mates_of(member)
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


def _one_card(member: Member, mates: list[Member]) -> Dress:
    """One claim by name, which the pods of all parts use: so they share a card."""
    parts = [mate.part.name for mate in mates]
    # Drivers bound what a claim has of a device, not what a request has of it: one request holds it for all parts, but
    # for partitions, which are devices of their own.
    split = all(slice_of_member(mate).template for mate in mates)
    asked = [_Asked(devices=label_name(part) if split else _JOINT, nic=label_name(part, "nic")) for part in parts]
    requests = [one for names, mate in zip(asked, mates, strict=True) for one in names.requests(mate)]
    constraints = [one for names, mate in zip(asked, mates, strict=True) for one in names.constraints(mate)]
    mine, driver, kind = asked[parts.index(member.part.name)], slice_of_member(member).driver, member.kind
    if split:
        devices: list[Value] = [names.devices for names in asked]
        constraints.append({"matchAttribute": f"{driver.name}/{driver.slice_of}", "requests": devices})
    elif kind is not None:
        joint: Document = {"name": _JOINT, "exactly": _devices(mates[0], kind, capacity=joint_capacity(mates))}
        requests = [joint, *(one for one in requests if one["name"] != _JOINT)]
    used = [mine.devices]
    used += [mine.nic] if any(request["name"] == mine.nic for request in requests) else []
    claim_name = label_name(member.plan.name, *parts)
    document: Document = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": claim_name, "namespace": member.options.namespace, "labels": plan_labels(member)},
        "spec": {"devices": _whole_claim(requests, constraints)},
    }
    return Dress(
        claims=(Claim(name="claim", shared=claim_name, requests=tuple(used)),),
        documents=(*_classes(mates), document),
        tolerations=_tolerations(member),
        confines=split,
        visible_bytes=joint_bytes(mates),
    )


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
        capacity = {"cores": str(percent(need.share, CORES))}
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


def _counted(member: Member) -> Pairs:
    """Whole devices, counted by the vendor's plugin, where no driver with claims is known; a fraction takes one."""
    return () if member.vendor in WHOLE else whole_devices(member)
