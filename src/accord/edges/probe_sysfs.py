"""Looks at this machine's hardware: NUMA domains, the PCIe tree, accelerators, NICs, disks.

In: a folder with /sys and /proc, and what a driver's library knows of its devices. Out: `Seen`. Invariant: only files
are read; what can't be read is in `unseen`, never guessed.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from accord.edges.device_names import PCI_VENDORS, kind_of_name, kind_of_pci, kind_seen
from accord.edges.name_range import expand
from accord.terms import units
from accord.terms.errors import BadInput
from accord.terms.fleet import Device, DeviceKind, Nic, Node, Numa, Vendor

_BDF = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")
_ROOT = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")
_BRIDGE, _DISK = "0604", "0108"
_NETWORKS = ("0200", "0207")
# Display, 3D, processing accelerator, co-processor, other display: what vendors give their cards.
_ACCELERATORS = ("0300", "0302", "0380", "1200", "0b40")
_MEMORY_APART = 50  # one part in so many, beyond which two counts of the memory differ
_DEPTH_MAX = 16
_LEAF = "leaf switch: a machine doesn't know it; write `leaf` by hand"
_TAKEN = "what is taken: this machine's users; write `taken` by hand, or probe the cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What a driver knows of one device. `peers` are addresses that it has fast links with."""

    address: str
    name: str
    uuid: str | None = None
    memory_bytes: int | None = None
    peers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A machine as it was seen."""

    node: Node
    kinds: tuple[DeviceKind, ...]
    unseen: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Function:
    """One PCI function: its folder, and the addresses of the bridges above it, outermost first."""

    folder: Path
    root: str
    bridges: tuple[str, ...]

    @property
    def address(self) -> str:
        return self.folder.name

    @property
    def kind(self) -> str:
        """Class and subclass, four hexadecimal digits."""
        return _text(self.folder / "class").removeprefix("0x")[:4].lower()

    @property
    def numa(self) -> int | None:
        return _int(_text(self.folder / "numa_node"))

    @property
    def bridge(self) -> str | None:
        """The upstream port of the outermost switch: what stands below it meets without crossing the root complex.

        A device without a switch has one bridge above it, its root port.
        """
        return self.bridges[1] if len(self.bridges) > 1 else None

    def id(self, name: str) -> int:
        return _int(_text(self.folder / name), base=16) or 0


def probe_machine(root: Path, *, name: str, cards: Sequence[Card]) -> Seen:
    """The machine whose /sys and /proc lie below `root`."""
    functions = tuple(_functions(root / "sys/devices"))
    unseen = [] if functions else ["PCIe: no devices in /sys/devices/pci*"]
    numa = _numa(root, unseen)
    known = {card.address: card for card in (*cards, *_proc_nvidia(root, cards))}
    kinds: dict[str, DeviceKind] = {}
    found = [(one, _kind(one, known.get(one.address))) for one in functions if _is_accelerator(one)]
    groups = _groups(cards)
    devices = []
    for one, kind in found:
        kinds[kind.name] = kind
        card = known.get(one.address)
        numa_of = _domain(one, numa, unseen)
        devices.append(
            Device(
                kind=kind.name, numa=numa_of, root=one.root, bridge=one.bridge, group=groups.get(one.address),
                uuid=card.uuid if card else None,
            )
        )  # fmt: skip
    nics = [nic for one in functions if one.kind in _NETWORKS for nic in _ports(one, numa, unseen)]
    node = Node(
        name=_node_name(name),
        numa=numa,
        devices=tuple(devices),
        nics=tuple({nic.name: nic for nic in nics}.values()),
        nvme_bytes=sum(_disk_bytes(one.folder) for one in functions if one.kind == _DISK),
    )
    unseen += [*_unknown(kinds), _LEAF, _TAKEN]
    return Seen(node=node, kinds=tuple(kinds[key] for key in sorted(kinds)), unseen=tuple(dict.fromkeys(unseen)))


def _functions(devices: Path) -> Iterator[_Function]:
    for folder in _folders(devices):
        if _ROOT.fullmatch(folder.name):
            yield from _below(folder, root=folder.name, bridges=())


def _below(folder: Path, *, root: str, bridges: tuple[str, ...]) -> Iterator[_Function]:
    for child in _folders(folder):
        if not _BDF.fullmatch(child.name) or len(bridges) > _DEPTH_MAX:
            continue
        one = _Function(folder=child, root=root, bridges=bridges)
        if one.kind == _BRIDGE:
            yield from _below(child, root=root, bridges=(*bridges, child.name))
        elif not (child / "physfn").exists():  # virtual functions are parts of what was counted already
            yield one


def _numa(root: Path, unseen: list[str]) -> tuple[Numa, ...]:
    folders = [one for one in _folders(root / "sys/devices/system/node") if re.fullmatch(r"node[0-9]+", one.name)]
    found = []
    for folder in sorted(folders, key=lambda one: int(one.name[4:])):
        cpus = _cpus(_text(folder / "cpulist"))
        found.append(Numa(cpus=cpus, memory_bytes=_kib(_text(folder / "meminfo"), "MemTotal") << 10))
    total = _kib(_text(root / "proc/meminfo"), "MemTotal") << 10
    if not found:
        unseen.append("NUMA domains: no /sys/devices/system/node; all cores and memory stand in one")
        return (Numa(cpus=_cpus(_text(root / "sys/devices/system/cpu/online")), memory_bytes=total),)
    if total and len(found) == 1:  # memory that was plugged in later counts in the total alone
        return (Numa(cpus=found[0].cpus, memory_bytes=total),)
    inside = sum(numa.memory_bytes for numa in found)
    if abs(total - inside) * _MEMORY_APART > total:
        words = f"{units.format_size_bytes(inside, digits=3)}, in all {units.format_size_bytes(total, digits=3)}"
        unseen.append(f"memory: NUMA domains have {words}; the rest is in none of them")
    return tuple(found)


def _domain(one: _Function, numa: Sequence[Numa], unseen: list[str]) -> int:
    domain = one.numa
    if domain is not None and 0 <= domain < len(numa):
        return domain
    if len(numa) > 1:
        unseen.append(f"NUMA domain of {one.address}: the kernel doesn't say; 0 is written")
    return 0


def _is_accelerator(one: _Function) -> bool:
    return one.kind in _ACCELERATORS and one.id("vendor") in PCI_VENDORS


def _kind(one: _Function, card: Card | None) -> DeviceKind:
    vendor, device = one.id("vendor"), one.id("device")
    maker = PCI_VENDORS.get(vendor, Vendor.OTHER)
    name = (kind_of_name(card.name) if card else None) or kind_of_pci(vendor, device)
    called = card.name if card else f"{maker.value}-{device:04x}"
    return kind_seen(
        name, vendor=maker, called=called, memory_bytes=card.memory_bytes if card else None, by="the driver"
    )


def _unknown(kinds: dict[str, DeviceKind]) -> list[str]:
    return [
        f"figures of {kind.name}: the catalog doesn't know this device; write `like` by hand"
        for kind in kinds.values()
        if kind.bandwidth_bytes_per_s is None and not kind.rates
    ]


def _groups(cards: Sequence[Card]) -> dict[str, str]:
    """Cards that reach each other over fast links, by address."""
    peers = {card.address: set(card.peers) for card in cards if card.peers}
    group: dict[str, str] = {}
    for address in sorted(peers):
        if address in group:
            continue
        label, reached = f"link-{len(set(group.values()))}", [address]
        while reached:
            one = reached.pop()
            if one not in group:
                group[one] = label
                reached += sorted(peers.get(one, ()))
    return group


def _ports(one: _Function, numa: Sequence[Numa], unseen: list[str]) -> Iterator[Nic]:
    """RDMA ports that are up, or the network interface of a NIC without RDMA."""
    domain = _domain(one, numa, unseen)
    rdma = [(device, port) for device in _folders(one.folder / "infiniband") for port in _folders(device / "ports")]
    for device, port in rdma:
        name = device.name if port.name == "1" else f"{device.name}-{port.name}"
        rate = re.match(r"([0-9.]+) Gb/sec", _text(port / "rate"))
        if "ACTIVE" not in _text(port / "state") or rate is None:
            unseen.append(f"NIC {name}: its link is down, so that its bandwidth isn't known")
            continue
        bandwidth = units.parse_bandwidth_bytes_per_s(f"{rate[1]}Gb/s", field=name)
        yield _nic(one, name, bandwidth, numa=domain, rdma=True)
    if rdma:
        return
    for interface in (*_folders(one.folder / "net"), *_virtio(one.folder)):
        speed = _int(_text(interface / "speed"))
        if speed is None or speed <= 0:
            unseen.append(f"NIC {interface.name}: the kernel gives no speed")
            continue
        bandwidth = units.parse_bandwidth_bytes_per_s(f"{speed}Mb/s", field=interface.name)
        yield _nic(one, interface.name, bandwidth, numa=domain, rdma=False)


def _nic(one: _Function, name: str, bandwidth: float, *, numa: int, rdma: bool) -> Nic:
    return Nic(name=name, bandwidth_bytes_per_s=bandwidth, numa=numa, root=one.root, bridge=one.bridge, rdma=rdma)


def _virtio(folder: Path) -> Iterator[Path]:
    for child in _folders(folder):
        if child.name.startswith("virtio"):
            yield from _folders(child / "net")


def _disk_bytes(folder: Path) -> int:
    """All namespaces; with multipath the kernel shows a controller's paths (nvme0c0n1) in their place."""
    sizes: dict[str, int] = {}
    for controller in _folders(folder / "nvme"):
        for child in _folders(controller):
            match = re.fullmatch(r"(nvme[0-9]+)(c[0-9]+)?(n[0-9]+)", child.name)
            if match and (match[2] is None or match[1] + match[3] not in sizes):
                # In sectors of 512 bytes, whatever the disk's own.
                sizes[match[1] + match[3]] = 512 * (_int(_text(child / "size")) or 0)
    return sum(sizes.values())


