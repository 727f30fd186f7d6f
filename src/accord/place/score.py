"""How much a need would spoil on a node, for many needs and nodes at once.

In: a `Board`, `Asks` (needs side by side), pairs of a row and an ask, a `Worth`. Out: for each pair the loss in
thousandths of a device and the device to take. Invariant: where the need doesn't fit the loss is infinite; nothing is
changed; a pair's answer doesn't depend on the pairs beside it.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accord.place.board import ABSENT, MILLI, WHOLE, Board, Ints
from accord.place.gang_wish import Cut, cut_of, takes_cards
from accord.place.mix import Beside
from accord.place.worth import Floats, Worth
from accord.terms.gang import Part

# How much of what cores or memory would starve is lost for good: the rest goes to needs that ask for less of them. On
# the openb traces anything from 0.1 to 1 leaves within 0.1% of all devices of the best (benchmarks/place.py).
STARVED = 0.3
# Losses nearer than this, in thousandths of a device, are equal; then the first node by name wins, which keeps later
# nodes whole.
STEP = 10.0
_NEVER = np.int64(1) << 62  # more than any device has


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One replica of a part in the board's whole numbers. `cuts` are by kind of the board (None: won't do)."""

    cards: bool
    cuts: tuple[Cut | None, ...]
    cpu: int
    host: int
    nic: int
    nvme: int


def ask_of(board: Board, part: Part) -> Ask:
    """A part's replica as whole numbers, rounded up."""
    need = part.need
    return Ask(
        cards=takes_cards(need),
        cuts=tuple(cut_of(board, part, name) for name in board.kinds),
        cpu=math.ceil(round(MILLI * need.cpus, 6)),
        host=need.host_memory_bytes,
        nic=math.ceil(need.nic_bytes_per_s),
        nvme=need.nvme_bytes,
    )


class Asks:
    """Needs side by side, as `[ask]` and `[ask, kind]` arrays; the last column of these stands for ABSENT devices."""

    def __init__(self, board: Board, count: int) -> None:
        wide = (count, len(board.kinds) + 1)
        self.cards = np.zeros(count, bool)
        self.many = np.zeros(count, bool)  # more than one device
        self.least = np.zeros(count, np.int64)  # thousandths that any node must have free
        self.cpu, self.host, self.nic, self.nvme = np.zeros((4, count), np.int64)
        self.devices = np.ones(wide, np.int64)
        self.share = np.full(wide, _NEVER)
        self.memory = np.zeros(wide, np.int64)
        self.template = np.full(wide, ABSENT)
        self.codecs = np.zeros((len(board.codec_names), *wide), np.int64)

    def put(self, number: int, ask: Ask) -> None:
        """Writes one ask over what stood there."""
        cuts = [(kind, cut) for kind, cut in enumerate(ask.cuts) if cut]
        self.cards[number] = ask.cards
        self.many[number] = any(cut.devices > 1 for _, cut in cuts)
        self.least[number] = min((cut.devices * cut.share for _, cut in cuts), default=_NEVER) if ask.cards else 0
        self.cpu[number], self.host[number] = ask.cpu, ask.host
        self.nic[number], self.nvme[number] = ask.nic, ask.nvme
        self.share[number] = _NEVER
        for kind, cut in cuts:
            self.devices[number, kind] = cut.devices
            self.share[number, kind] = cut.share
            self.memory[number, kind] = cut.memory
            self.template[number, kind] = ABSENT if cut.template is None else cut.template
            self.codecs[:, number, kind] = cut.codecs


def losses(board: Board, asks: Asks, worth: Worth, *, rows: Ints, which: Ints) -> tuple[Floats, Ints]:
    """For each pair: the loss (infinite where the need doesn't fit), and the first device to take (ABSENT: none).

    Two things spoil capacity. A fraction may leave a gap that nothing usual fills: the worth of the gap before less
    that after. And a node may keep devices that its cores or memory can't feed: demand that comes with its free
    thousandths of devices is taken for a logistic variable, and its expected excess over what is free is what would
    stand idle.
    """
    loss = np.full(len(rows), np.inf)
    device = np.full(len(rows), ABSENT)
    pairs = np.flatnonzero(_host_fits(board, rows, asks, which))
    rows, which = rows[pairs], which[pairs]
    residue = np.maximum(board.share[rows], 0).sum(axis=1)
    spoilt = np.zeros(len(pairs))
    taken = np.zeros(len(pairs), np.int64)
    on_cards = np.flatnonzero(asks.cards[which])
    if len(on_cards):
        spoilt[on_cards], device[pairs[on_cards]], taken[on_cards] = _cards(
            board, asks, worth, rows=rows[on_cards], which=which[on_cards]
        )
    fits = np.isfinite(spoilt)
    pairs, rows, which, residue, taken = pairs[fits], rows[fits], which[fits], residue[fits], taken[fits]
    cores, memory = board.cpu_sum[rows], board.host_sum[rows]
    starved = _unfed(cores - asks.cpu[which], residue - taken, worth.cores) - _unfed(cores, residue, worth.cores)
    starved += _unfed(memory - asks.host[which], residue - taken, worth.memory)
    starved -= _unfed(memory, residue, worth.memory)
    loss[pairs] = spoilt[fits] + STARVED * starved
    return loss, device


