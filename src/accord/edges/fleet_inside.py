"""What is inside a node of a fleet file: NUMA domains, PCIe roots and switches, devices, NICs, link groups.

In: trees. Out: `Inside`. Invariant: what is dealt out goes out evenly and in order, or is refused; nothing lands in a
place that isn't written.
"""

import dataclasses
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from dataclasses import field as with_default

from accord.edges.fields import Fields, at, leaf_bool, leaf_int, leaf_text, leaf_unit, shown
from accord.edges.fleet_kinds import Kinds
from accord.edges.yaml_tree import Items, Table, Tree
from accord.terms import units
from accord.terms.errors import BadInput
from accord.terms.fleet import Device, Nic, Numa

DEVICES_MAX = 256  # in one node; NICs likewise
_NUMA_MAX = 64
_TIMES = re.compile(r"([0-9]{1,18}) ?[x×] ?(\S{1,100})", re.ASCII | re.IGNORECASE)
_NIC = re.compile(r"(ib|roce|eth)([0-9]{1,4})", re.ASCII)
_ADDRESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/+-]{0,126}", re.ASCII)
_NICS = "write ib400 (InfiniBand, 400Gb/s), roce200, eth25, or {name: mlx5_0, bandwidth: 400Gb/s, rdma: true}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """Where devices and NICs stand."""

    numa: int = 0
    root: str | None = None
    bridge: str | None = None


@dataclass(slots=True, kw_only=True)
class Inside:
    """A node's inside while it is read."""

    numa: tuple[Numa, ...] = ()
    devices: list[Device] = with_default(default_factory=list)
    nics: list[Nic] = with_default(default_factory=list)
    named: set[str] = with_default(default_factory=set)

    def put(self, fields: Fields, spot: Spot, *, kinds: Kinds, free: bool = False) -> None:
        """Reads `devices` and `nics` here; with `free`, each may say where it stands."""
        self.devices += _devices(fields, spot, kinds=kinds, domains=len(self.numa) if free else 0)
        for nic in _nics(fields, spot, before=self.nics, domains=len(self.numa) if free else 0):
            self.nics.append(nic)
        for what, found in (("devices", self.devices), ("nics", self.nics)):
            if len(found) > DEVICES_MAX:
                fix = f"write {DEVICES_MAX} at most in one node"
                raise BadInput(field=fields.name(what), value=len(found), problem="too many", fix=fix)


def compact(fields: Fields, numa: int | None, *, kinds: Kinds) -> Inside:
    """`numa: 2, switches: 4, devices: 8 x h20, nics: 4 x ib400`: everything dealt evenly, in order."""
    count = 1 if numa is None else numa
    if not 1 <= count <= _NUMA_MAX:
        raise BadInput(field=fields.name("numa"), value=count, problem="out of range", fix=f"write 1 to {_NUMA_MAX}")
    cpus = _even(fields, "cpus", count, leaf_int)
    memory = _even(fields, "memory", count, lambda tree, name: leaf_unit(units.parse_size_bytes, tree, name))
    roots, switches = (fields.read(key, leaf_int, 0) for key in ("roots", "switches"))
    spots = _spots(fields, count, roots, switches)
    inside = Inside(numa=(Numa(cpus=cpus, memory_bytes=memory),) * count)
    inside.put(fields, Spot(), kinds=kinds)
    inside.devices = [
        dataclasses.replace(device, numa=spot.numa, root=spot.root, bridge=spot.bridge)
        for device, spot in zip(inside.devices, _deal(fields, "devices", len(inside.devices), spots), strict=True)
    ]
    inside.nics = [
        dataclasses.replace(nic, numa=spot.numa, root=spot.root, bridge=spot.bridge)
        for nic, spot in zip(inside.nics, _deal(fields, "nics", len(inside.nics), spots), strict=True)
    ]
    return inside


