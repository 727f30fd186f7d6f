"""The devices and NICs of a cluster's node, from whoever publishes most about them.

In: a node, and what DRA drivers, HAMi and Koordinator say of it. Out: `Held`. Invariant: the first source that knows
devices is believed alone: ResourceSlices, then HAMi's annotations, then Koordinator's Devices, then plain counts.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from accord.edges.cluster_types import KoordinatorDevice, KubeNode, ResourceSlice, SliceDevice, quantity
from accord.edges.device_names import kind_of_name, kind_seen
from accord.edges.fleet_inside import is_address
from accord.terms.fleet import Device, DeviceKind, Nic, Vendor

# Resources that count whole devices, with the vendor and the labels that name the product and its memory (MiB).
COUNTED: Mapping[str, tuple[Vendor, str, str]] = {
    "nvidia.com/gpu": (Vendor.NVIDIA, "nvidia.com/gpu.product", "nvidia.com/gpu.memory"),
    "amd.com/gpu": (Vendor.AMD, "amd.com/gpu.product-name", ""),
    "huawei.com/Ascend910": (Vendor.ASCEND, "node.kubernetes.io/npu.chip.name", ""),
    "huawei.com/Ascend310P": (Vendor.ASCEND, "node.kubernetes.io/npu.chip.name", ""),
    "cambricon.com/mlu": (Vendor.CAMBRICON, "", ""),
    "kunlunxin.com/xpu": (Vendor.KUNLUNXIN, "", ""),
    "iluvatar.ai/gpu": (Vendor.ILUVATAR, "", ""),
    "metax-tech.com/gpu": (Vendor.METAX, "", ""),
    "hygon.com/dcu": (Vendor.HYGON, "", ""),
    "mthreads.com/gpu": (Vendor.MOORE_THREADS, "", ""),
    "enflame.com/gcu": (Vendor.ENFLAME, "", ""),
}
_HAMI = re.compile(r"hami\.io/node-(.+)-register")
_HAMI_VENDORS = (
    ("nvidia", Vendor.NVIDIA), ("amd", Vendor.AMD), ("mlu", Vendor.CAMBRICON), ("dcu", Vendor.HYGON),
    ("ascend", Vendor.ASCEND), ("npu", Vendor.ASCEND), ("910", Vendor.ASCEND), ("310", Vendor.ASCEND),
    ("iluvatar", Vendor.ILUVATAR), ("xpu", Vendor.KUNLUNXIN), ("kunlun", Vendor.KUNLUNXIN),
    ("metax", Vendor.METAX), ("mthreads", Vendor.MOORE_THREADS), ("enflame", Vendor.ENFLAME),
)  # fmt: skip
_DRIVERS = (("nvidia", Vendor.NVIDIA), ("amd", Vendor.AMD), ("huawei", Vendor.ASCEND), ("ascend", Vendor.ASCEND))
_ROOT = "resource.kubernetes.io/pcieRoot"
_NUMA = ("resource.kubernetes.io/numaNode", "numaNode", "numa")


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A node's devices in order, the kinds of them, its NICs, and the keys by which others speak of a device.

    `unseen` doesn't name the node: what many nodes have in common is said once.
    """

    devices: tuple[Device, ...] = ()
    kinds: tuple[DeviceKind, ...] = ()
    nics: tuple[Nic, ...] = ()
    keys: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _One:
    device: Device
    kind: DeviceKind
    key: str


class _Registered(msgspec.Struct, frozen=True):
    """A device in HAMi's annotation."""

    id: str
    devmem: int = 0
    type: str = ""
    numa: int = 0
    health: bool = True


def held(node: KubeNode, slices: Sequence[ResourceSlice], koordinator: KoordinatorDevice | None) -> Held:
    """What this node has."""
    unseen: list[str] = []
    found = list(_of_slices(slices, unseen))
    nics = list(_slice_nics(slices, unseen))
    if not found:
        found = list(_of_hami(node, unseen))
    if not found and koordinator is not None:
        found = list(_of_koordinator(node, koordinator))
    if koordinator is not None and not nics:
        nics = list(_koordinator_nics(koordinator, unseen))
    if not found:
        found = list(_counted(node, unseen))
    return Held(
        devices=tuple(replace(one.device, uuid=_plain(one.device.uuid), root=_plain(one.device.root)) for one in found),
        kinds=tuple({one.kind.name: one.kind for one in found}.values()),
        nics=tuple({nic.name: replace(nic, root=_plain(nic.root)) for nic in nics if _plain(nic.name)}.values()),
        keys=tuple(one.key for one in found),
        unseen=tuple(unseen),
    )


def _of_slices(slices: Sequence[ResourceSlice], unseen: list[str]) -> Iterator[_One]:
    for one in slices:
        for device in one.spec.devices:
            product = _string(device, one.spec.driver, "productName") or _string(device, one.spec.driver, "model")
            if not product:
                continue
            if _string(device, one.spec.driver, "type") in ("mig", "amdgpu-partition", "vfio"):
                unseen.append(f"{device.name} is a part of a device; its device isn't counted")
                continue
            vendor = _vendor(one.spec.driver, _DRIVERS)
            memory = device.capacity.get("memory") or device.capacity.get(f"{one.spec.driver}/memory")
            kind = kind_seen(
                kind_of_name(product), vendor=vendor, called=product,
                memory_bytes=round(quantity(memory.value)) if memory else None, by=f"a slice of {one.spec.driver}",
            )  # fmt: skip
            uuid = _string(device, one.spec.driver, "uuid")
            where = Device(
                kind=kind.name, numa=_numa(device, one.spec.driver), root=_string(device, "", _ROOT), uuid=uuid
            )
            yield _One(device=where, kind=kind, key=f"{one.spec.driver}/{device.name}")


