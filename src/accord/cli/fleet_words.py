"""Draws a fleet in a terminal: its kinds, its racks and their nodes, then what is inside each kind of node.

In: a `Fleet`. Out: lines. Invariant: equal things are counted, not repeated, and every mark is explained.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from accord.cli.fleet_shape import Bunch, Rack, Use, owners, racks, shapes, total, uses
from accord.cli.table import Rows, plural, size, table_lines
from accord.terms import units
from accord.terms.fleet import Device, DeviceKind, Figure, Fleet, Nic, Node, Tag, Taken
from accord.terms.tensors import Math

FREE, PART, FULL = "□", "◧", "■"
_DEVICES_SHOWN = 16
_UNSEEN_SHOWN = 8
_HEADING = ("kind", "vendor", "memory", "bandwidth", "bf16 or f16", "link", "$/h")
# From the figure to trust most to the one to trust least.
_TAGS = (Tag.MEASURED, Tag.DATASHEET, Tag.REPORTED, Tag.ASSUMED)


def fleet_lines(fleet: Fleet, *, width: int) -> Iterator[str]:
    """The whole fleet, then one drawing for each kind of node."""
    found = racks(fleet)
    yield f"  {head(fleet)}"
    yield from kind_lines(fleet, width=width)
    yield from _racks(found)
    if any(bunch.node.devices for rack in found for bunch in rack.bunches):
        yield f"  {FREE} free  {PART} in part  {FULL} taken"
    for names, node in shapes(found):
        yield ""
        yield from _inside(fleet, node, title=f"Inside {names}")
    yield from unseen_lines(fleet.unseen)


def node_lines(fleet: Fleet, node: Node) -> Iterator[str]:
    """One node in full, with who has what of it."""
    use = uses(fleet)[node.name]
    place = " · ".join(name for name in (node.leaf, node.spine) if name)
    yield from _inside(fleet, node, title=f"{node.name}{f' on {place}' if place else ''}", use=use)
    mine = owners(fleet, node.name)
    if mine:
        yield "    Taken by"
    wide = max((len(one.owner) for one in mine), default=0)
    for one in mine:
        yield f"      {one.owner.ljust(wide)}  {' · '.join(_amounts(one, node))}"
    yield from unseen_lines(fleet.unseen)


def head(fleet: Fleet) -> str:
    """A fleet in a line."""
    leaves = {node.leaf for node in fleet.nodes if node.leaf}
    devices = Counter(device.kind for node in fleet.nodes for device in node.devices)
    cores = sum(numa.cpus for node in fleet.nodes for numa in node.numa)
    memory = sum(numa.memory_bytes for node in fleet.nodes for numa in node.numa)
    price = price_usd_per_hour(fleet)
    parts = [
        plural(len(fleet.nodes), "node") + (f" on {plural(len(leaves), 'leaf switch')}" if leaves else ""),
        ", ".join(f"{count:,} {kind}" for kind, count in devices.most_common()) or "no devices",
        plural(cores, "core"),
        size(memory),
        *([] if price is None else [f"{units.format_usd(price, digits=4)}/h"]),
    ]
    return " · ".join(parts)


def price_usd_per_hour(fleet: Fleet) -> float | None:
    """What the fleet costs: nodes where they have a price, else their devices; None if one price is unknown."""
    prices = {kind.name: kind.price_usd_per_hour for kind in fleet.kinds}
    sum_usd = 0.0
    for node in fleet.nodes:
        of_devices = [prices[device.kind] for device in node.devices]
        if node.price_usd_per_hour is not None:
            sum_usd += node.price_usd_per_hour
        elif of_devices and None not in of_devices:
            sum_usd += sum(figure.value for figure in of_devices if figure is not None)
        else:
            return None
    return sum_usd if fleet.nodes else None


def kind_lines(fleet: Fleet, *, width: int) -> Iterator[str]:
    """The kinds of devices with their figures, how many there are, and how much of them is free."""
    used = uses(fleet)
    count: Counter[str] = Counter()
    taken: defaultdict[str, float] = defaultdict(float)
    for node in fleet.nodes:
        for device, share in zip(node.devices, used[node.name].shares, strict=True):
            count[device.kind] += 1
            taken[device.kind] += share
    rows: Rows = [(*_HEADING, "devices", "free", "weakest figure")]
    for kind in fleet.kinds:
        free = round(count[kind.name] - taken[kind.name], 2)
        rows.append((*_figures(kind), f"{count[kind.name]:,}", f"{free:,.6g}", _weakest(kind)))
    if len(rows) > 1:
        yield ""
        yield from table_lines(rows, width=width)
    yield ""


def catalog_lines(kinds: Sequence[DeviceKind], *, width: int) -> Iterator[str]:
    """Kinds with their figures, what can be cut from them, and their codec units."""
    rows: Rows = [(*_HEADING, "weakest figure", "cut into", "codec units")]
    for kind in kinds:
        cut = f"{len(kind.templates)} templates" if kind.templates else "nothing known"
        how = cut if not kind.soft_share else f"any share, {cut}" if kind.templates else "any share"
        codecs = ", ".join(f"{codec.units} {codec.name}" for codec in kind.codecs) or "-"
        rows.append((*_figures(kind), _weakest(kind), how, codecs))
    yield from table_lines(rows, width=width)


def _figures(kind: DeviceKind) -> tuple[str, ...]:
    rates = {rate.math: rate.flops_per_s for rate in kind.rates}
    rate = rates.get(Math.BF16) or rates.get(Math.F16)
    memory, price = kind.memory_bytes, kind.price_usd_per_hour
    return (
        kind.name,
        kind.vendor.value,
        "-" if memory is None else size(memory.value),
        _bandwidth(kind.bandwidth_bytes_per_s),
        "-" if rate is None else units.format_flops_per_s(rate.value, digits=4).removesuffix("FLOP/s"),
        _bandwidth(kind.link_bytes_per_s),
        "-" if price is None else f"{price.value:.4g}",
    )


def _bandwidth(figure: Figure | None) -> str:
    return "-" if figure is None else units.format_bandwidth(figure.value, digits=4)


def _weakest(kind: DeviceKind) -> str:
    figures = (
        kind.memory_bytes, kind.bandwidth_bytes_per_s, kind.link_bytes_per_s, *(rate.flops_per_s for rate in kind.rates)
    )  # fmt: skip
    tags = [figure.tag for figure in figures if figure is not None]
    return max(tags, key=_TAGS.index).value if tags else "all unknown"


def _racks(found: Sequence[Rack]) -> Iterator[str]:
    """A tree of spines, leaves and nodes, whose columns stand below each other."""
    rows: list[tuple[str, ...]] = []
    for spine, group in itertools.groupby(found, key=lambda rack: rack.spine):
        below = list(group)
        rows.append((spine or "no spine known",))
        for rack in below:
            last = rack is below[-1]
            more = f"  ({len(rack.leaves)} leaf switches)" if len(rack.leaves) > 1 else ""
            rows.append((f"{'└─' if last else '├─'} {rack.title}{more}",))
            for bunch in rack.bunches:
                branch = f"{'   ' if last else '│  '}{'└─' if bunch is rack.bunches[-1] else '├─'}"
                rows.append((f"{branch} {bunch.title}", *_bunch(bunch)))
    wide = [row for row in rows if len(row) > 1]
    widths = [max(len(row[column]) for row in wide) for column in range(len(wide[0]))] if wide else []
    for row in rows:
        cells = row if len(row) == 1 else [cell.ljust(space) for cell, space in zip(row, widths, strict=True)]
        yield ("  " + "  ".join(cells)).rstrip()


def _bunch(bunch: Bunch) -> tuple[str, ...]:
    node, use = bunch.node, bunch.use
    cores = sum(numa.cpus for numa in node.numa)
    each = "each " if len(bunch.names) > 1 else ""
    nics = Counter((units.format_bandwidth(nic.bandwidth_bytes_per_s, bits=True), nic.rdma) for nic in node.nics)
    ports = ", ".join(f"{number} x {speed}{' RDMA' if rdma else ''}" for (speed, rdma), number in nics.items())
    return (
        f"× {len(bunch.names):,}" if len(bunch.names) > 1 else "",
        _marks(node, use),
        each + (_counted(device.kind for device in node.devices) or "no devices"),
        f"{total((cores, -use.cpus)):,.10g} of {plural(cores, 'core')} free",
        ports or "no NICs known",
    )


def _marks(node: Node, use: Use) -> str:
    """A mark for each device, with a gap between NUMA domains."""
    marks = [
        "".join(_mark(share) for _, share in same)
        for _, same in itertools.groupby(
            zip(node.devices, use.shares, strict=True), key=lambda pair: pair[0].numa
        )
    ]  # fmt: skip
    line = " ".join(marks)
    return line if len(node.devices) <= _DEVICES_SHOWN else line[:_DEVICES_SHOWN] + "…"


def _mark(share: float) -> str:
    return FREE if share <= 0 else FULL if share >= 1 else PART


def _counted(names: Iterator[str]) -> str:
    return ", ".join(f"{count} x {name}" for name, count in Counter(names).items())


def _inside(fleet: Fleet, node: Node, *, title: str, use: Use | None = None) -> Iterator[str]:
    """NUMA domains, what hangs below each, and the link groups."""
    cores = sum(numa.cpus for numa in node.numa)
    memory = sum(numa.memory_bytes for numa in node.numa)
    disks = [f"{units.format_size_bytes(node.nvme_bytes)} of NVMe"] if node.nvme_bytes else []
    yield f"  {' · '.join([title, plural(cores, 'core'), size(memory), *disks])}"
    for number, numa in enumerate(node.numa):
        yield f"    NUMA {number}  {plural(numa.cpus, 'core')} · {size(numa.memory_bytes)}"
        places = _places(node, number)
        wide = max((len(name) for name, _, _ in places), default=0)
        for name, devices, nics in places:
            branch = "└─" if name == places[-1][0] else "├─"
            things = [_device(place, device, use) for place, device in devices]
            things += [_nic(nic) for nic in nics]
            yield f"    {branch} {name.ljust(wide)}  {'   '.join(things)}".rstrip()
    yield from _links(fleet, node)


_Place = tuple[str, list[tuple[int, Device]], list[Nic]]


def _places(node: Node, numa: int) -> list[_Place]:
    """Roots and switches of a NUMA domain with what stands there, in order."""
    places: dict[str, _Place] = {}
    for number, device in enumerate(node.devices):
        if device.numa == numa:
            name = _place_name(device)
            places.setdefault(name, (name, [], []))[1].append((number, device))
    for nic in node.nics:
        if nic.numa == numa:
            name = _place_name(nic)
            places.setdefault(name, (name, [], []))[2].append(nic)
    return sorted(places.values(), key=lambda place: place[0])


def _place_name(thing: Device | Nic) -> str:
    return " ─ ".join(name for name in (thing.root, thing.bridge) if name) or "somewhere"


def _device(number: int, device: Device, use: Use | None) -> str:
    mark = "" if use is None else f"{_mark(use.shares[number])} "
    part = "" if use is None or not 0 < use.shares[number] < 1 else f" {use.shares[number]:.0%} taken"
    return f"{mark}{number} {device.kind}{part}"


def _nic(nic: Nic) -> str:
    speed = units.format_bandwidth(nic.bandwidth_bytes_per_s, bits=True)
    return f"⇅ {nic.name} {speed}{' RDMA' if nic.rdma else ''}"


def _links(fleet: Fleet, node: Node) -> Iterator[str]:
    groups: dict[str, list[int]] = {}
    for number, device in enumerate(node.devices):
        if device.group is not None:
            groups.setdefault(device.group, []).append(number)
    for group, numbers in groups.items():
        speeds = {fleet.kind(node.devices[number].kind).link_bytes_per_s for number in numbers}
        known = [units.format_bandwidth(figure.value, digits=4) for figure in speeds if figure is not None]
        speed = f"  {known[0]} each way" if len(known) == 1 and len(speeds) == 1 else ""
        yield f"    {group}  devices {runs(numbers)}{speed}"


def runs(numbers: Sequence[int]) -> str:
    """ "0-3, 6"."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][-1] + 1:
            found[-1].append(number)
        else:
            found.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in found)


def _amounts(one: Taken, node: Node) -> Iterator[str]:
    if one.device is not None:
        yield f"device {one.device}"
        yield f"{one.share:.3g} of it, {size(one.memory_bytes)}"
    if one.cpus:
        yield f"{one.cpus:.6g} cores"
    if one.host_memory_bytes:
        yield f"{size(one.host_memory_bytes)} of host memory"
    if one.nic is not None:
        yield f"{units.format_bandwidth(one.nic_bytes_per_s, bits=True)} of {node.nics[one.nic].name}"
    if one.nvme_bytes:
        yield f"{units.format_size_bytes(one.nvme_bytes)} of NVMe"
    if one.movable:
        yield "movable"


def unseen_lines(unseen: Sequence[str]) -> Iterator[str]:
    """What a probe could not see."""
    if unseen:
        yield "  Unseen"
    for text in unseen[:_UNSEEN_SHOWN]:
        yield f"    {text}"
    if len(unseen) > _UNSEEN_SHOWN:
        yield f"    and {len(unseen) - _UNSEEN_SHOWN:,} more"