def domains(tree: Items, fields: Fields, *, kinds: Kinds) -> Inside:
    """NUMA domains written out, then what stands in the node as a whole."""
    if not 1 <= len(tree.items) <= _NUMA_MAX:
        fix = f"write 1 to {_NUMA_MAX} domains"
        raise BadInput(field=fields.name("numa"), value=len(tree.items), problem=f"out of range{at(tree)}", fix=fix)
    inside = Inside()
    for number, item in enumerate(tree.items):
        below = Fields(item, field=f"{fields.name('numa')}[{number}]")
        cpus = below.must("cpus", leaf_int)
        memory = below.must("memory", lambda leaf, name: leaf_unit(units.parse_size_bytes, leaf, name))
        inside.numa = (*inside.numa, Numa(cpus=cpus, memory_bytes=memory))
        for root in _list(below, "pcie"):
            _root(Fields(root[1], field=root[0]), inside, number, kinds=kinds)
        inside.put(below, Spot(numa=number), kinds=kinds)
        below.end()
    inside.put(fields, Spot(), kinds=kinds, free=True)
    return inside


def linked(devices: Sequence[Device]) -> Callable[[Tree, str], tuple[Device, ...]]:
    """Reads `links`: `nvlink` (all devices), `2 x hccs` (two groups, dealt in order), or `{nvlink-0: 0-3}`."""

    def parse(tree: Tree, field: str) -> tuple[Device, ...]:
        groups: list[str | None] = [device.group for device in devices]
        if isinstance(tree, Table):
            for name, below in tree.entries:
                for number in numbers_of(below, f"{field}.{name}", count=len(devices)):
                    if groups[number] is not None:
                        problem = f"device {number} is in {groups[number]} already{at(below)}"
                        raise BadInput(field=f"{field}.{name}", value=shown(below), problem=problem, fix="keep one")
                    groups[number] = _word(name, f"{field}.{name}", at(below))
        else:
            count, name = _times(leaf_text(tree, field))
            _word(name, field, at(tree))
            if not 1 <= count <= max(1, len(devices)) or len(devices) % count:
                problem = f"{len(devices)} devices don't fall into {count} equal groups{at(tree)}"
                fix = f"list them: {{{name}-0: 0-3, {name}-1: 4-7}}"
                raise BadInput(field=field, value=shown(tree), problem=problem, fix=fix)
            groups = [
                name if count == 1 else f"{name}-{number * count // len(devices)}" for number in range(len(devices))
            ]
        return tuple(dataclasses.replace(one, group=group) for one, group in zip(devices, groups, strict=True))

    return parse


def numbers_of(tree: Tree, field: str, *, count: int) -> tuple[int, ...]:
    """Numbers below `count`: 3, "0-3", "0,2-5" or [0, 1]."""
    texts = [str(shown(item)) for item in tree.items] if isinstance(tree, Items) else str(shown(tree)).split(",")
    found: list[int] = []
    for text in texts:
        match = re.fullmatch(r"\s*([0-9]{1,6})(?:-([0-9]{1,6}))?\s*", text, re.ASCII)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if last < first or last >= count:
            fix = f"write numbers from 0 to {count - 1}, such as 0-{count - 1}" if count else "the node has none"
            raise BadInput(field=field, value=shown(tree), problem=f"{text.strip()!r} isn't there{at(tree)}", fix=fix)
        found += range(first, last + 1)
    if len(set(found)) < len(found):
        raise BadInput(field=field, value=shown(tree), problem=f"a number comes twice{at(tree)}", fix="keep one")
    return tuple(found)


def _root(fields: Fields, inside: Inside, numa: int, *, kinds: Kinds) -> None:
    name = _named(fields, "root", inside, "pci")
    inside.put(fields, Spot(numa=numa, root=name), kinds=kinds)
    for field, item in _list(fields, "switches"):
        below = Fields(item, field=field)
        bridge = _named(below, "name", inside, "sw")
        inside.put(below, Spot(numa=numa, root=name, bridge=bridge), kinds=kinds)
        below.end()
    fields.end()


