"""Draws a fleet as one SVG file that needs nothing else.

In: a `Fleet`. Out: the text of an SVG. Invariant: everything that the file says in words is escaped; a box is drawn
inside the thing that it is part of, and what is taken is filled from below.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from xml.sax.saxutils import escape

from accord.cli.fleet_shape import Bunch, Rack, Use, owners, racks, things_of, uses
from accord.cli.fleet_words import head, runs
from accord.cli.svg import COLOURS, box, file, text, wide
from accord.cli.table import plural, size
from accord.edges.fleet_inside import Spot
from accord.terms import units
from accord.terms.fleet import Device, Fleet, Nic, Node

_PAGE = 1280
_MARGIN = 28
_TILE, _GAP, _PORT, _PAD = 34, 6, 18, 8
_LABEL = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class _Drawn:
    """A piece of drawing at the origin, and how much room it takes."""

    width: float
    height: float
    parts: tuple[str, ...]

    def at(self, x: float, y: float) -> str:
        return f'<g transform="translate({x:g},{y:g})">{"".join(self.parts)}</g>'


def fleet_svg(fleet: Fleet) -> str:
    """The whole fleet: spines, racks, and each kind of node once with what is taken of it."""
    colours = _colours(fleet)
    y: float = _MARGIN + 78
    parts = [text(_MARGIN, _MARGIN + 18, "Fleet", size=22, kind="strong")]
    parts.append(text(_MARGIN, _MARGIN + 40, head(fleet), size=13, kind="soft"))
    parts.append(_legend(colours).at(_MARGIN, _MARGIN + 52))
    groups = [
        (spine, _flow([_rack(fleet, rack, colours) for rack in group], room=_PAGE - 2 * _MARGIN))
        for spine, group in itertools.groupby(racks(fleet), key=lambda rack: rack.spine)
    ]
    wide = max((flow.width for _, flow in groups), default=0)
    for spine, flow in groups:
        band = _band(spine, flow, width=wide)
        parts.append(band.at(_MARGIN, y))
        y += band.height + 18
    width = max(620, wide + 2 * _MARGIN)
    return file(width, y + _MARGIN - 18, parts, title=head(fleet))


def node_svg(fleet: Fleet, node: Node) -> str:
    """One node, and who has what of it."""
    colours = _colours(fleet)
    use = uses(fleet)[node.name]
    card = _card(fleet, Bunch(names=(node.name,), node=node, use=use), colours)
    parts = [text(_MARGIN, _MARGIN + 18, node.name, size=22, kind="strong")]
    where = " · ".join(name for name in (node.leaf, node.spine) if name) or "no switch known"
    parts.append(text(_MARGIN, _MARGIN + 40, where, size=13, kind="soft"))
    parts.append(_legend(colours).at(_MARGIN, _MARGIN + 52))
    y = _MARGIN + 78
    parts.append(card.at(_MARGIN, y))
    y += round(card.height) + 24
    for one in owners(fleet, node.name):
        what = "the node" if one.device is None else f"{one.share:.0%} of device {one.device}, {size(one.memory_bytes)}"
        parts.append(text(_MARGIN, y, f"{one.owner}: {what}", size=12, kind="soft"))
        y += 18
    return file(max(card.width + 2 * _MARGIN, 560), y + _MARGIN - 8, parts, title=node.name)


def _band(spine: str | None, flow: _Drawn, *, width: float) -> _Drawn:
    """A spine switch over its racks."""
    if spine is None:
        return flow
    bar = box(0, 0, width, 26, fill="--ink", radius=6, line=False)
    label = f'<text x="12" y="17.5" font-size="13" style="fill:var(--page);font-weight:600">{escape(spine)}</text>'
    return _Drawn(width=width, height=38 + flow.height, parts=(bar, label, flow.at(0, 38)))


def _flow(drawn: Sequence[_Drawn], *, room: float, gap: float = 12) -> _Drawn:
    """Pieces from left to right, in rows as wide as there is room."""
    x = y = row = wide = 0.0
    parts: list[str] = []
    for piece in drawn:
        if x and x + piece.width > room:
            x, y, row = 0.0, y + row + gap, 0.0
        parts.append(piece.at(x, y))
        wide = max(wide, x + piece.width)
        x += piece.width + gap
        row = max(row, piece.height)
    return _Drawn(width=wide, height=y + row, parts=tuple(parts))


def _rack(fleet: Fleet, rack: Rack, colours: dict[str, str]) -> _Drawn:
    cards = [_card(fleet, bunch, colours) for bunch in rack.bunches]
    count = sum(len(bunch.names) for bunch in rack.bunches)
    switches = f"{len(rack.leaves)} leaf switches, " if len(rack.leaves) > 1 else ""
    words = f"{switches}{plural(count, 'node')}"
    # Below each other or side by side: whichever takes less paper.
    flows = [_flow(cards, room=room, gap=10) for room in (0, 880, _PAGE - 2 * _MARGIN - 24)]
    flow = min(flows, key=lambda drawn: drawn.width * drawn.height)
    width = max(flow.width, wide(f"{rack.title}   {words}", 14)) + 2 * 12
    height = flow.height + 48
    many = len(rack.leaves) > 1
    behind = [box(4 * k, 4 * k, width, height, fill="--rack", radius=10) for k in (2, 1) if many]
    parts = (
        *behind,
        box(0, 0, width, height, fill="--rack", radius=10),
        text(14, 22, rack.title, size=13.5, kind="strong"),
        text(width - 14, 22, words, size=12, kind="soft", end=True),
        flow.at(12, 34),
    )
    extra = 8 if many else 0
    return _Drawn(width=width + extra, height=height + extra, parts=parts)


def _card(fleet: Fleet, bunch: Bunch, colours: dict[str, str]) -> _Drawn:
    """A node: its NUMA domains side by side, and its link groups as rails below them."""
    node = bunch.node
    domains = [_numa(node, number, bunch.use, colours) for number in range(len(node.numa))]
    y = 46.0
    x, spots, parts = 10.0, {}, []
    high = max(one.height for one, _ in domains)
    for one, inside in domains:
        parts.append(one.at(x, y))
        spots.update({number: x + spot for number, spot in inside.items()})
        x += one.width + 8
    rails, rails_height = _rails(fleet, node, spots, y + high + 6)
    cores = sum(numa.cpus for numa in node.numa)
    memory = size(sum(numa.memory_bytes for numa in node.numa))
    times = f"  × {len(bunch.names):,}" if len(bunch.names) > 1 else ""
    devices = ", ".join(f"{n} x {kind}" for kind, n in _counts(node)) or "no devices"
    free = f"{cores - bunch.use.cpus:,.6g} of {plural(cores, 'core')} free"
    about = " · ".join([devices, free, memory, *_disks(node)])
    width = max(x + 2, wide(about, 11) + 24, wide(bunch.title + times, 13) + 24)
    height = y + high + rails_height + 12
    frame = [
        *(box(3 * k, 3 * k, width, height, fill="--card", radius=8) for k in (2, 1) if times),
        box(0, 0, width, height, fill="--card", radius=8),
        text(12, 20, bunch.title + times, size=13, kind="strong"),
        text(12, 36, about, size=11, kind="soft"),
    ]
    extra = 6 if times else 0
    return _Drawn(width=width + extra, height=height + extra, parts=(*frame, *parts, *rails))


def _disks(node: Node) -> list[str]:
    return [f"{units.format_size_bytes(node.nvme_bytes)} of NVMe"] if node.nvme_bytes else []


def _counts(node: Node) -> list[tuple[str, int]]:
    kinds = [device.kind for device in node.devices]
    return [(kind, kinds.count(kind)) for kind in dict.fromkeys(kinds)]


_Spots = dict[int, float]


def _numa(node: Node, number: int, use: Use, colours: dict[str, str]) -> tuple[_Drawn, _Spots]:
    """One NUMA domain, and where the middles of its devices are."""
    roots = dict.fromkeys(thing.root for thing in things_of(node) if thing.numa == number)
    places = [_root(node, Spot(numa=number, root=root), use, colours) for root in roots]
    about = f"{node.numa[number].cpus} cores · {size(node.numa[number].memory_bytes)}"
    content = sum(one.width + 6 for one, _ in places) - 6
    width = max(content + 16, wide(f"NUMA {number}  {about}", 10) + 16)
    x, spots, parts = (width - content) / 2, {}, []
    high = max((one.height for one, _ in places), default=0)
    for one, inside in places:
        parts.append(one.at(x, _LABEL + 6))
        spots.update({device: x + spot for device, spot in inside.items()})
        x += one.width + 6
    height = _LABEL + 6 + high + 8
    frame = (
        box(0, 0, width, height, fill="--numa", radius=6, line=False),
        (
            f'<text x="8" y="14" font-size="10"><tspan class="strong">NUMA {number}</tspan>'
            f'<tspan class="soft" dx="6">{about}</tspan></text>'
        ),
    )
    return _Drawn(width=width, height=height, parts=(*frame, *parts)), spots


def _root(node: Node, spot: Spot, use: Use, colours: dict[str, str]) -> tuple[_Drawn, _Spots]:
    """One PCIe root with its switches, each a box."""
    root = spot.root
    things = [thing for thing in things_of(node) if (thing.numa, thing.root) == (spot.numa, root)]
    bridges = list(dict.fromkeys(thing.bridge for thing in things))
    inner = [_place(node, replace(spot, bridge=bridge), use, colours) for bridge in bridges]
    if root is None and bridges == [None]:
        return inner[0]
    x, spots, parts = 6.0, {}, []
    for one, inside in inner:
        parts.append(one.at(x, _LABEL + 3))
        spots.update({device: x + spot for device, spot in inside.items()})
        x += one.width + 6
    width = max(x, wide(root or "", 9) + 14)
    height = _LABEL + 3 + max(one.height for one, _ in inner) + 6
    frame = (box(0, 0, width, height, fill="--place", radius=5), text(7, 12, root or "", size=9, kind="soft"))
    return _Drawn(width=width, height=height, parts=(*frame, *parts)), spots


def _place(node: Node, spot: Spot, use: Use, colours: dict[str, str]) -> tuple[_Drawn, _Spots]:
    """NICs over devices, in the box of a PCIe switch if they hang below one."""
    bridge = spot.bridge

    def here(thing: Device | Nic) -> bool:
        return (thing.numa, thing.root, thing.bridge) == (spot.numa, spot.root, spot.bridge)

    pad, top = (_PAD - 2, _LABEL) if bridge else (0, 0)
    ports = [_port(nic, use.nic_bytes_per_s[place]) for place, nic in enumerate(node.nics) if here(nic)]
    tiles = [number for number, device in enumerate(node.devices) if here(device)]
    of_ports = sum(port.width for port in ports) + 4 * max(0, len(ports) - 1)
    of_tiles = len(tiles) * (_TILE + _GAP) - _GAP if tiles else 0
    across = max(of_ports, of_tiles, wide(bridge or "", 9)) + 2 * pad
    parts: list[str] = []
    x = (across - of_ports) / 2
    for port in ports:
        parts.append(port.at(x, top))
        x += port.width + 4
    y = top + _PORT + _GAP
    spots: _Spots = {}
    x = (across - of_tiles) / 2
    for number in tiles:
        parts.append(_tile(number, use.shares[number], colours[node.devices[number].kind]).at(x, y))
        spots[number] = x + _TILE / 2
        x += _TILE + _GAP
    height = (y + _TILE if tiles else top + _PORT) + pad
    if bridge:
        parts.insert(0, box(0, 0, across, height, fill="--numa", radius=4))
        parts.insert(1, text(6, 11.5, bridge, size=9, kind="soft"))
    return _Drawn(width=across, height=height, parts=tuple(parts)), spots


def _port(nic: Nic, taken_bytes_per_s: float) -> _Drawn:
    speed = units.format_bandwidth(nic.bandwidth_bytes_per_s, bits=True, digits=4).removesuffix("b/s")
    words = f"⇅ {speed}"
    width = wide(words, 9) + 10
    part = min(1.0, taken_bytes_per_s / nic.bandwidth_bytes_per_s) if nic.bandwidth_bytes_per_s else 0.0
    full = (
        f'<rect width="{width * part:g}" height="{_PORT}" rx="9" fill="var(--soft)" fill-opacity="0.4"/>'
        if part
        else ""
    )
    title = f"<title>{escape(nic.name)}: {part:.0%} taken</title>"
    frame = box(0, 0, width, _PORT, fill="--rdma" if nic.rdma else "--port", radius=9, line=False)
    return _Drawn(
        width=width, height=_PORT, parts=(title, frame, full, text(width / 2, 12.5, words, size=9, middle=True))
    )


def _tile(number: int, share: float, colour: str) -> _Drawn:
    """A device: a square of its kind's colour, filled from below as far as it is taken."""
    filled = _TILE * share
    parts = [
        f"<title>device {number}: {share:.0%} taken</title>",
        f'<rect width="{_TILE}" height="{_TILE}" rx="5" fill="{colour}" fill-opacity="0.14" stroke="{colour}"/>',
    ]
    if filled:
        top = _TILE - filled
        parts.append(
            f'<rect y="{top:g}" width="{_TILE}" height="{filled:g}" rx="{min(5.0, filled / 2):g}" fill="{colour}"/>'
        )
    kind = ' class="on"' if share >= 0.6 else ""
    parts.append(f'<text x="{_TILE / 2:g}" y="22" font-size="12" text-anchor="middle"{kind}>{number}</text>')
    return _Drawn(width=_TILE, height=_TILE, parts=tuple(parts))


