"""A `Fleet` -> the YAML of a fleet file.

In: a `Fleet`. Out: text. Invariant: read back, it is the same fleet, figure for figure; equal nodes that follow each
other stand in one entry.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import yaml

from accord.edges import device_catalog
from accord.edges.fleet_inside import Spot, nic_of_kind
from accord.edges.fleet_kinds import UNSOURCED, all_of, catalog_kind
from accord.edges.name_range import compress
from accord.edges.whole_text import save_text
from accord.terms import units
from accord.terms.errors import BadInput
from accord.terms.fleet import Codec, Device, DeviceKind, Figure, Fleet, Nic, Node, Tag, Taken, Template

Plain = str | int | float | bool | list["Plain"] | dict[str, "Plain"]


class _Flow(dict[str, Plain]):
    """A mapping that is written in one line."""


class _Row(list[Plain]):
    """A list that is written in one line."""


def _dumper() -> type[yaml.CDumper] | type[yaml.SafeDumper]:
    """Writes short things in one line, and never an alias."""
    base = yaml.CSafeDumper if yaml.__with_libyaml__ else yaml.SafeDumper

    class Dumper(base):  # type: ignore[misc, valid-type]  # libyaml may be missing
        def ignore_aliases(self, data: object) -> bool:
            return True

    Dumper.add_representer(_Flow, lambda out, it: out.represent_mapping("tag:yaml.org,2002:map", it, flow_style=True))
    Dumper.add_representer(_Row, lambda out, it: out.represent_sequence("tag:yaml.org,2002:seq", it, flow_style=True))
    return Dumper


def dump_fleet(fleet: Fleet) -> str:
    """The fleet as YAML."""
    document: dict[str, Plain] = {"accord": 1}
    kinds: dict[str, Plain] = {}
    used = {device.kind for node in fleet.nodes for device in node.devices}
    for kind in fleet.kinds:
        known = kind.name in device_catalog.names() and catalog_kind(kind.name) == kind
        if not known:
            kinds[kind.name] = _kind(kind)
        elif kind.name not in used:
            kinds[kind.name] = _Flow(like=kind.name)
    if kinds:
        document["devices"] = kinds
    document["nodes"] = [_entry(list(nodes)) for nodes in _runs(fleet.nodes)]
    if fleet.taken:
        by_name, by_kind = ({its.name: its for its in fleet.nodes}, {its.name: its for its in fleet.kinds})
        document["taken"] = [
            _taken(one, None if one.device is None else by_kind[by_name[one.node].devices[one.device].kind])
            for one in fleet.taken
        ]
    if fleet.unseen:
        document["unseen"] = list(fleet.unseen)
    return yaml.dump(document, Dumper=_dumper(), sort_keys=False, allow_unicode=True, width=120)


def save_fleet(fleet: Fleet, path: Path) -> None:
    """Writes the fleet whole or not at all."""
    save_text(path, dump_fleet(fleet), what="fleet")


def _runs(nodes: Sequence[Node]) -> Iterator[Sequence[Node]]:
    """Nodes that follow each other, are equal but for their names, and have one pattern of names."""
    for _, run in itertools.groupby(nodes, key=lambda node: dataclasses.replace(node, name="")):
        equal = list(run)
        if compress([node.name for node in equal]):
            yield equal
        else:
            yield from ([node] for node in equal)


def _entry(nodes: Sequence[Node]) -> Plain:
    node = nodes[0]
    entry: dict[str, Plain] = {"name": compress([one.name for one in nodes]) or node.name}
    if node.leaf is not None:
        entry["leaf"] = node.leaf
    if node.spine is not None:
        entry["spine"] = node.spine
    entry |= _inside(node)
    groups = sorted({device.group for device in node.devices if device.group is not None})
    if groups:
        numbers = {group: [n for n, device in enumerate(node.devices) if device.group == group] for group in groups}
        entry["links"] = _Flow({group: _numbers(held) for group, held in numbers.items()})
    if node.nvme_bytes:
        entry["nvme"] = units.format_size_bytes(node.nvme_bytes)
    if node.price_usd_per_hour is not None:
        entry["price_per_hour"] = units.format_usd(node.price_usd_per_hour)
    if node.labels:
        entry["labels"] = dict(node.labels)
    return entry


def _inside(node: Node) -> dict[str, Plain]:
    """As a tree where the tree's order is the node's own; else each device and NIC says where it stands."""
    tree: list[Plain] = []
    devices: list[Device] = []
    nics: list[Nic] = []
    for number, numa in enumerate(node.numa):
        domain: dict[str, Plain] = {"cpus": numa.cpus, "memory": units.format_size_bytes(numa.memory_bytes)}
        roots: list[Plain] = []
        for root in _places(node, Spot(numa=number)):
            written: dict[str, Plain] = {"root": str(root.root)}
            written |= _held(node, root, devices, nics)
            switches: list[Plain] = [
                _Flow(name=str(spot.bridge)) | _held(node, spot, devices, nics) for spot in _places(node, root)
            ]
            if switches:
                written["switches"] = [_Flow(switch) for switch in switches if isinstance(switch, dict)]
            roots.append(written if switches else _Flow(written))
        if roots:
            domain["pcie"] = roots
        domain |= _held(node, Spot(numa=number), devices, nics)
        tree.append(domain if roots else _Flow(domain))
    outer = {(spot.numa, spot.root) for spot in _spots(node) if spot.root}
    names = [root for _, root in outer] + [spot.bridge for spot in {*_spots(node)} if spot.bridge]
    if devices == list(node.devices) and nics == list(node.nics) and len({*names}) == len(names):
        return {"numa": tree}
    bare: list[Plain] = [_Flow(cpus=numa.cpus, memory=units.format_size_bytes(numa.memory_bytes)) for numa in node.numa]
    flat: dict[str, Plain] = {"numa": bare}
    if node.devices:
        flat["devices"] = [_Flow({**_device(device), **_where(_spot(device))}) for device in node.devices]
    if node.nics:
        flat["nics"] = [_Flow({**_nic(nic), **_where(_spot(nic))}) for nic in node.nics]
    return flat


def _spots(node: Node) -> list[Spot]:
    return [*map(_spot, node.devices), *map(_spot, node.nics)]


def _spot(thing: Device | Nic) -> Spot:
    return Spot(numa=thing.numa, root=thing.root, bridge=thing.bridge)


def _where(spot: Spot) -> dict[str, Plain]:
    places = {"numa": spot.numa or None, "root": spot.root, "switch": spot.bridge}
    return {key: value for key, value in places.items() if value is not None}


def _places(node: Node, outer: Spot) -> list[Spot]:
    """The roots below a NUMA domain, or the switches below a root, in order of first appearance."""
    spots = [spot for spot in _spots(node) if spot.numa == outer.numa]
    if outer.root is None:
        names = dict.fromkeys(spot.root for spot in spots if spot.root is not None)
        return [Spot(numa=outer.numa, root=name) for name in names]
    bridges = dict.fromkeys(spot.bridge for spot in spots if spot.root == outer.root and spot.bridge is not None)
    return [Spot(numa=outer.numa, root=outer.root, bridge=name) for name in bridges]


def _held(node: Node, spot: Spot, devices: list[Device], nics: list[Nic]) -> dict[str, Plain]:
    """What stands in exactly this spot; it is also added to `devices` and `nics`."""
    mine = [device for device in node.devices if _spot(device) == spot]
    ports = [nic for nic in node.nics if _spot(nic) == spot]
    written: dict[str, Plain] = {}
    if mine:
        written["devices"] = _Row(_devices(mine))
    if ports:
        written["nics"] = _Row([_short(nic, spot, nics + ports[:place]) for place, nic in enumerate(ports)])
    devices += mine
    nics += ports
    return written


def _devices(devices: Sequence[Device]) -> Iterator[Plain]:
    for (kind, uuid), run in itertools.groupby(devices, key=lambda device: (device.kind, device.uuid)):
        count = len(list(run))
        if uuid is None:
            yield kind if count == 1 else f"{count} x {kind}"
        else:
            for _ in range(count):
                yield _Flow(kind=kind, uuid=uuid)


def _device(device: Device) -> dict[str, Plain]:
    return {"kind": device.kind} if device.uuid is None else {"kind": device.kind, "uuid": device.uuid}


def _short(nic: Nic, spot: Spot, before: Sequence[Nic]) -> Plain:
    """`ib400` where that reads as this very NIC; else all of it."""
    kind = nic.name.rpartition("-")[0]
    try:
        name = f"{kind}-{sum(other.name.startswith(f'{kind}-') for other in before)}"
        if nic_of_kind(kind, name, spot, field="nics") == nic:
            return kind
    except BadInput:
        pass
    return _Flow(_nic(nic))


def _nic(nic: Nic) -> dict[str, Plain]:
    written: dict[str, Plain] = {
        "name": nic.name, "bandwidth": units.format_bandwidth(nic.bandwidth_bytes_per_s, bits=True)
    }  # fmt: skip
    return {**written, "rdma": True} if nic.rdma else written


def _numbers(numbers: Sequence[int]) -> Plain:
    first, last = numbers[0], numbers[-1]
    if len(numbers) > 1 and list(numbers) == list(range(first, last + 1)):
        return f"{first}-{last}"
    return first if len(numbers) == 1 else _Row(numbers)


def _number(value: float) -> int | float:
    return int(value) if value.is_integer() else value


def _taken(one: Taken, kind: DeviceKind | None) -> Plain:
    written: dict[str, Plain] = {"node": one.node, "owner": one.owner}
    if one.device is not None:
        written["devices"] = one.device
    if kind is not None and (one.template or (one.share, one.memory_bytes, one.codecs) != all_of(kind)):
        written |= {"share": _number(one.share), "memory": units.format_size_bytes(one.memory_bytes)}
        if one.codecs or one.template:
            written["codecs"] = _codecs(one.codecs)
    amounts: dict[str, Plain | None] = {
        "template": one.template,
        "cpus": _number(one.cpus) or None,
        "host_memory": units.format_size_bytes(one.host_memory_bytes) if one.host_memory_bytes else None,
        "numa": one.numa,
        "nic": one.nic,
        "bandwidth": units.format_bandwidth(one.nic_bytes_per_s, bits=True) if one.nic_bytes_per_s else None,
        "nvme": units.format_size_bytes(one.nvme_bytes) if one.nvme_bytes else None,
        "movable": one.movable or None,
        "move_cost": units.format_usd(one.move_cost_usd) if one.move_cost_usd else None,
    }
    return _Flow({**written, **{key: value for key, value in amounts.items() if value is not None}})


def _kind(kind: DeviceKind) -> Plain:
    """What differs from the catalog's kind of this name, or all of it."""
    known = kind.name in device_catalog.names()
    base = catalog_kind(kind.name) if known else DeviceKind(name=kind.name, vendor=kind.vendor)
    written: dict[str, Plain] = {"like": kind.name} if known else {"vendor": kind.vendor.value}
    if known and kind.vendor != base.vendor:
        written["vendor"] = kind.vendor.value
    for key, figure, before, say in (
        ("memory", kind.memory_bytes, base.memory_bytes, _size),
        ("bandwidth", kind.bandwidth_bytes_per_s, base.bandwidth_bytes_per_s, units.format_bandwidth),
        ("link", kind.link_bytes_per_s, base.link_bytes_per_s, units.format_bandwidth),
        ("link_latency", kind.link_latency_s, base.link_latency_s, units.format_duration_s),
        ("price_per_hour", kind.price_usd_per_hour, base.price_usd_per_hour, units.format_usd),
    ):
        if figure != before:
            written[key] = _figure(figure, say)
    rates = {rate.math.value: rate.flops_per_s for rate in kind.rates}
    before_rates = {rate.math.value: rate.flops_per_s for rate in base.rates}
    changed = [name for name in (*before_rates, *rates) if rates.get(name) != before_rates.get(name)]
    if changed:
        written["rates"] = {name: _figure(rates.get(name), units.format_flops_per_s) for name in changed}
    if kind.codecs != base.codecs:
        written["codecs"] = _codecs(kind.codecs)
    if kind.templates != base.templates:
        written["templates"] = {cut.name: _Flow(_template(cut)) for cut in kind.templates}
    if kind.soft_share != base.soft_share:
        written["soft_share"] = kind.soft_share
    if kind.pairs != base.pairs:
        written["pairs"] = kind.pairs
    if kind.quirks != base.quirks:
        written["quirks"] = _Row(kind.quirks)
    return written


def _size(size_bytes: float) -> str:
    return units.format_size_bytes(round(size_bytes))


def _figure(figure: Figure | None, say: Callable[[float], str]) -> Plain:
    if figure is None:
        return "unknown"
    if (figure.tag, figure.source) == (Tag.ASSUMED, UNSOURCED):
        return say(figure.value)
    return _Flow(value=say(figure.value), tag=figure.tag.value, source=figure.source)


def _template(cut: Template) -> dict[str, Plain]:
    written: dict[str, Plain] = {
        "memory": units.format_size_bytes(cut.memory_bytes), "share": cut.share, "most": cut.count_max
    }  # fmt: skip
    return {**written, "codecs": _codecs(cut.codecs)} if cut.codecs else written


def _codecs(codecs: Sequence[Codec]) -> Plain:
    return _Flow({codec.name: codec.units for codec in codecs})