def _proc_nvidia(root: Path, cards: Sequence[Card]) -> Iterator[Card]:
    """What NVIDIA's kernel module says, for devices that its library doesn't name."""
    named = {card.address for card in cards}
    for folder in _folders(root / "proc/driver/nvidia/gpus"):
        fields = dict(line.partition(":")[::2] for line in _text(folder / "information").splitlines())
        model, uuid = fields.get("Model", "").strip(), fields.get("GPU UUID", "").strip()
        if model and folder.name not in named:
            seen = uuid.startswith("GPU-") and "?" not in uuid
            yield Card(address=folder.name, name=model, uuid=uuid if seen else None)


def _node_name(name: str) -> str:
    bare = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._")[:253].strip("-._")
    return bare or "this-machine"


def _cpus(cpulist: str) -> int:
    if not cpulist:
        return 0
    try:
        return len(expand(f"[{cpulist}]", field="cpulist", most=1 << 16))
    except BadInput:
        return 0


def _kib(meminfo: str, key: str) -> int:
    match = re.search(rf"{key}:\s*([0-9]+) kB", meminfo)
    return int(match[1]) if match else 0


def _folders(path: Path) -> list[Path]:
    try:
        return sorted(child for child in path.iterdir() if child.is_dir() and not child.is_symlink())
    except OSError:
        return []


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _int(text: str, *, base: int = 10) -> int | None:
    try:
        return int(text, base)
    except ValueError:
        return None