def _rails(fleet: Fleet, node: Node, spots: _Spots, y: float) -> tuple[list[str], float]:
    """One rail for each link group, from its first device to its last; groups side by side share a row."""
    groups: dict[str, list[int]] = {}
    for number, device in enumerate(node.devices):
        if device.group is not None:
            groups.setdefault(device.group, []).append(number)
    parts: list[str] = []
    ends: list[float] = []
    for group, numbers in groups.items():
        first, last = min(spots[n] for n in numbers), max(spots[n] for n in numbers)
        row = next((place for place, end in enumerate(ends) if end < first), len(ends))
        ends[row : row + 1] = [last + _GAP]
        middle = y + 8 + 24 * row
        figure = fleet.kind(node.devices[numbers[0]].kind).link_bytes_per_s
        speed = "" if figure is None else f" · {units.format_bandwidth(figure.value, digits=4)} each way"
        parts.append(
            f'<line x1="{first:g}" x2="{last:g}" y1="{middle:g}" y2="{middle:g}" stroke="var(--soft)" '
            'stroke-width="2.5" stroke-linecap="round"/>'
        )
        parts += [f'<circle cx="{spots[n]:g}" cy="{middle:g}" r="3.5" fill="var(--soft)"/>' for n in numbers]
        words = f"{group} · {runs(numbers)}{speed}"
        parts.append(text((first + last) / 2, middle + 15, words, size=9, kind="soft", middle=True))
    return parts, 24.0 * len(ends)


