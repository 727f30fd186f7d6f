"""The fleet as arrays: what each node and each device has left.

In: a `Fleet`, then seats that are taken and given back. Out: `Board`. Invariant: nothing is ever below zero, each
change raises its node's version, and giving a seat back restores exactly what taking it took.
"""

import copy
import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from accord.place.layout import Layouts
from accord.terms.errors import BadInput
from accord.terms.fleet import Fleet, Taken
from accord.terms.gang import Scope, Seat

Ints = NDArray[np.int64]
ABSENT = -1
WHOLE = 1000  # thousandths of a device
MILLI = 1000  # thousandths of a core


class Board:
    """Free capacity, as `[node]`, `[node, device]`, `[node, numa]` and `[node, nic]` arrays of whole numbers.

    Nodes stand sorted by name, so that their order in a file changes nothing. What doesn't exist is ABSENT (0 for
    NUMA domains). `share` is in thousandths of a device, `cpu` in thousandths of a core, all else in bytes and bytes/s.
    """

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.nodes = tuple(sorted(fleet.nodes, key=lambda node: node.name))
        self.names = tuple(node.name for node in self.nodes)
        self.row = {name: number for number, name in enumerate(self.names)}
        self.kinds = tuple(sorted({device.kind for node in self.nodes for device in node.devices}))
        memories = [self.fleet.kind(name).memory_bytes for name in self.kinds]
        # Of a whole device, by kind; 0 where it isn't known, and last for ABSENT.
        self.card_memory = np.array([*(round(memory.value) if memory else 0 for memory in memories), 0], np.int64)
        self.codec_names = tuple(sorted({codec.name for kind in fleet.kinds for codec in kind.codecs}))
        count = len(self.nodes)
        wide = (count, max((len(node.devices) for node in self.nodes), default=0))
        self.kind = np.full(wide, ABSENT, np.int64)
        self.share = np.full(wide, ABSENT, np.int64)
        self.memory = np.full(wide, ABSENT, np.int64)
        self.codecs = np.zeros((len(self.codec_names), *wide), np.int64)
        self.template_names = tuple(sorted({cut.name for kind in fleet.kinds for cut in kind.templates}))
        self.templates = np.zeros((len(self.template_names), *wide), np.int64)  # how many more can be cut
        domains = (count, max((len(node.numa) for node in self.nodes), default=0))
        self.cpu = np.zeros(domains, np.int64)
        self.host = np.zeros(domains, np.int64)
        self.nic = np.full((count, max((len(node.nics) for node in self.nodes), default=0)), ABSENT, np.int64)
        self.nvme = np.array([node.nvme_bytes for node in self.nodes], np.int64)
        self._fill()
        self.cpu_sum = self.cpu.sum(axis=1)
        self.host_sum = self.host.sum(axis=1)
        self.share_sum = np.maximum(self.share, 0).sum(axis=1)
        self.versions = np.zeros(count, np.int64)
        self.version = 0
        self.layouts = Layouts(self.nodes, self.kinds, tuple(self.card_memory.tolist()))
        self.places: dict[Scope, Ints] = {}  # what gang_caps.py has worked out of where nodes and devices stand
        shares: dict[tuple[str, int], float] = {}
        seats: list[Seat] = []
        for taken in fleet.taken:
            seats.append(_seat_of(taken, self, shares))
            self.take(seats[-1])
        self.taken = tuple(seats)  # one for each of the fleet's

    def copy(self) -> "Board":
        """A board of its own, to try things on."""
        other = copy.copy(self)
        for name, its in vars(self).items():
            if isinstance(its, np.ndarray):
                setattr(other, name, its.copy())
        other.places = dict(self.places)
        return other

    def take(self, seat: Seat) -> None:
        """Takes a seat; BadInput, and nothing changed, if it doesn't fit (any more)."""
        short = self.short_of(seat)
        if short is not None:
            fix = "decide again on the newer snapshot"
            raise BadInput(field=f"placement.{seat.part}", value=seat.node, problem=f"{short} is taken", fix=fix)
        self._move(seat, -1)

    def give(self, seat: Seat) -> None:
        """Gives a seat back."""
        self._move(seat, 1)

    def short_of(self, seat: Seat) -> str | None:
        """What a seat wants and the board doesn't have; None if it fits."""
        row = self.row.get(seat.node)
        if row is None:
            return f"node {seat.node}"
        for device in seat.devices:
            if not 0 <= device < len(self.nodes[row].devices):
                return f"device {device}"
            if self.share[row, device] < seat.share_milli or self.memory[row, device] < seat.memory_bytes:
                return f"device {device}"
            for codec in seat.codecs:
                known = codec.name in self.codec_names
                if not known or self.codecs[self.codec_names.index(codec.name), row, device] < codec.units:
                    return f"codec {codec.name} of device {device}"
            if seat.template is not None:
                known = seat.template in self.template_names
                if not known or self.templates[self._template(seat), row, device] < 1:
                    return f"template {seat.template} of device {device}"
        domains = len(self.nodes[row].numa)
        if any(seat.cpus_milli[domains:]) or any(seat.host_memory_bytes[domains:]):
            return "a NUMA domain"
        if any(want > self.cpu[row, numa] for numa, want in enumerate(seat.cpus_milli[:domains])):
            return "a core"
        if any(want > self.host[row, numa] for numa, want in enumerate(seat.host_memory_bytes[:domains])):
            return "host memory"
        if seat.nic is not None and not 0 <= seat.nic < len(self.nodes[row].nics):
            return f"NIC {seat.nic}"
        if seat.nic is not None and self.nic[row, seat.nic] < seat.nic_bytes_per_s:
            return f"bandwidth of NIC {seat.nic}"
        return "NVMe" if self.nvme[row] < seat.nvme_bytes else None

    def state(self, row: int) -> bytes:
        """What one node has left, as bytes: equal where it is the same."""
        arrays = (self.kind, self.share, self.memory, self.cpu, self.host, self.nic)
        stacks = (self.codecs[:, row], self.templates[:, row], self.nvme[row])
        return b"".join((*(its[row].tobytes() for its in arrays), *(its.tobytes() for its in stacks)))

    def states(self) -> NDArray[np.void]:
        """One value for each node, equal where the nodes have the same devices and the same left of everything."""
        count = len(self.nodes)
        per_node = (self.kind, self.share, self.memory, self.cpu, self.host, self.nic, self.nvme[:, None])
        per_device = [layer for stack in (self.codecs, self.templates) for layer in stack]
        table = np.ascontiguousarray(np.concatenate((*per_node, *per_device), axis=1))
        return table.view(np.dtype((np.void, table.itemsize * table.shape[1]))).reshape(count)

    def _move(self, seat: Seat, sign: int) -> None:
        row = self.row[seat.node]
        self.share_sum[row] += sign * seat.share_milli * len(seat.devices)
        for device in seat.devices:
            self.share[row, device] += sign * seat.share_milli
            self.memory[row, device] += sign * seat.memory_bytes
            for codec in seat.codecs:
                self.codecs[self.codec_names.index(codec.name), row, device] += sign * codec.units
            if seat.template is not None:
                self.templates[self._template(seat), row, device] += sign
        for numa, cpus in enumerate(seat.cpus_milli[: self.cpu.shape[1]]):
            self.cpu[row, numa] += sign * cpus
            self.cpu_sum[row] += sign * cpus
        for numa, memory in enumerate(seat.host_memory_bytes[: self.host.shape[1]]):
            self.host[row, numa] += sign * memory
            self.host_sum[row] += sign * memory
        if seat.nic is not None:
            self.nic[row, seat.nic] += sign * seat.nic_bytes_per_s
        self.nvme[row] += sign * seat.nvme_bytes
        self.version += 1
        self.versions[row] = self.version

    def _template(self, seat: Seat) -> int:
        return self.template_names.index(seat.template or "")

    def _fill(self) -> None:
        numbers = {name: number for number, name in enumerate(self.kinds)}
        kinds = {kind.name: kind for kind in self.fleet.kinds}
        for row, node in enumerate(self.nodes):
            for column, device in enumerate(node.devices):
                kind = kinds[device.kind]
                self.kind[row, column] = numbers[device.kind]
                self.share[row, column] = WHOLE
                self.memory[row, column] = self.card_memory[numbers[device.kind]]
                for codec in kind.codecs:
                    self.codecs[self.codec_names.index(codec.name), row, column] = codec.units
                for cut in kind.templates:
                    self.templates[self.template_names.index(cut.name), row, column] = cut.count_max
            for column, numa in enumerate(node.numa):
                self.cpu[row, column] = MILLI * numa.cpus
                self.host[row, column] = numa.memory_bytes
            for column, nic in enumerate(node.nics):
                self.nic[row, column] = round(nic.bandwidth_bytes_per_s)


