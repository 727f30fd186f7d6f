"""How much a need would spoil on each node, over all nodes at once.

In: a `Board`, its rows, a need, a `Worth`. Out: for each row the loss in thousandths of a device and the device to
take. Invariant: a row that can't hold the need has an infinite loss; nothing is changed.

Two things spoil capacity. A fraction may leave a gap that nothing usual fills: the worth of the gap before less that
after. And a node may keep devices that its cores or memory can't feed: demand that comes with its free thousandths of
devices is taken for a logistic variable, and its expected excess over what is free is what would stand idle.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accord.place.board import ABSENT, MILLI, WHOLE, Board, Ints
from accord.place.mix import Beside, share_milli, size_milli
from accord.place.worth import Floats, Worth
from accord.terms.gang import Need

# How much of what cores or memory would starve is lost for good: the rest goes to needs that ask for less of them. On
# the openb traces anything from 0.1 to 1 leaves within 0.1% of all devices of the best (benchmarks/place.py).
STARVED = 0.3
# Losses nearer than this, in thousandths of a device, are equal; then the first node by name wins, which keeps later
# nodes whole.
STEP = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A need in the board's whole numbers. `kinds` holds for each kind of the board whether it will do."""

    cards: int
    share: int
    memory: int
    sizes: Ints  # thousandths filled, by kind
    codecs: tuple[tuple[int, int], ...]  # (row of Board.codecs, units)
    kinds: NDArray[np.bool_]
    cpu: int
    host: int
    nic: int
    nvme: int


def ask_of(board: Board, need: Need, kinds: tuple[str, ...], card_memory: tuple[int, ...]) -> Ask:
    """A need as whole numbers, rounded up."""
    codecs = tuple((board.codec_names.index(codec.name), codec.units) for codec in need.codecs)
    return Ask(
        cards=need.cards or int(need.share > 0 or need.memory_bytes > 0 or bool(need.codecs)),
        share=share_milli(need),
        memory=need.memory_bytes,
        sizes=np.array([size_milli(need, memory) for memory in card_memory], np.int64),
        codecs=codecs,
        kinds=np.array([not kinds or name in kinds for name in board.kinds], bool),
        cpu=math.ceil(round(MILLI * need.cpus, 6)),
        host=need.host_memory_bytes,
        nic=math.ceil(need.nic_bytes_per_s),
        nvme=need.nvme_bytes,
    )


def losses(board: Board, rows: Ints, ask: Ask, worth: Worth) -> tuple[Floats, Ints]:
    """For each row: the loss (infinite where the need doesn't fit), and the first device to take (ABSENT: none)."""
    fits = (board.cpu_sum[rows] >= ask.cpu) & (board.host_sum[rows] >= ask.host) & (board.nvme[rows] >= ask.nvme)
    if ask.nic:
        fits &= (board.nic[rows] >= ask.nic).any(axis=1)
    free = np.maximum(board.share[rows], 0)
    residue = free.sum(axis=1)
    if not ask.cards:
        device = np.full(len(rows), ABSENT)
        spoilt = np.zeros(len(rows))
        taken = np.zeros(len(rows))
    else:
        spoilt, device, enough = _cards(board, rows, ask, worth)
        fits &= enough
        taken = np.where(enough, ask.share * ask.cards, 0)
    cores, memory = board.cpu_sum[rows], board.host_sum[rows]
    starved = _unfed(cores - ask.cpu, residue - taken, worth.cores) - _unfed(cores, residue, worth.cores)
    starved += _unfed(memory - ask.host, residue - taken, worth.memory) - _unfed(memory, residue, worth.memory)
    return np.where(fits, spoilt + STARVED * starved, np.inf), device


def usable(board: Board, rows: Ints, ask: Ask) -> NDArray[np.bool_]:
    """`[row, device]`: whether the device could hold one card's part of the need."""
    good = (board.share[rows] >= ask.share) & (board.memory[rows] >= ask.memory)
    good &= np.append(ask.kinds, False)[board.kind[rows]]
    if ask.share == WHOLE:
        good &= board.share[rows] == WHOLE
    for row, units in ask.codecs:
        good &= board.codecs[row, rows] >= units
    return good


def _cards(board: Board, rows: Ints, ask: Ask, worth: Worth) -> tuple[Floats, Ints, NDArray[np.bool_]]:
    """What the gaps lose, the device that loses least, and whether there are enough devices."""
    good = usable(board, rows, ask)
    enough = good.sum(axis=1) >= ask.cards
    kind = np.maximum(board.kind[rows], 0)
    before = np.clip(board.share[rows], 0, WHOLE)
    after = np.maximum(before - ask.sizes[kind], 0)
    lost = worth.gaps[kind, before] - worth.gaps[kind, after]
    # Among equal losses the fuller device, then the first.
    order = np.where(good, lost + before * 1e-6, np.inf)
    if ask.cards == 1:
        device = order.argmin(axis=1)
        return np.where(enough, lost[np.arange(len(rows)), device], 0.0), np.where(enough, device, ABSENT), enough
    ranked = np.sort(order, axis=1)[:, : ask.cards]
    return np.where(enough, ranked.sum(axis=1), 0.0), np.where(enough, order.argmin(axis=1), ABSENT), enough


def _unfed(free: Floats | Ints, residue: Floats | Ints, beside: Beside) -> Floats:
    """Expected excess of a logistic demand of `mean * residue` over what is free, in thousandths of a device."""
    if not beside.mean:
        return np.zeros(len(free))
    scale = np.sqrt(np.maximum(residue, 0) * beside.deviation**2 * 3) / math.pi + 1e-9
    excess = (beside.mean * residue - free) / scale
    return np.where(residue > 0, scale * np.logaddexp(0.0, excess), 0.0) / beside.mean