def _legend(colours: dict[str, str]) -> _Drawn:
    x, parts = 0.0, []
    for kind, colour in colours.items():
        parts.append(f'<rect x="{x:g}" width="12" height="12" rx="3" fill="{colour}"/>')
        parts.append(text(x + 17, 10.5, kind, size=12))
        x += 17 + wide(kind, 12) + 18
    for share, words in ((0, "free"), (0.5, "half taken"), (1, "taken")):
        parts.append(f'<rect x="{x:g}" width="12" height="12" rx="3" fill="none" stroke="var(--soft)"/>')
        parts.append(
            f'<rect x="{x:g}" y="{12 - 12 * share:g}" width="12" height="{12 * share:g}" rx="3" fill="var(--soft)"/>'
        )
        parts.append(text(x + 17, 10.5, words, size=12, kind="soft"))
        x += 17 + wide(words, 12) + 16
    for fill, words in (("--rdma", "NIC with RDMA"), ("--port", "NIC")):
        parts.append(box(x, 0, 20, 12, fill=fill, radius=6, line=False))
        parts.append(text(x + 25, 10.5, words, size=12, kind="soft"))
        x += 25 + wide(words, 12) + 16
    return _Drawn(width=x, height=14, parts=tuple(parts))


def _colours(fleet: Fleet) -> dict[str, str]:
    used = {device.kind for node in fleet.nodes for device in node.devices}
    names = [kind.name for kind in fleet.kinds if kind.name in used]
    return {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(names)}
