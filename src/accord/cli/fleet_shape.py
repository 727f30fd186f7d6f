"""A fleet as a person looks at it: spines, racks, and nodes that are equal counted as one.

In: a `Fleet`. Out: `Rack`s of `Bunch`es, and what is used of each node. Invariant: nodes stand together only where
they have the same things in the same places and the same parts of them are taken.
"""

import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from accord.edges.name_range import compress
from accord.terms.fleet import Device, Fleet, Nic, Node, Taken

_SHOWN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What is taken of a node: a share and bytes of each device, cores, host memory, and bytes a second of each NIC."""

    shares: tuple[float, ...]
    memory_bytes: tuple[int, ...]
    cpus: float
    host_memory_bytes: int
    nic_bytes_per_s: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bunch:
    """Equal nodes of one rack; `node` is the first of them."""

    names: tuple[str, ...]
    node: Node
    use: Use

    @property
    def title(self) -> str:
        """Their names, as one pattern if there is one."""
        return title(self.names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rack:
    """Racks that hold the same, below one spine. `leaves` are their switches; none for nodes without a known switch."""

    spine: str | None
    leaves: tuple[str, ...]
    bunches: tuple[Bunch, ...]

    @property
    def title(self) -> str:
        """The names of the switches."""
        return title(self.leaves) if self.leaves else "no leaf switch known"


def uses(fleet: Fleet) -> dict[str, Use]:
    """What is taken of each node, by its name."""
    of_node: defaultdict[str, list[Taken]] = defaultdict(list)
    for taken in fleet.taken:
        of_node[taken.node].append(taken)
    idle: dict[tuple[int, int], Use] = {}  # most nodes of a large fleet are idle, and alike
    for node in fleet.nodes:
        size = (len(node.devices), len(node.nics))
        if node.name not in of_node and size not in idle:
            idle[size] = _use(node, ())
    return {
        node.name: _use(node, of_node[node.name]) if node.name in of_node else idle[len(node.devices), len(node.nics)]
        for node in fleet.nodes
    }


def racks(fleet: Fleet) -> tuple[Rack, ...]:
    """All racks, by spine and leaf."""
    used = uses(fleet)
    held: defaultdict[tuple[str, str], list[Node]] = defaultdict(list)
    for node in fleet.nodes:
        held[node.spine or "", node.leaf or ""].append(node)
    keys = sorted(held, key=lambda key: (not key[0], _natural(key[0]), not key[1], _natural(key[1])))
    single = [
        Rack(spine=spine or None, leaves=(leaf,) if leaf else (), bunches=_bunches(held[spine, leaf], used))
        for spine, leaf in keys
    ]
    return tuple(_joined(list(same)) for _, same in itertools.groupby(single, key=_likeness))


def shapes(found: Sequence[Rack]) -> tuple[tuple[str, Node], ...]:
    """Each kind of node that has devices: the names of all of them, and the first."""
    alike: dict[Node, list[Bunch]] = {}
    for bunch in (bunch for rack in found for bunch in rack.bunches):
        if bunch.node.devices:
            alike.setdefault(replace(_bare(bunch.node), leaf=None, spine=None), []).append(bunch)
    return tuple((title([name for one in same for name in one.names]), same[0].node) for same in alike.values())


def owners(fleet: Fleet, node: str) -> tuple[Taken, ...]:
    """Who has what of this node, device by device."""
    mine = [taken for taken in fleet.taken if taken.node == node]
    return tuple(sorted(mine, key=lambda taken: (taken.device is None, taken.device or 0, taken.owner)))


def things_of(node: Node) -> tuple[Device | Nic, ...]:
    """Devices and NICs: what hangs on the PCIe tree."""
    return (*node.devices, *node.nics)


def title(names: Sequence[str]) -> str:
    """One pattern for these names, or the first of them and how many more."""
    pattern = compress(names)
    if pattern is not None and len(pattern) <= 60:
        return pattern
    first = ", ".join(names[:_SHOWN])
    return first if len(names) <= _SHOWN else f"{first} and {len(names) - _SHOWN:,} more"


def total(numbers: Iterable[float]) -> float:
    """A sum without the dust of binary fractions."""
    return round(sum(numbers), 6)


def _use(node: Node, taken: Sequence[Taken]) -> Use:
    shares, memory = [0.0] * len(node.devices), [0] * len(node.devices)
    nics = [0.0] * len(node.nics)
    for one in taken:
        if one.device is not None:
            shares[one.device] += one.share
            memory[one.device] += one.memory_bytes
        if one.nic is not None:
            nics[one.nic] += one.nic_bytes_per_s
    return Use(
        shares=tuple(min(1.0, round(share, 6)) for share in shares),
        memory_bytes=tuple(memory),
        cpus=total(one.cpus for one in taken),
        host_memory_bytes=sum(one.host_memory_bytes for one in taken),
        nic_bytes_per_s=tuple(nics),
    )


def _bunches(nodes: Sequence[Node], used: dict[str, Use]) -> tuple[Bunch, ...]:
    alike: defaultdict[tuple[Node, Use], list[Node]] = defaultdict(list)
    for node in nodes:
        alike[_bare(node), used[node.name]].append(node)
    return tuple(
        Bunch(names=tuple(node.name for node in same), node=same[0], use=use) for (_, use), same in alike.items()
    )


def _bare(node: Node) -> Node:
    """What makes nodes look alike: all but names, labels and UUIDs."""
    devices = tuple(replace(device, uuid=None) if device.uuid else device for device in node.devices)
    return replace(node, name="", labels=(), devices=devices)


def _likeness(rack: Rack) -> tuple[str | None, bool, tuple[tuple[Node, Use, int], ...]]:
    parts = ((replace(_bare(bunch.node), leaf=None), bunch.use, len(bunch.names)) for bunch in rack.bunches)
    return rack.spine, bool(rack.leaves), tuple(parts)


def _joined(same: Sequence[Rack]) -> Rack:
    bunches = tuple(
        replace(first[0], names=tuple(name for bunch in first for name in bunch.names))
        for first in zip(*(rack.bunches for rack in same), strict=True)
    )
    return replace(same[0], leaves=tuple(leaf for rack in same for leaf in rack.leaves), bunches=bunches)


def _natural(text: str) -> tuple[tuple[int, str], ...]:
    """Orders leaf-2 before leaf-10."""
    return tuple((int(part), "") if part.isdigit() else (0, part) for part in re.split(r"([0-9]+)", text))
