"""One node while a gang is being tried on it: where its devices and NICs stand, what is left, what that is worth.

In: a `Board` and a row. Out: `Layout` (never changes) and `Room` (a working copy that seats are put into).
Invariant: a `Room` never reaches back to the board. Ids of a scope are equal for what stands together; what is not
known has a negative id of its own, so that it is never taken for near.
"""

import math
from dataclasses import dataclass

from accord.place.board import WHOLE, Board
from accord.place.gang_wish import Cut, Wish
from accord.place.mix import Beside
from accord.place.score import STARVED
from accord.place.worth import Worth
from accord.terms.fleet import Device, Nic, Node
from accord.terms.gang import Scope

_NOWHERE = -(1 << 40)  # a NIC whose place is not known stands near nothing
_PLACES = (Scope.LINK_GROUP, Scope.PCIE_SWITCH, Scope.PCIE_ROOT, Scope.NUMA)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Ids of devices and NICs by scope; `pair` is a device's number among its kind, halved."""

    kinds: tuple[int, ...]
    full_memory: tuple[int, ...]
    ids: dict[Scope, tuple[int, ...]]
    nic_ids: dict[Scope, tuple[int, ...]]
    pair: tuple[int, ...]
    places: tuple[tuple[int, ...], ...]  # for each device its ids, with -1 for what isn't known


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """One replica on the node at hand. `domain` is where its cores come from first, or alone (Wish.exact)."""

    wish: Wish
    devices: tuple[int, ...]
    cut: Cut | None
    nic: int | None
    nic_bytes: int
    domain: int