def _named(fields: Fields, key: str, inside: Inside, prefix: str) -> str:
    """A name that no other root or switch of this node has; numbered where none is written."""
    numbered = sum(name.rstrip("0123456789") == prefix for name in inside.named)
    name = fields.read(key, address, f"{prefix}{numbered}")
    if name in inside.named:
        raise BadInput(
            field=fields.name(key), value=name, problem="comes twice in this node", fix="give each root its own name"
        )
    inside.named.add(name)
    return name


def address(tree: Tree, field: str) -> str:
    """A PCI address, a UUID or another word without spaces."""
    return _word(leaf_text(tree, field), field, at(tree))


def is_address(text: str) -> bool:
    """Whether a text is such a word."""
    return _ADDRESS.fullmatch(text) is not None


def _word(text: str, field: str, line: str) -> str:
    if not is_address(text):
        fix = "use up to 127 letters, digits and any of . _ : / + -"
        raise BadInput(field=field, value=text, problem=f"not a name{line}", fix=fix)
    return text


def _list(fields: Fields, key: str) -> list[tuple[str, Tree]]:
    tree = fields.take(key)
    if tree is None:
        return []
    if not isinstance(tree, Items):
        fix = "write a list, one entry for each"
        raise BadInput(field=fields.name(key), value=shown(tree), problem=f"not a list{at(tree)}", fix=fix)
    return [(f"{fields.name(key)}[{number}]", item) for number, item in enumerate(tree.items)]


def _even(fields: Fields, key: str, count: int, parse: Callable[[Tree, str], int]) -> int:
    whole = fields.must(key, parse)
    if whole % count:
        fix = "write the domains out: `numa: [{cpus: ..., memory: ...}, ...]`"
        raise BadInput(field=fields.name(key), value=whole, problem=f"doesn't divide by {count}", fix=fix)
    return whole // count


def _spots(fields: Fields, numa: int, roots: int, switches: int) -> list[Spot]:
    """The innermost places, in order."""
    roots = roots or switches
    for key, count, outer in (("roots", roots, numa), ("switches", switches, roots)):
        if count > DEVICES_MAX or (count and count % outer):
            fix = f"write a multiple of {outer}, at most {DEVICES_MAX}, or write the domains out"
            raise BadInput(field=fields.name(key), value=count, problem=f"can't be dealt over {outer}", fix=fix)
    inner = switches or roots or numa
    return [
        Spot(
            numa=number * numa // inner,
            root=f"pci{number * roots // inner}" if roots else None,
            bridge=f"sw{number}" if switches else None,
        )
        for number in range(inner)
    ]