def usable(board: Board, row: int, ask: Ask) -> list[int]:
    """The devices of a node that could hold one device's part of the need."""
    found = []
    for device, kind in enumerate(board.kind[row].tolist()):
        cut = ask.cuts[kind] if kind != ABSENT else None
        if (
            cut is not None
            and board.share[row, device] >= cut.share
            and board.memory[row, device] >= cut.memory
            and (cut.template is None or board.templates[cut.template, row, device])
            and all(board.codecs[number, row, device] >= units for number, units in enumerate(cut.codecs))
        ):
            found.append(device)
    return found


def _host_fits(board: Board, rows: Ints, asks: Asks, which: Ints) -> NDArray[np.bool_]:
    """Whether the node's sums are enough; rules out most pairs once the fleet is full."""
    fits: NDArray[np.bool_] = board.cpu_sum[rows] >= asks.cpu[which]
    fits &= board.host_sum[rows] >= asks.host[which]
    fits &= board.nvme[rows] >= asks.nvme[which]
    fits &= board.share_sum[rows] >= asks.least[which]
    nic = asks.nic[which]
    if nic.any():
        fits &= (nic == 0) | (board.nic[rows] >= nic[:, None]).any(axis=1)
    return fits


def _cards(board: Board, asks: Asks, worth: Worth, *, rows: Ints, which: Ints) -> tuple[Floats, Ints, Ints]:
    """What gaps lose (infinite: too few devices), the device that loses least, and the thousandths taken."""
    kind = board.kind[rows]
    at = (which[:, None], kind)
    share, memory, want, part = board.share[rows], board.memory[rows], asks.share[at], asks.memory[at]
    good = (share >= want) & (memory >= part)
    for number in range(len(board.codec_names)):
        good &= board.codecs[number, rows] >= asks.codecs[number][at]
    if board.template_names:
        template = asks.template[at]
        left = board.templates[np.maximum(template, 0), rows[:, None], np.arange(kind.shape[1])]
        good &= (template == ABSENT) | (left > 0)
    devices = asks.devices[at]
    many = np.flatnonzero(asks.many[which])
    if len(many):
        # Devices of one replica are of one kind: each needs enough usable ones like itself on its node.
        alike = ((kind[many, :, None] == kind[many, None, :]) & good[many, None, :]).sum(axis=2)
        good[many] &= alike >= devices[many]
    before = _gap(board, kind, share, memory)
    after = np.maximum(_gap(board, kind, share - want, memory - part), 0)
    lost = (worth.gaps[kind, before] - worth.gaps[kind, np.where(good, after, 0)]) * devices
    # Among equal losses the fuller device, then the first.
    device = np.where(good, lost + before * 1e-6, np.inf).argmin(axis=1)
    best = np.arange(len(rows)), device
    found = good[best]
    return (
        np.where(found, lost[best], np.inf),
        np.where(found, device, ABSENT),
        np.where(found, (want * devices)[best], 0),
    )


def _gap(board: Board, kind: Ints, share: Ints, memory: Ints) -> Ints:
    """Thousandths of a device that are free, of compute or of memory, whichever is less."""
    if not board.card_memory.any():
        return np.maximum(share, 0)
    full = board.card_memory[kind]
    return np.maximum(np.where(full > 0, np.minimum(share, WHOLE * memory // np.maximum(full, 1)), share), 0)


def _unfed(free: Ints, residue: Ints, beside: Beside) -> Floats:
    """Expected excess of a logistic demand of `mean * residue` over what is free, in thousandths of a device."""
    if not beside.mean:
        return np.zeros(len(free))
    scale = np.sqrt(np.maximum(residue, 0) * beside.deviation**2 * 3) / math.pi + 1e-9
    excess = (beside.mean * residue - free) / scale
    return np.where(residue > 0, scale * np.logaddexp(0.0, excess), 0.0) / beside.mean
