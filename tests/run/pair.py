"""A real Sender and a real Receiver, and between them two bags of frames that a test empties as it likes.

In: what a test does to either end. Out: what came of it. Invariant, checked at every turn: a chunk's bytes
stay what they were for as long as it is held. The memory overwrites whatever is freed, so a freed chunk shows.
"""

from collections.abc import Callable
from dataclasses import dataclass

from accord.run import frames
from accord.run.frames import Cancel, Credit, Data, End, Error, Frame, Open
from accord.run.protocol import RecvEvent, RecvState, SendEvent
from accord.run.receiver import Receiver
from accord.run.sender import Memory, Sender
from tests.run.world import PretendedMemory

SENDER, RECEIVER = 0, 1
KEY = 64


@dataclass(kw_only=True)
class Held:
    """A chunk that the consumer reads."""

    view: memoryview
    expected: bytes
    release: Callable[[], None]


class Pair:
    """One stream. The owner of each end is played here, by the rules of a node's owner."""

    def __init__(self, window: int) -> None:
        self.arena = PretendedMemory()
        self.memory: Memory = self.arena
        self.sender: Sender | None = Sender(self, key=KEY, edge=0, peer=RECEIVER, window=window)
        self.receiver: Receiver | None = Receiver(self, key=KEY, edge=0, peer=SENDER, window=window)
        self.down: list[Frame] = []  # to the receiver
        self.up: list[Frame] = []  # to the sender
        self.sent: list[bytes] = []
        self.got = 0
        self.held: list[Held] = []
        self.reads_at_once = False
        self.terminals: list[End | Error] = []
        self.told: list[str] = []
        self.blocked = False
        self._owes = False

    # What a test does.

    def open(self) -> None:
        self.sender.open(Open(KEY, b"", 0, b""))

    def send(self, data: bytes) -> None:
        self.sent.append(data)
        half = len(data) // 2
        self.sender.send((data[:half], memoryview(data)[half:]), len(self.sent), b"m")

    def fail(self) -> None:
        self.sender.fail("engine", "no")
        self.blocked = False

    def cancel_sender(self) -> None:
        self.sender.cancel()
        self.blocked = False

    def cancel_receiver(self, *, releases: bool) -> None:
        """The consumer stops: an engine that forgets a job releases its chunks, or just drops them."""
        self._let_go(releases=releases)
        self.receiver.apply(RecvEvent.CANCEL)

    def lose_sender(self) -> None:
        """The producer's process dies. What it had written stays mapped by the consumer."""
        self.sender = None
        self.up.clear()

    def lose_receiver(self) -> None:
        self.receiver = None
        self._owes = False
        self.held.clear()
        self.down.clear()

    def tell_loss(self) -> None:
        """The link's end of file has come."""
        if self.receiver is None and self.sender is not None:
            self.up.clear()
            self.sender.apply(SendEvent.LOST)
        if self.sender is None and self.receiver is not None:
            self.down.clear()
            self.receiver.apply(RecvEvent.LOST)

    def release(self, index: int) -> None:
        held = self.held.pop(index)
        assert held.view == held.expected, "a payload changed while it was on loan"
        held.release()

    def to_receiver(self, index: int, *, keep: bool = False) -> None:
        frame = self.down[index] if keep else self.down.pop(index)
        if isinstance(frame, Data | End | Error):
            self.receiver.take(frame)
        elif isinstance(frame, Open):
            self.receiver.apply(RecvEvent.GOT_OPEN)
            self.receiver.take_early()
        else:
            self.receiver.apply(RecvEvent.GOT_CANCEL if isinstance(frame, Cancel) else RecvEvent.GOT_ACK)

    def to_sender(self, index: int, *, keep: bool = False) -> None:
        frame = self.up[index] if keep else self.up.pop(index)
        if isinstance(frame, Credit):
            self.sender.credit(frame)
        else:
            self.sender.apply(SendEvent.GOT_CANCEL if isinstance(frame, Cancel) else SendEvent.GOT_ACK)

    def flush(self) -> None:
        if self._owes and self.receiver is not None:
            self._owes = False
            self.receiver.flush()

    def drain(self) -> None:
        """Everything that needs nobody's decision."""
        self.tell_loss()
        for _ in range(10_000):
            if self.down:
                self.to_receiver(0)
            elif self.up:
                self.to_sender(0)
            elif self.held:
                self.release(0)
            elif self._owes:
                self.flush()
            else:
                return
        raise AssertionError("the stream does not come to rest")

    def check_held(self) -> None:
        for held in self.held:
            assert held.view == held.expected, "a payload changed while it was on loan"

    # What the ends ask of their owners.

    def emit(self, peer: int, frame: Frame) -> None:
        (there,) = frames.decode(frames.encode([frame]))
        assert there == frame
        if peer == RECEIVER and self.receiver is not None:
            self.down.append(there)
        if peer == SENDER and self.sender is not None:
            self.up.append(there)

    def deliver(self, receiver: Receiver, frame: Data, release: Callable[[], None]) -> None:
        assert receiver.state is RecvState.OPEN
        assert not self.terminals, "data after the end"
        leased = frame.offset != frames.INLINE
        view = self.arena.view(frame.offset, frame.size) if leased else memoryview(frame.inline)
        expected = self.sent[self.got]
        assert view == expected, "data out of order, lost or repeated"
        assert leased == (len(expected) > frames.INLINE_BYTES_MAX)
        self.got += 1
        assert (frame.index, frame.meta) == (self.got, b"m")
        self.held.append(Held(view=view, expected=expected, release=release))
        if self.reads_at_once:
            self.release(len(self.held) - 1)

    def receiver_ended(self, receiver: Receiver, frame: End | Error) -> None:
        assert not self.terminals, "a stream ends once"
        self.terminals.append(frame)

    def receiver_told(self, receiver: Receiver, lost: bool) -> None:
        self.told.append("receiver lost" if lost else "receiver cancelled")
        self._let_go(releases=True)

    def receiver_owes(self, receiver: Receiver) -> None:
        assert not self._owes, "owed twice before a flush"
        self._owes = True

    def sender_told(self, sender: Sender, lost: bool) -> None:
        self.told.append("sender lost" if lost else "sender cancelled")
        self.blocked = False

    def sender_moved(self, sender: Sender) -> None:
        self.blocked = bool(sender.waiting)

    def _let_go(self, *, releases: bool) -> None:
        self.check_held()
        for held in self.held:
            if releases:
                held.release()
        self.held.clear()