def _deal(fields: Fields, key: str, count: int, spots: Sequence[Spot]) -> list[Spot]:
    if count and count % len(spots) and len(spots) % count:
        fix = "write the domains out: `numa: [{cpus: ..., memory: ..., pcie: [...]}, ...]`"
        problem = f"can't be dealt evenly over {len(spots)} places"
        raise BadInput(field=fields.name(key), value=count, problem=problem, fix=fix)
    return [spots[number * len(spots) // count] for number in range(count)]


def _times(text: str) -> tuple[int, str]:
    match = _TIMES.fullmatch(text.strip())
    return (int(match[1]), match[2]) if match else (1, text.strip())


def _entries(fields: Fields, key: str) -> list[tuple[str, Tree]]:
    tree = fields.take(key)
    if tree is None:
        return []
    items = tree.items if isinstance(tree, Items) else (tree,)
    return [
        (f"{fields.name(key)}[{number}]" if len(items) > 1 else fields.name(key), it) for number, it in enumerate(items)
    ]


def _bounded(count: int, field: str, tree: Tree) -> int:
    if not 1 <= count <= DEVICES_MAX:
        fix = f"write 1 to {DEVICES_MAX}"
        raise BadInput(field=field, value=shown(tree), problem=f"out of range{at(tree)}", fix=fix)
    return count


def _devices(fields: Fields, spot: Spot, *, kinds: Kinds, domains: int) -> list[Device]:
    found: list[Device] = []
    for field, tree in _entries(fields, "devices"):
        if not isinstance(tree, Table):
            count, name = _times(leaf_text(tree, field))
            kind = kinds.find(name, field=field, line=at(tree))
            found += [_at(Device(kind=kind.name), spot)] * _bounded(count, field, tree)
            continue
        below = Fields(tree, field=field)
        kind = below.must("kind", lambda leaf, name: kinds.find(leaf_text(leaf, name), field=name, line=at(leaf)))
        count = below.read("count", lambda leaf, name: _bounded(leaf_int(leaf, name), name, leaf), 1)
        device = Device(
            kind=kind.name, group=below.read("group", address, None), uuid=below.read("uuid", address, None)
        )
        found += [_at(device, _spot(below, spot, domains))] * count
        below.end()
    return found


def _at(device: Device, spot: Spot) -> Device:
    return dataclasses.replace(device, numa=spot.numa, root=spot.root, bridge=spot.bridge)


def _spot(fields: Fields, spot: Spot, domains: int) -> Spot:
    """Where an entry says that it stands, at a node's top; elsewhere it stands where it is written."""
    if not domains:
        return spot
    numa = fields.read("numa", leaf_int, 0)
    if numa >= domains:
        fix = f"write a number from 0 to {domains - 1}"
        raise BadInput(field=fields.name("numa"), value=numa, problem="no such NUMA domain", fix=fix)
    return Spot(numa=numa, root=fields.read("root", address, None), bridge=fields.read("switch", address, None))


def _nics(fields: Fields, spot: Spot, *, before: Sequence[Nic], domains: int) -> list[Nic]:
    found: list[Nic] = []
    for field, tree in _entries(fields, "nics"):
        if isinstance(tree, Table):
            found.append(_nic(Fields(tree, field=field), spot, domains))
        else:
            count, kind = _times(leaf_text(tree, field))
            first = sum(nic.name.startswith(f"{kind}-") for nic in (*before, *found))
            for number in range(first, first + _bounded(count, field, tree)):
                found.append(nic_of_kind(kind, f"{kind}-{number}", spot, field=field, line=at(tree)))
    names = [nic.name for nic in (*before, *found)]
    for name in names:
        if names.count(name) > 1:
            fix = "give each NIC of a node its own name"
            raise BadInput(field=fields.name("nics"), value=name, problem="comes twice in this node", fix=fix)
    return found


def nic_of_kind(kind: str, name: str, spot: Spot, *, field: str, line: str = "") -> Nic:
    """`ib400`, `roce200`, `eth25`: the figure is in Gb/s; InfiniBand and RoCE have RDMA."""
    match = _NIC.fullmatch(kind)
    if match is None or int(match[2]) == 0:
        raise BadInput(field=field, value=kind, problem=f"no such kind of NIC{line}", fix=_NICS)
    bandwidth = units.parse_bandwidth_bytes_per_s(f"{match[2]}Gb/s", field=field)
    rdma = match[1] != "eth"
    return Nic(
        name=name, bandwidth_bytes_per_s=bandwidth, numa=spot.numa, root=spot.root, bridge=spot.bridge, rdma=rdma
    )


def _nic(fields: Fields, spot: Spot, domains: int) -> Nic:
    name = fields.must("name", address)
    spot = _spot(fields, spot, domains)
    kind = fields.take("kind")
    if kind is not None:
        nic = nic_of_kind(leaf_text(kind, fields.name("kind")), name, spot, field=fields.name("kind"), line=at(kind))
    else:
        bandwidth = fields.must(
            "bandwidth", lambda tree, path: leaf_unit(units.parse_bandwidth_bytes_per_s, tree, path)
        )
        rdma = fields.read("rdma", leaf_bool, False)
        nic = Nic(
            name=name, bandwidth_bytes_per_s=bandwidth, numa=spot.numa, root=spot.root, bridge=spot.bridge, rdma=rdma
        )
    fields.end()
    return nic
