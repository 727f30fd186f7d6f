"""The two ends of a stream: the protocol tables with their actions.

In: local calls and the peer's frames. Out: frames for the peer, and calls of the node that owns the end.
Invariant: a payload in the arena is freed exactly once, when the peer has given it back, has
acknowledged a cancel, or is gone; a stream has at most its window under way, or half of it and one
chunk. Since half a window always suffices, a receiver may keep credit for smaller sums to itself.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from accord.run import frames
from accord.run.frames import Cancel, CancelAck, Credit, Data, End, Error, Frame
from accord.run.protocol import RECEIVER, SENDER, RecvAction, RecvEvent, RecvState, SendAction, SendEvent, SendState

EARLY_FRAMES_MAX = 4096
_TERMINALS = (End, Error)

Buffers = tuple[bytes | memoryview, ...]


class Memory(Protocol):
    """Where large payloads lie: `Arena` has it, and a plain fake for simulations."""

    def allocate(self, size_bytes: int) -> int | None:
        """A free place, or None when there is none now."""
        ...

    def write(self, offset: int, buffers: Buffers) -> None:
        """Fills the place."""
        ...

    def free(self, offset: int) -> None:
        """Gives the place back."""
        ...


class SenderOwner(Protocol):
    """What a sender needs of its node."""

    memory: Memory

    def emit(self, peer: int, frame: Frame) -> None:
        """Queues a frame for the peer."""
        ...

    def sender_told(self, sender: "Sender", lost: bool) -> None:
        """The peer has cancelled, or is gone."""
        ...

    def sender_moved(self, sender: "Sender") -> None:
        """The queue or the state of the sender has changed."""
        ...


@dataclass(slots=True)
class _Waiting:
    """A chunk without credit or room. Its bytes are its own: the engine's buffers change at the next step."""

    data: bytes
    index: int
    meta: bytes


class Sender:
    """The producing end of one stream."""

    __slots__ = (
        "_credited",
        "_loans",
        "_node",
        "_sent",
        "_seq",
        "_window",
        "edge",
        "ending",
        "key",
        "peer",
        "state",
        "waiting",
    )

    def __init__(self, node: SenderOwner, *, key: int, edge: int, peer: int, window: int) -> None:
        self._node = node
        self.key = key
        self.edge = edge
        self.peer = peer
        self.state = SendState.IDLE
        self.waiting: deque[_Waiting] = deque()
        self.ending: bytes | None = None
        self._window = window
        self._seq = 0
        self._sent = 0
        self._credited = 0
        self._loans: deque[tuple[int, int]] = deque()

    @property
    def under_way(self) -> int:
        """Bytes that the peer has not given back."""
        return self._sent - self._credited

    def apply(self, event: SendEvent, frame: Frame | None = None) -> None:
        """Looks the event up and does what the table says."""
        self.state, actions = _SEND_STEPS[self.state][event]
        for action in actions:
            action(self, frame)

    def open(self, frame: frames.Open) -> None:
        """Opens the stream."""
        self.apply(SendEvent.OPEN, frame)

    def send(self, buffers: Buffers, index: int, meta: bytes) -> None:
        """Sends a chunk now, or keeps it until there is credit and room."""
        size = sum(len(b) if type(b) is bytes else memoryview(b).nbytes for b in buffers)
        if not self.waiting:
            frame = self._frame(buffers, size, index, meta)
            if frame is not None:
                self.apply(SendEvent.DATA, frame)
                return
        if self.state is SendState.OPEN:
            self.waiting.append(_Waiting(b"".join(buffers), index, meta))
            self._node.sender_moved(self)

    def end(self, usage: bytes) -> None:
        """Ends the stream after all that waits has been sent."""
        self.ending = usage
        self.pump()

    def fail(self, code: str, text: str) -> None:
        """Ends the stream early, at once."""
        self.waiting.clear()
        self.apply(SendEvent.ERROR, Error(self.key, self._seq + 1, code, text))
        self._settle()

    def cancel(self) -> None:
        """Cancels; the loans are taken back when the peer acknowledges."""
        self.waiting.clear()
        self.apply(SendEvent.CANCEL)

    def pump(self) -> None:
        """Sends what waits, as far as credit and room go."""
        moved = False
        while self.waiting and self.state is SendState.OPEN:
            first = self.waiting[0]
            frame = self._frame((first.data,), len(first.data), first.index, first.meta)
            if frame is None:
                break
            self.waiting.popleft()
            self.apply(SendEvent.DATA, frame)
            moved = True
        if not self.waiting and self.ending is not None and self.state is SendState.OPEN:
            self.apply(SendEvent.END, End(self.key, self._seq + 1, self.ending))
            moved = True
        self._settle()
        if moved:
            self._node.sender_moved(self)

    def credit(self, frame: Credit) -> None:
        """The peer has given payloads back."""
        self.apply(SendEvent.GOT_CREDIT, frame)
        self.pump()

    def _frame(self, buffers: Buffers, size: int, index: int, meta: bytes) -> Data | None:
        under_way = self._sent - self._credited
        if self.state is not SendState.OPEN or (2 * under_way > self._window and under_way + size > self._window):
            return None
        if size <= frames.INLINE_BYTES_MAX:
            inline = bytes(buffers[0]) if len(buffers) == 1 else b"".join(buffers)
            return Data(self.key, self._seq + 1, index, meta, size, inline)
        offset = self._node.memory.allocate(size)
        if offset is None:
            return None
        self._node.memory.write(offset, buffers)
        self._loans.append((self._sent + size, offset))
        return Data(self.key, self._seq + 1, index, meta, size, b"", offset)

    def _settle(self) -> None:
        if self.state is SendState.DRAINING and not self._loans:
            self.apply(SendEvent.SETTLED)

    def _emit(self, frame: Frame | None) -> None:
        if frame is not None:
            self._node.emit(self.peer, frame)

    def _send_data(self, frame: Frame | None) -> None:
        if isinstance(frame, Data):
            self._seq = frame.seq
            self._sent += frame.size
            self._node.emit(self.peer, frame)

    def _take_credit(self, frame: Frame | None) -> None:
        if isinstance(frame, Credit):
            self._credited = max(self._credited, frame.total_bytes)
            while self._loans and self._loans[0][0] <= self._credited:
                self._node.memory.free(self._loans.popleft()[1])

    def _free(self, _: Frame | None) -> None:
        self.waiting.clear()
        while self._loans:
            self._node.memory.free(self._loans.popleft()[1])

    def _send_cancel(self, _: Frame | None) -> None:
        self._node.emit(self.peer, Cancel(self.key))

    def _send_ack(self, _: Frame | None) -> None:
        self._node.emit(self.peer, CancelAck(self.key))

    def _tell_cancelled(self, _: Frame | None) -> None:
        self._node.sender_told(self, lost=False)

    def _tell_lost(self, _: Frame | None) -> None:
        self._node.sender_told(self, lost=True)

    def _reject(self, frame: Frame | None) -> None:
        raise RuntimeError(f"stream {self.key}: {frame!r} isn't allowed in {self.state.name}")