def spread(wanted: int, free: Iterable[int], *, first: int = 0) -> tuple[int, ...] | None:
    """`wanted` drawn from domains that have `free`, the `first` one before the others; None if they have too little."""
    left = wanted
    room = list(free)
    drawn = [0] * len(room)
    for domain in (first, *(number for number in range(len(room)) if number != first)):
        if domain < len(room):
            drawn[domain] = min(left, room[domain])
            left -= drawn[domain]
    return tuple(drawn) if left == 0 else None


def taken_of(seat: Seat, *, owner: str, movable: bool = False) -> tuple[Taken, ...]:
    """A seat as capacity that is taken: a fleet with these gives the board as it stands, to start from again."""
    base = Taken(node=seat.node, owner=owner, movable=movable)
    share = seat.share_milli / WHOLE
    rows = [
        replace(
            base, device=device, share=share, memory_bytes=seat.memory_bytes, codecs=seat.codecs, template=seat.template
        )
        for device in seat.devices
    ]
    for numa, (cpus, memory) in enumerate(zip(seat.cpus_milli, seat.host_memory_bytes, strict=True)):
        if cpus or memory:
            rows.append(replace(base, numa=numa, cpus=cpus / MILLI, host_memory_bytes=memory))
    if seat.nic_bytes_per_s or seat.nvme_bytes:
        rate = float(seat.nic_bytes_per_s)
        rows.append(replace(base, nic=seat.nic, nic_bytes_per_s=rate, nvme_bytes=seat.nvme_bytes))
    return tuple(rows)


