"""One gang at a time: the node that loses least.

In: a `Board`, a `Worth`, a `Gang`. Out: `Placement` or `Refusal`. Invariant: deciding changes nothing on the board;
what is remembered between decisions are losses of nodes that haven't changed since.
"""

from dataclasses import dataclass

import numpy as np

from accord.place.board import ABSENT, WHOLE, Board, Ints, spread
from accord.place.mix import Mix
from accord.place.score import STEP, Ask, ask_of, losses, usable
from accord.place.worth import Floats, worth_of
from accord.terms.fleet import Codec
from accord.terms.gang import Part, Seat

_REMEMBERED_MAX = 512


@dataclass(slots=True, kw_only=True)
class _Known:
    """The losses of one need on all nodes, as of the versions in `seen`."""

    ask: Ask
    loss: Floats
    device: Ints
    seen: Ints


class Scores:
    """Losses of needs on all nodes, computed anew only for nodes that have changed."""

    def __init__(self, board: Board, mix: Mix) -> None:
        self.board = board
        memories = {kind.name: round(kind.memory_bytes.value) if kind.memory_bytes else 0 for kind in board.fleet.kinds}
        self.card_memory = tuple(memories[name] for name in board.kinds)
        self.worth = worth_of(mix, self.card_memory)
        self._known: dict[tuple[object, ...], _Known] = {}

    def of(self, part: Part) -> tuple[Ask, Floats, Ints]:
        """The part's ask, and for each node the loss (in steps; infinite: doesn't fit) and the first device."""
        known = self._known.pop((part.need, part.kinds), None) or self._new(part)
        self._known[part.need, part.kinds] = known
        stale = np.flatnonzero(known.seen != self.board.versions)
        if len(stale):
            loss, device = losses(self.board, stale, known.ask, self.worth)
            known.loss[stale] = np.floor(loss / STEP + 0.5)
            known.device[stale] = device
            known.seen[stale] = self.board.versions[stale]
        return known.ask, known.loss, known.device

    def _new(self, part: Part) -> _Known:
        if len(self._known) >= _REMEMBERED_MAX:
            self._known.pop(next(iter(self._known)))
        count = len(self.board.nodes)
        ask = ask_of(self.board, part.need, part.kinds, self.card_memory)
        return _Known(
            ask=ask, loss=np.full(count, np.inf), device=np.full(count, ABSENT), seen=np.full(count, -1, np.int64)
        )


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
    devices: tuple[int, ...] = ()
    if ask.cards == 1:
        devices = (first,)
    elif ask.cards:
        good = np.flatnonzero(usable(board, np.array([row]), ask)[0])
        devices = tuple(good[: ask.cards].tolist())
    numa = board.nodes[row].devices[devices[0]].numa if devices else 0
    nic = int((board.nic[row] >= ask.nic).argmax()) if ask.nic else None
    return Seat(
        part=part.name,
        replica=replica,
        node=board.names[row],
        devices=devices,
        share_milli=ask.share if devices else 0,
        memory_bytes=_memory(board, ask, row=row, devices=devices),
        codecs=tuple(Codec(name=board.codec_names[number], units=units) for number, units in ask.codecs),
        cpus_milli=spread(ask.cpu, board.cpu[row].tolist(), first=numa) or (),
        host_memory_bytes=spread(ask.host, board.host[row].tolist(), first=numa) or (),
        nic=nic,
        nic_bytes_per_s=ask.nic,
        nvme_bytes=ask.nvme,
    )


def _memory(board: Board, ask: Ask, *, row: int, devices: tuple[int, ...]) -> int:
    """A whole card's memory is all taken."""
    if ask.share == WHOLE and devices:
        return int(board.memory[row, list(devices)].min())
    return ask.memory if devices else 0
