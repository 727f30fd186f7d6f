"""One node while a gang is being tried on it: what is left there, and what that is worth.

In: a `Board` and a row. Out: `Room`, a working copy that spots are put into. Invariant: a `Room` never reaches back to
the board.
"""

import math
from dataclasses import dataclass

from accord.place.board import WHOLE, Board
from accord.place.gang_wish import Cut, Wish
from accord.place.layout import Layout
from accord.place.mix import Beside
from accord.place.score import STARVED
from accord.place.worth import Worth


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """One replica on the node at hand. `domain` is where its cores come from first, or alone (Wish.exact)."""

    wish: Wish
    devices: tuple[int, ...]
    cut: Cut | None
    nic: int | None
    nic_bytes: int
    domain: int


class Room:
    """What a node has left, as lists. Cores and memory of seats that aren't exact count in the sums alone."""

    __slots__ = ("codecs", "cpu", "cpu_left", "host", "host_left", "memory", "nic", "nvme", "share", "templates")

    def __init__(self, board: Board, row: int) -> None:
        node = board.nodes[row]
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