def layout_of(board: Board, row: int) -> Layout:
    """Where the devices and NICs of a node stand."""
    node = board.nodes[row]
    names: dict[Scope, dict[tuple[str | None, ...], int]] = {scope: {} for scope in _PLACES}
    ids = {
        scope: tuple(_id(names, scope, device, -1 - n) for n, device in enumerate(node.devices)) for scope in _PLACES
    }
    ids[Scope.CARD] = tuple(range(len(node.devices)))
    nic_scopes = (Scope.PCIE_SWITCH, Scope.PCIE_ROOT, Scope.NUMA)
    kinds = tuple(board.kind[row, : len(node.devices)].tolist())
    return Layout(
        kinds=kinds,
        full_memory=tuple(_memory(board, device) for device in node.devices),
        ids=ids,
        nic_ids={scope: tuple(_id(names, scope, nic, _NOWHERE) for nic in node.nics) for scope in nic_scopes},
        pair=tuple(kinds[:number].count(kind) // 2 for number, kind in enumerate(kinds)),
        places=tuple(tuple(max(-1, ids[scope][n]) for scope in _PLACES) for n in range(len(node.devices))),
    )


def _memory(board: Board, device: Device) -> int:
    memory = board.fleet.kind(device.kind).memory_bytes
    return round(memory.value) if memory else 0


def _id(names: dict[Scope, dict[tuple[str | None, ...], int]], scope: Scope, thing: Device | Nic, unknown: int) -> int:
    if scope is Scope.NUMA:
        return thing.numa
    name: tuple[str | None, ...]
    if scope is Scope.LINK_GROUP:
        name = (thing.group,) if isinstance(thing, Device) else (None,)
    else:
        # The switches below two roots may have one name.
        name = (thing.root,) if scope is Scope.PCIE_ROOT else (thing.bridge, thing.root)
    if name[0] is None:
        return unknown
    return names[scope].setdefault(name, len(names[scope]))


class Room:
    """What a node has left, as lists. Cores and memory of seats that aren't exact count in the sums alone."""

    __slots__ = ("codecs", "cpu", "cpu_left", "host", "host_left", "memory", "nic", "nvme", "share", "templates")

    def __init__(self, board: Board, row: int) -> None:
        node: Node = board.nodes[row]
        wide = len(node.devices)
        self.share: list[int] = board.share[row, :wide].tolist()
        self.memory: list[int] = board.memory[row, :wide].tolist()
        self.codecs: list[list[int]] = board.codecs[:, row, :wide].tolist()
        self.templates: list[list[int]] = board.templates[:, row, :wide].tolist()
        self.cpu: list[int] = board.cpu[row, : len(node.numa)].tolist()
        self.host: list[int] = board.host[row, : len(node.numa)].tolist()
        self.nic: list[int] = board.nic[row, : len(node.nics)].tolist()
        self.nvme = int(board.nvme[row])
        self.cpu_left = sum(self.cpu)
        self.host_left = sum(self.host)

    def copy(self) -> "Room":
        """A room of its own."""
        other = Room.__new__(Room)
        other.share, other.memory = self.share[:], self.memory[:]
        other.codecs = [units[:] for units in self.codecs]
        other.templates = [left[:] for left in self.templates]
        other.cpu, other.host, other.nic = self.cpu[:], self.host[:], self.nic[:]
        other.nvme, other.cpu_left, other.host_left = self.nvme, self.cpu_left, self.host_left
        return other

    def holds(self, device: int, cut: Cut) -> bool:
        """Whether a device can give what the cut takes of it."""
        if self.share[device] < cut.share or self.memory[device] < cut.memory:
            return False
        if any(want > left[device] for want, left in zip(cut.codecs, self.codecs, strict=True)):
            return False
        return cut.template is None or self.templates[cut.template][device] > 0

    def feeds(self, wish: Wish, domain: int) -> bool:
        """Whether there are cores, host memory and NVMe for one more."""
        if self.cpu_left < wish.cpu or self.host_left < wish.host or self.nvme < wish.nvme:
            return False
        return not wish.exact or (
            domain < len(self.cpu) and self.cpu[domain] >= wish.cpu and self.host[domain] >= wish.host
        )

    def put(self, spot: Spot, sign: int = -1) -> None:
        """Puts a spot in, or takes it out with sign 1."""
        wish, cut = spot.wish, spot.cut
        if cut is not None:
            for device in spot.devices:
                self.share[device] += sign * cut.share
                self.memory[device] += sign * cut.memory
                for units, left in zip(cut.codecs, self.codecs, strict=True):
                    left[device] += sign * units
                if cut.template is not None:
                    self.templates[cut.template][device] += sign
        self.cpu_left += sign * wish.cpu
        self.host_left += sign * wish.host
        if wish.exact:
            self.cpu[spot.domain] += sign * wish.cpu
            self.host[spot.domain] += sign * wish.host
        if spot.nic is not None:
            self.nic[spot.nic] += sign * spot.nic_bytes
        self.nvme += sign * wish.nvme

    def signature(self) -> tuple[object, ...]:
        """Equal for rooms with the same left."""
        return (
            *self.share, *self.memory, *self.cpu, *self.host, *self.nic, self.nvme, self.cpu_left, self.host_left,
            *(units for left in (*self.codecs, *self.templates) for units in left),
        )  # fmt: skip


def gap_milli(room: Room, layout: Layout, device: int) -> int:
    """Thousandths of a device that are free, of compute or of memory, whichever is less."""
    full = layout.full_memory[device]
    memory = WHOLE * room.memory[device] // full if full else WHOLE
    return min(room.share[device], memory)


def gap_loss(room: Room, layout: Layout, cut: Cut, *, device: int, worth: Worth) -> float:
    """What the gap on a device loses by the cut, in thousandths of a device."""
    kind, full = layout.kinds[device], layout.full_memory[device]
    before = gap_milli(room, layout, device)
    memory = WHOLE * (room.memory[device] - cut.memory) // full if full else WHOLE
    after = max(0, min(room.share[device] - cut.share, memory))
    return float(worth.gaps[kind, before] - worth.gaps[kind, after])


def value(room: Room, layout: Layout, worth: Worth) -> float:
    """What is left is worth this much, in thousandths of devices: gaps less what cores and memory can't feed."""
    gaps = sum(float(worth.gaps[kind, gap_milli(room, layout, device)]) for device, kind in enumerate(layout.kinds))
    residue = sum(room.share)
    starved = _unfed(room.cpu_left, residue, worth.cores) + _unfed(room.host_left, residue, worth.memory)
    return gaps - STARVED * starved


def _unfed(free: int, residue: int, beside: Beside) -> float:
    """As in score.py, for one node."""
    if not beside.mean or residue <= 0:
        return 0.0
    scale = math.sqrt(residue * beside.deviation**2 * 3) / math.pi + 1e-9
    excess = (beside.mean * residue - free) / scale
    return scale * (max(excess, 0.0) + math.log1p(math.exp(-abs(excess)))) / beside.mean
