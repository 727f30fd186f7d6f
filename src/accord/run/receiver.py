"""The consuming end of a stream: the protocol's table with its actions.

In: local calls and the peer's frames, in any order, perhaps twice. Out: frames for the peer, and calls of
the node that owns the end. Invariant: each frame of the sequence acts once, in order; bytes are given back
in order. A sender can always go on with half its window, so credit for less than that may be kept.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from accord.run import frames
from accord.run.frames import CancelAck, Credit, Data, End, Error, Frame
from accord.run.protocol import RECEIVER, RecvAction, RecvEvent, RecvState

EARLY_FRAMES_MAX = 4096
_TERMINALS = (End, Error)

# Looking a member up in its enum costs more than acting on it: the hot path has them by name.
_ON_GOT_DATA = RecvEvent.GOT_DATA
_ON_GOT_END = RecvEvent.GOT_END
_ON_GOT_ERROR = RecvEvent.GOT_ERROR
_ON_SETTLED = RecvEvent.SETTLED
_ENDED = RecvState.ENDED
_IDLE = RecvState.IDLE
_OPEN = RecvState.OPEN


class ReceiverOwner(Protocol):
    """What a receiver needs of its node."""

    def emit(self, peer: int, frame: Frame) -> None:
        """Queues a frame for the peer."""
        ...

    def deliver(self, receiver: "Receiver", frame: Data, release: Callable[[], None]) -> None:
        """A chunk is here."""
        ...

    def receiver_ended(self, receiver: "Receiver", frame: End | Error) -> None:
        """The terminal is here."""
        ...

    def receiver_told(self, receiver: "Receiver", lost: bool) -> None:
        """The peer has cancelled, or is gone."""
        ...

    def receiver_owes(self, receiver: "Receiver") -> None:
        """The receiver has credit to give at the next flush."""
        ...


class _Loan:
    """One delivered chunk. Releasing twice is harmless."""

    __slots__ = ("leased", "receiver", "released", "size")

    def __init__(self, receiver: "Receiver", size: int, leased: bool) -> None:
        self.receiver = receiver
        self.size = size
        self.leased = leased
        self.released = False

    def release(self) -> None:
        """Gives the chunk's bytes back to the sender, as credit."""
        if not self.released:
            self.released = True
            self.receiver.settle_loans()


class Receiver:
    """The consuming end of one stream. Frames may come out of order or twice; they act once, in order."""

    __slots__ = (
        "_early",
        "_given",
        "_loans",
        "_next_seq",
        "_node",
        "_received",
        "_reported",
        "_urgent",
        "_window",
        "edge",
        "key",
        "owed",
        "peer",
        "state",
    )

    def __init__(self, node: ReceiverOwner, *, key: int, edge: int, peer: int, window: int) -> None:
        self._node = node
        self.key = key
        self.edge = edge
        self.peer = peer
        self.state = _IDLE
        self.owed = False
        self._window = window
        self._next_seq = 1
        self._early: dict[int, Data | End | Error] = {}
        self._loans: deque[_Loan] = deque()
        self._received = 0
        self._given = 0
        self._reported = 0
        self._urgent = False

    def apply(self, event: RecvEvent, frame: Data | End | Error | None = None) -> None:
        """Looks the event up and does what the table says."""
        self.state, actions = _RECV_STEPS[self.state][event]
        for action in actions:
            action(self, frame)

    def take(self, frame: Data | End | Error) -> None:
        """A frame of the sequence: acts on it, and on those that waited for it."""
        if frame.seq != self._next_seq or self.state is _IDLE:
            if frame.seq >= self._next_seq and len(self._early) < EARLY_FRAMES_MAX:
                self._early.setdefault(frame.seq, frame)
            return
        self._take_now(frame)
        if self._early:
            self.take_early()

    def take_early(self) -> None:
        """Acts on frames that came before their turn."""
        while (frame := self._early.pop(self._next_seq, None)) is not None:
            self._take_now(frame)

    def settle_loans(self) -> None:
        """Counts what has been given back, in order, and owes the peer its credit."""
        moved = False
        while self._loans and self._loans[0].released:
            loan = self._loans.popleft()
            self._given += loan.size
            self._urgent = self._urgent or loan.leased
            moved = True
        if moved and not self.owed:
            self.owed = True
            self._node.receiver_owes(self)

    def flush(self) -> None:
        """Sends the credit owed, and closes once nothing is left to read."""
        self.owed = False
        due = self.state is _OPEN and 2 * (self._given - self._reported) >= self._window
        if (due and self._given != self._reported) or (self._urgent and self.state in {_OPEN, _ENDED}):
            self._reported = self._given
            self._urgent = False
            self._node.emit(self.peer, Credit(self.key, self._given))
        if self.state is _ENDED and not self._loans:
            self.apply(_ON_SETTLED)

    def _take_now(self, frame: Data | End | Error) -> None:
        self._next_seq += 1
        kind = type(frame)
        if kind is Data:
            self.apply(_ON_GOT_DATA, frame)
            return
        self.apply(_ON_GOT_END if kind is End else _ON_GOT_ERROR, frame)
        if self.state is _ENDED and not self._loans and not self.owed:
            self.owed = True
            self._node.receiver_owes(self)

    def _deliver(self, frame: Data | End | Error | None) -> None:
        if isinstance(frame, Data):
            loan = _Loan(self, frame.size, frame.offset != frames.INLINE)
            self._loans.append(loan)
            self._received += frame.size
            self._node.deliver(self, frame, loan.release)

    def _tell_end(self, frame: Data | End | Error | None) -> None:
        if isinstance(frame, _TERMINALS):
            self._node.receiver_ended(self, frame)

    def _drop(self, _: Data | End | Error | None) -> None:
        for loan in self._loans:
            loan.released = True
        self._loans.clear()
        self._early.clear()

    def _send_cancel(self, why: Data | End | Error | None) -> None:
        self._node.emit(self.peer, frames.cancel(self.key, why if isinstance(why, Error) else None))

    def _send_ack(self, _: Data | End | Error | None) -> None:
        self._node.emit(self.peer, CancelAck(self.key))

    def _tell_cancelled(self, _: Data | End | Error | None) -> None:
        self._node.receiver_told(self, lost=False)

    def _tell_lost(self, _: Data | End | Error | None) -> None:
        self._node.receiver_told(self, lost=True)

    def _give_back(self, _: Data | End | Error | None) -> None:
        self._node.emit(self.peer, Credit(self.key, self._received))


# TELL_OPEN and DISCARD need nothing done here: the node has seen the frame, and nobody reads the payload.
_RECV_ACTIONS: dict[RecvAction, Callable[[Receiver, Data | End | Error | None], None]] = {
    RecvAction.DELIVER: Receiver._deliver,
    RecvAction.TELL_END: Receiver._tell_end,
    RecvAction.TELL_ERROR: Receiver._tell_end,
    RecvAction.DROP: Receiver._drop,
    RecvAction.SEND_CANCEL: Receiver._send_cancel,
    RecvAction.SEND_ACK: Receiver._send_ack,
    RecvAction.TELL_CANCELLED: Receiver._tell_cancelled,
    RecvAction.TELL_LOST: Receiver._tell_lost,
    RecvAction.GIVE_BACK: Receiver._give_back,
}
_RECV_STEPS = tuple(
    tuple(
        (state, tuple(_RECV_ACTIONS[action] for action in actions if action in _RECV_ACTIONS)) for state, actions in row
    )
    for row in (tuple(RECEIVER[s][e] for e in RecvEvent) for s in RecvState)
)