def _seat_of(taken: Taken, board: Board, shares: dict[tuple[str, int], float]) -> Seat:
    """What is taken as a seat; `shares` is what was taken of each device before, so that seven sevenths are one."""
    row = board.row[taken.node]
    numa = taken.numa or 0
    cpus = spread(round(MILLI * taken.cpus), board.cpu[row].tolist(), first=numa)
    memory = spread(taken.host_memory_bytes, board.host[row].tolist(), first=numa)
    if cpus is None or memory is None:
        fix = "check what is taken against what the node has"
        raise BadInput(field=f"taken.{taken.owner}", value=taken.node, problem="more than the node has", fix=fix)
    share = 0
    if taken.device is not None:
        place = (taken.node, taken.device)
        before = shares.get(place, 0.0)
        shares[place] = before + taken.share
        share = _milli(shares[place]) - _milli(before)
    return Seat(
        part=taken.owner,
        replica=0,
        node=taken.node,
        devices=() if taken.device is None else (taken.device,),
        share_milli=share,
        memory_bytes=taken.memory_bytes,
        codecs=taken.codecs,
        template=taken.template,
        cpus_milli=cpus,
        host_memory_bytes=memory,
        nic=taken.nic,
        nic_bytes_per_s=round(taken.nic_bytes_per_s),
        nvme_bytes=taken.nvme_bytes,
    )


def _milli(share: float) -> int:
    return math.ceil(round(WHOLE * share, 6))