_SEND_ACTIONS: dict[SendAction, Callable[[Sender, Frame | None], None]] = {
    SendAction.SEND_OPEN: Sender._emit,
    SendAction.SEND_DATA: Sender._send_data,
    SendAction.SEND_END: Sender._emit,
    SendAction.SEND_ERROR: Sender._emit,
    SendAction.SEND_CANCEL: Sender._send_cancel,
    SendAction.SEND_ACK: Sender._send_ack,
    SendAction.TAKE_CREDIT: Sender._take_credit,
    SendAction.FREE: Sender._free,
    SendAction.TELL_CANCELLED: Sender._tell_cancelled,
    SendAction.TELL_LOST: Sender._tell_lost,
    SendAction.REJECT: Sender._reject,
}
# The table with its actions looked up: what `apply` walks for every frame.
_SEND_STEPS = tuple(
    tuple((state, tuple(_SEND_ACTIONS[action] for action in actions)) for state, actions in row)
    for row in (tuple(SENDER[s][e] for e in SendEvent) for s in SendState)
)


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
        self.state = RecvState.IDLE
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
        if frame.seq != self._next_seq or self.state is RecvState.IDLE:
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
        due = self.state is RecvState.OPEN and 2 * (self._given - self._reported) >= self._window
        if (due and self._given != self._reported) or (
            self._urgent and self.state in {RecvState.OPEN, RecvState.ENDED}
        ):
            self._reported = self._given
            self._urgent = False
            self._node.emit(self.peer, Credit(self.key, self._given))
        if self.state is RecvState.ENDED and not self._loans:
            self.apply(RecvEvent.SETTLED)

    def _take_now(self, frame: Data | End | Error) -> None:
        self._next_seq += 1
        kind = type(frame)
        if kind is Data:
            self.apply(RecvEvent.GOT_DATA, frame)
            return
        self.apply(RecvEvent.GOT_END if kind is End else RecvEvent.GOT_ERROR, frame)
        if self.state is RecvState.ENDED and not self._loans and not self.owed:
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

    def _send_cancel(self, _: Data | End | Error | None) -> None:
        self._node.emit(self.peer, Cancel(self.key))

    def _send_ack(self, _: Data | End | Error | None) -> None:
        self._node.emit(self.peer, CancelAck(self.key))

    def _tell_cancelled(self, _: Data | End | Error | None) -> None:
        self._node.receiver_told(self, lost=False)

    def _tell_lost(self, _: Data | End | Error | None) -> None:
        self._node.receiver_told(self, lost=True)

    def _give_back(self, _: Data | End | Error | None) -> None:
        self._node.emit(self.peer, Credit(self.key, self._received))

    def _nothing(self, _: Data | End | Error | None) -> None:
        """The stream as such has nothing to do; its node acts on what it sees, or nobody needs to."""


_RECV_ACTIONS: dict[RecvAction, Callable[[Receiver, Data | End | Error | None], None]] = {
    RecvAction.TELL_OPEN: Receiver._nothing,
    RecvAction.DELIVER: Receiver._deliver,
    RecvAction.TELL_END: Receiver._tell_end,
    RecvAction.TELL_ERROR: Receiver._tell_end,
    RecvAction.DISCARD: Receiver._nothing,
    RecvAction.DROP: Receiver._drop,
    RecvAction.SEND_CANCEL: Receiver._send_cancel,
    RecvAction.SEND_ACK: Receiver._send_ack,
    RecvAction.TELL_CANCELLED: Receiver._tell_cancelled,
    RecvAction.TELL_LOST: Receiver._tell_lost,
    RecvAction.GIVE_BACK: Receiver._give_back,
}
_RECV_STEPS = tuple(
    tuple((state, tuple(_RECV_ACTIONS[action] for action in actions)) for state, actions in row)
    for row in (tuple(RECEIVER[s][e] for e in RecvEvent) for s in RecvState)
)
