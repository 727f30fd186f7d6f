"""One replica at a time: the node that loses least.

In: a `Board`, a `Mix`, a `Part`. Out: a `Seat`, or None. Invariant: deciding changes nothing on the board; what is
remembered between decisions are losses, and those of a node that has changed are computed anew before they are used.
"""

import copy

import numpy as np

from accord.place.board import ABSENT, Board, Ints, spread
from accord.place.gang_caps import Caps
from accord.place.gang_wish import Cut
from accord.place.mix import Mix
from accord.place.score import STEP, Ask, Asks, ask_of, losses, usable
from accord.place.worth import Floats, worth_of
from accord.terms.fleet import Codec
from accord.terms.gang import Need, Part, Seat

_NEEDS_MAX = 512
_NEEDS_MIN = 16
_TABLE_BYTES_MAX = 256 << 20  # of remembered losses: on very large fleets fewer needs are remembered
_PAIRS_MAX = 1 << 14  # computed at once: what lies in between is a few MiB
_Key = tuple[Need, tuple[str, ...]]


class Scores:
    """Losses of needs on all nodes. The mix's needs are computed beforehand, others when they are first seen.

    When a node has changed, its losses are computed for all remembered needs together: that costs little more than
    for one need, and no decision ever has to catch up with what earlier ones left stale.
    """

    def __init__(self, board: Board, mix: Mix) -> None:
        self.worth = worth_of(mix, tuple(board.card_memory[:-1].tolist()))
        self._begin(board)
        by_weight = sorted(mix.needs, key=lambda row: -row[1])
        self._add([Part(name="", need=need) for need, _ in by_weight[: self._needs_max]])

    def on(self, board: Board) -> "Scores":
        """The same worths, for another board with the same fleet."""
        other = copy.copy(self)
        other._begin(board)
        return other

    def of(self, part: Part) -> tuple[Ask, Floats, Ints]:
        """The part's ask, and for each node the loss (in steps; infinite: doesn't fit) and the first device."""
        self._refresh()
        key = (part.need, part.kinds)
        if key not in self._slots:
            self._add([part])
        slot = self._slots[key] = self._slots.pop(key)  # the last in the order is the last used
        return self._ask[slot], self._loss[slot], self._device[slot]

    def _begin(self, board: Board) -> None:
        count = len(board.nodes)
        self.board = board
        self.caps = Caps(board)
        self._needs_max = max(_NEEDS_MIN, min(_NEEDS_MAX, _TABLE_BYTES_MAX // (16 * max(count, 1))))
        self._slots: dict[_Key, int] = {}
        self._ask: dict[int, Ask] = {}
        self._asks = Asks(board, self._needs_max)
        self._loss = np.empty((self._needs_max, count))
        self._device = np.empty((self._needs_max, count), np.int64)
        self._seen = board.versions.copy()

    def _add(self, parts: list[Part]) -> None:
        """Computes needs on all nodes; nodes that are alike once, where that pays."""
        slots = [self._slot(part) for part in parts]
        if len(slots) <= 1:
            self._compute(np.arange(len(self.board.nodes)), np.array(slots, np.int64))
            return
        _, rows, alike = np.unique(self.board.states(), return_index=True, return_inverse=True)
        self._compute(rows, np.array(slots))
        for slot in slots:
            self._loss[slot] = self._loss[slot, rows][alike]
            self._device[slot] = self._device[slot, rows][alike]

    def _slot(self, part: Part) -> int:
        """A slot of its own for a new need; if there is none left, that of the need not used for longest."""
        full = len(self._slots) >= self._needs_max
        slot = self._slots.pop(next(iter(self._slots))) if full else len(self._slots)
        self._slots[part.need, part.kinds] = slot
        self._ask[slot] = ask_of(self.board, part)
        self._asks.put(slot, self._ask[slot])
        return slot

    def _refresh(self) -> None:
        stale = np.flatnonzero(self._seen != self.board.versions)
        if len(stale):
            self._compute(stale, np.arange(len(self._slots)))
            self._seen[stale] = self.board.versions[stale]

    def _compute(self, rows: Ints, slots: Ints) -> None:
        chunk = max(1, _PAIRS_MAX // max(1, len(slots)))
        for begin in range(0, len(rows), chunk):
            some = rows[begin : begin + chunk]
            which, row = np.repeat(slots, len(some)), np.tile(some, len(slots))
            loss, device = losses(self.board, self._asks, self.worth, rows=row, which=which)
            self._loss[which, row] = np.floor(loss / STEP + 0.5)
            self._device[which, row] = device


def is_plain(board: Board, part: Part) -> bool:
    """Whether `best_seat` is a complete answer: one replica on one device, or on none, that may stand anywhere."""
    one_device = part.need.cards <= 1 and not any(kind.pairs for kind in board.fleet.kinds)
    return one_device and part.replicas == 1 and part.within is None and part.nic_within is None


def best_seat(scores: Scores, part: Part, *, replica: int = 0) -> Seat | None:
    """The seat that loses least for one replica that has no relations; None if it fits nowhere."""
    ask, loss, device = scores.of(part)
    if not len(loss):
        return None
    row = int(loss.argmin())
    if not np.isfinite(loss[row]):
        return None
    return seat_at(scores.board, part, ask, row=row, first=int(device[row]), replica=replica)


def seat_at(board: Board, part: Part, ask: Ask, *, row: int, first: int, replica: int) -> Seat:
    """The seat on one node: the given device, or whole cards from the first on."""
    cut: Cut | None = ask.cuts[board.kind[row, first]] if first != ABSENT else None
    devices: tuple[int, ...] = (first,) if cut else ()
    if cut and cut.devices > 1:
        kinds = board.kind[row].tolist()
        devices = tuple(device for device in usable(board, row, ask) if kinds[device] == kinds[first])[: cut.devices]
    numa = board.nodes[row].devices[first].numa if cut else 0
    codecs = zip(board.codec_names, cut.codecs, strict=True) if cut else ()
    return Seat(
        part=part.name,
        replica=replica,
        node=board.names[row],
        devices=devices,
        share_milli=cut.share if cut else 0,
        memory_bytes=cut.memory if cut else 0,
        codecs=tuple(Codec(name=name, units=units) for name, units in codecs if units),
        template=None if cut is None or cut.template is None else board.template_names[cut.template],
        cpus_milli=spread(ask.cpu, board.cpu[row].tolist(), first=numa) or (),
        host_memory_bytes=spread(ask.host, board.host[row].tolist(), first=numa) or (),
        nic=int((board.nic[row] >= ask.nic).argmax()) if ask.nic else None,
        nic_bytes_per_s=ask.nic,
        nvme_bytes=ask.nvme,
    )
