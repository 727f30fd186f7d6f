"""The producing end of a stream: the protocol's table with its actions.

In: local calls and the peer's frames. Out: frames for the peer, and calls of the node that owns the end.
Invariant: a payload in the arena is freed exactly once, when the peer has given it back, has
acknowledged a cancel, or is gone; a stream has at most its window under way, or half of it and one chunk.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from accord.run import frames
from accord.run.frames import CancelAck, Credit, Data, End, Error, Frame
from accord.run.protocol import SENDER, SendAction, SendEvent, SendState

Buffers = tuple[bytes | memoryview, ...]

# Looking a member up in its enum costs more than acting on it: the hot path has them by name.
_ON_CANCEL = SendEvent.CANCEL
_ON_DATA = SendEvent.DATA
_ON_END = SendEvent.END
_ON_ERROR = SendEvent.ERROR
_ON_GOT_CREDIT = SendEvent.GOT_CREDIT
_ON_OPEN = SendEvent.OPEN
_ON_SETTLED = SendEvent.SETTLED
_DRAINING = SendState.DRAINING
_IDLE = SendState.IDLE
_OPEN = SendState.OPEN


class Memory(Protocol):
    """Where large payloads lie: `Arena` has it, and a plain fake for simulations."""

    def allocate(self, size_bytes: int) -> int | None:
        """A free place, or None when there is none now."""
        ...

    def fits(self, size_bytes: int) -> bool:
        """Whether there could ever be a place of this size."""
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
        self.state = _IDLE
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
        self.apply(_ON_OPEN, frame)

    def send(self, buffers: Buffers, index: int, meta: bytes) -> bool:
        """Sends a chunk now, or keeps it until there is credit and room. False: it could never be sent."""
        size = sum(len(b) if type(b) is bytes else memoryview(b).nbytes for b in buffers)
        if not self.waiting:
            frame = self._frame(buffers, size, index, meta)
            if frame is not None:
                self.apply(_ON_DATA, frame)
                return True
        if len(meta) > frames.META_BYTES_MAX or not self._node.memory.fits(size):
            return False
        if self.state is _OPEN:
            self.waiting.append(_Waiting(b"".join(buffers), index, meta))
            self._node.sender_moved(self)
        return True

    def end(self, usage: bytes) -> None:
        """Ends the stream after all that waits has been sent."""
        if self.waiting or self.state is not _OPEN:
            self.ending = usage
        else:
            self.apply(_ON_END, End(self.key, self._seq + 1, usage))
            self._settle()

    def fail(self, code: str, text: str, *, late: bool = False) -> None:
        """Ends the stream early, at once. `late`: because the request's deadline has passed."""
        self.waiting.clear()
        error = Error(self.key, self._seq + 1, code, text[: frames.TEXT_CHARS_MAX])
        self.apply(SendEvent.DEADLINE if late else _ON_ERROR, error)
        self._settle()

    def cancel(self, why: Error | None = None) -> None:
        """Cancels; the loans are taken back when the peer acknowledges."""
        self.waiting.clear()
        self.apply(_ON_CANCEL, why)

    def pump(self) -> None:
        """Sends what waits, as far as credit and room go."""
        moved = False
        while self.waiting and self.state is _OPEN:
            first = self.waiting[0]
            frame = self._frame((first.data,), len(first.data), first.index, first.meta)
            if frame is None:
                break
            self.waiting.popleft()
            self.apply(_ON_DATA, frame)
            moved = True
        if not self.waiting and self.ending is not None and self.state is _OPEN:
            self.apply(_ON_END, End(self.key, self._seq + 1, self.ending))
            moved = True
        self._settle()
        if moved:
            self._node.sender_moved(self)

    def credit(self, frame: Credit) -> None:
        """The peer has given payloads back."""
        self.apply(_ON_GOT_CREDIT, frame)
        self.pump()

    def _frame(self, buffers: Buffers, size: int, index: int, meta: bytes) -> Data | None:
        under_way = self._sent - self._credited
        if self.state is not _OPEN or (2 * under_way > self._window and under_way + size > self._window):
            return None
        if len(meta) > frames.META_BYTES_MAX:
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
        if self.state is _DRAINING and not self._loans:
            self.apply(_ON_SETTLED)

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

    def _send_cancel(self, why: Frame | None) -> None:
        self._node.emit(self.peer, frames.cancel(self.key, why if isinstance(why, Error) else None))

    def _send_ack(self, _: Frame | None) -> None:
        self._node.emit(self.peer, CancelAck(self.key))

    def _tell_cancelled(self, _: Frame | None) -> None:
        self._node.sender_told(self, lost=False)

    def _tell_lost(self, _: Frame | None) -> None:
        self._node.sender_told(self, lost=True)

    def _reject(self, frame: Frame | None) -> None:
        raise RuntimeError(f"stream {self.key}: {frame!r} isn't allowed in {self.state.name}")


def too_large(buffers: Buffers, meta: bytes) -> str:
    """Why `Sender.send` said no, and what to do."""
    size = sum(memoryview(buffer).nbytes for buffer in buffers)
    return (
        f"chunk: {size} bytes, meta: {len(meta)} bytes: the arena can never hold the one, or a frame the other "
        f"(limit {frames.META_BYTES_MAX}); plan a larger arena, or send smaller chunks"
    )


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