def _slice_nics(slices: Sequence[ResourceSlice], unseen: list[str]) -> Iterator[Nic]:
    for one in slices:
        for device in one.spec.devices:
            name = _string(device, one.spec.driver, "rdmaDevice") or _string(device, one.spec.driver, "ifName")
            if name is None:
                continue
            rdma = _attribute(device, one.spec.driver, "rdma")
            unseen.append(f"bandwidth of NIC {name}: its driver doesn't publish it; 0 is written")
            yield Nic(
                name=name, bandwidth_bytes_per_s=0, numa=_numa(device, one.spec.driver),
                root=_string(device, "", _ROOT), rdma=bool(rdma),
            )  # fmt: skip


def _of_hami(node: KubeNode, unseen: list[str]) -> Iterator[_One]:
    for key, text in sorted(node.metadata.annotations.items()):
        match = _HAMI.fullmatch(key)
        for one in _registered(text) if match else ():
            if not one.health:
                unseen.append(f"{one.id} is unhealthy, says HAMi")
                continue
            kind = kind_seen(
                kind_of_name(one.type), vendor=_vendor(f"{match[1] if match else ''} {one.type}", _HAMI_VENDORS),
                called=one.type or key, memory_bytes=one.devmem << 20, by="HAMi's annotation",
            )  # fmt: skip
            yield _One(device=Device(kind=kind.name, numa=max(0, one.numa), uuid=one.id), kind=kind, key=one.id)


def _registered(text: str) -> Iterable[_Registered]:
    """A JSON list (HAMi 2.6 and later), or "UUID,split,memory,core,type,numa,health:" for each device."""
    if text.lstrip().startswith("["):
        try:
            return msgspec.json.decode(text, type=list[_Registered])
        except msgspec.DecodeError:
            return ()
    rows = [row.split(",") for row in text.split(":")]
    return [
        _Registered(id=row[0], devmem=int(row[2]), type=row[4], numa=int(row[5]), health=row[6] == "true")
        for row in rows
        if len(row) >= 7 and row[2].isdigit() and row[5].isdigit()
    ]


def _of_koordinator(node: KubeNode, told: KoordinatorDevice) -> Iterator[_One]:
    labels = {**node.metadata.labels, **told.metadata.labels}
    called = labels.get("node.koordinator.sh/gpu-model", "")
    for one in told.spec.devices:
        if one.type not in ("gpu", "npu", "xpu") or not one.health:
            continue
        memory = one.resources.get("koordinator.sh/gpu-memory")
        vendor = Vendor.NVIDIA if one.id.startswith("GPU-") else _vendor(called, _HAMI_VENDORS)
        kind = kind_seen(
            kind_of_name(called), vendor=vendor, called=called or one.type,
            memory_bytes=round(quantity(memory)) if memory else None, by="Koordinator's Device",
        )  # fmt: skip
        where = Device(
            kind=kind.name, numa=max(0, one.topology.node), root=one.topology.pcie or None, uuid=one.id or None
        )
        yield _One(device=where, kind=kind, key=f"minor {one.minor}")


def _koordinator_nics(told: KoordinatorDevice, unseen: list[str]) -> Iterator[Nic]:
    for one in told.spec.devices:
        if one.type == "rdma" and one.health:
            name = f"rdma-{one.minor}"
            unseen.append(f"bandwidth of NIC {name}: Koordinator doesn't publish it; 0 is written")
            root = one.topology.pcie or None
            yield Nic(name=name, bandwidth_bytes_per_s=0, numa=max(0, one.topology.node), root=root, rdma=True)


def _counted(node: KubeNode, unseen: list[str]) -> Iterator[_One]:
    for resource, (vendor, label, memory_label) in COUNTED.items():
        count = round(quantity(node.status.allocatable.get(resource, "0")))
        if count == 0:
            continue
        labels = node.metadata.labels
        called = labels.get(label, "") if label else ""
        memory = labels.get(memory_label, "")
        if called.endswith("-SHARED") or int(labels.get("nvidia.com/gpu.replicas", "1") or 1) > 1:
            unseen.append(f"{resource} is time-sliced, so that its count isn't that of devices")
            count //= max(1, int(labels.get("nvidia.com/gpu.replicas", "1") or 1))
        kind = kind_seen(
            kind_of_name(called), vendor=vendor, called=called or resource.replace("/", "-"),
            memory_bytes=int(memory) << 20 if memory.isdigit() else None, by=f"label {memory_label}",
        )  # fmt: skip
        unseen.append(f"where its {count} {kind.name} stand: nobody publishes it")
        for number in range(count):
            yield _One(device=Device(kind=kind.name), kind=kind, key=f"{resource} {number}")


def _attribute(device: SliceDevice, driver: str, name: str) -> str | int | bool | None:
    found = device.attributes.get(name) or device.attributes.get(f"{driver}/{name}")
    if found is None:
        return None
    return next((value for value in (found.string, found.number, found.flag) if value is not None), None)


def _string(device: SliceDevice, driver: str, name: str) -> str | None:
    value = _attribute(device, driver, name)
    return value if isinstance(value, str) and value else None


def _numa(device: SliceDevice, driver: str) -> int:
    for name in _NUMA:
        value = _attribute(device, driver, name)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return 0


def _vendor(text: str, table: Sequence[tuple[str, Vendor]]) -> Vendor:
    return next((vendor for word, vendor in table if word in text.lower()), Vendor.OTHER)


def _plain(text: str | None) -> str | None:
    """The text, if a fleet file can hold it."""
    return text if text is not None and is_address(text) else None
