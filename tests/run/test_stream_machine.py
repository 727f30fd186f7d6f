"""A real Sender and Receiver under whatever hypothesis thinks of: sizes, orders, repeats, stalls, losses.

In: rules, in any order. Out: a failure with the steps, and the blob, that repeat it. What is asserted: the
bytes under way are bounded, data comes in order and once, memory is freed once and never under a reader,
`blocked` is true exactly while something waits, and in the end both ends are closed and nothing is on loan.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from accord.run.frames import Cancel, CancelAck, End, Error
from accord.run.protocol import RecvState, SendState
from tests.run.pair import Pair
from tests.run.world import ARENA

SIZES = (0, 1, 100, 8192, 8193, 15_000, 30_000)  # in the frame, in the arena, larger than most windows
Places = list[tuple[int, bool]]  # which of what is there; whether the same comes again later
PLACES = st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=6)
WINDOWS = (1, 9_999, 20_000, 20_001, 100_000)


class Streams(RuleBasedStateMachine):
    """One stream's life."""

    @initialize(window=st.sampled_from(WINDOWS), opened_first=st.booleans(), patience=st.integers(0, 25))
    def start(self, window: int, opened_first: bool, patience: int) -> None:
        self.pair = Pair(window)
        self.window = window
        self.patience = patience  # steps before anyone may end, cancel or die: else most lives would be short
        self.crowd: int | None = None
        self.ending = self.failed = self.cancelled = self.lost = False
        self.pair.open()
        if opened_first:
            self.pair.to_receiver(0)

    @property
    def _over(self) -> bool:
        return self.ending or self.failed or self.cancelled

    def _sender_lives(self) -> bool:
        return self.pair.sender is not None

    def _receiver_lives(self) -> bool:
        return self.pair.receiver is not None

    @rule(
        sizes=st.lists(st.sampled_from(SIZES), max_size=4), down=PLACES, released=PLACES, flush=st.booleans(), up=PLACES
    )
    def go_on(self, *, sizes: list[int], down: Places, released: Places, flush: bool, up: Places) -> None:
        """A bit of everything. One rule, because hypothesis switches whole rules off for whole lives."""
        pair = self.pair
        for size in sizes:
            if pair.sender is not None and pair.sender.state is SendState.OPEN and not self._over:
                pair.send(bytes([len(pair.sent) % 251]) * size)
        for place, keep in down:
            if pair.down:
                pair.to_receiver(place % len(pair.down), keep=keep)
        for place, _ in released:
            if pair.held:
                pair.release(place % len(pair.held))
        if flush:
            pair.flush()
        for place, keep in up:
            if pair.up:
                pair.to_sender(place % len(pair.up), keep=keep)

    # The producer.

    @precondition(lambda self: self.patience < 0 and self._sender_lives() and not self._over)
    @rule()
    def end(self) -> None:
        self.ending = True
        self.pair.sender.end(b"usage")

    @precondition(lambda self: self.patience < 0 and self._sender_lives() and not (self.failed or self.cancelled))
    @rule()
    def fail(self) -> None:
        self.failed = True
        self.pair.fail()

    @precondition(lambda self: self.patience < 0 and self._sender_lives())
    @rule()
    def cancel_by_sender(self) -> None:
        self.cancelled = True
        self.pair.cancel_sender()

    @precondition(lambda self: self._sender_lives())
    @rule()
    def crowd_the_arena(self) -> None:
        """Other streams take all the room, or give it back."""
        arena = self.pair.arena
        if self.crowd is None:
            self.crowd = arena.allocate(ARENA - arena.used)
        else:
            arena.free(self.crowd)
            self.crowd = None
            self.pair.sender.pump()

    # The consumer.

    @precondition(lambda self: self._receiver_lives())
    @rule(at_once=st.booleans())
    def read_at_once(self, at_once: bool) -> None:
        self.pair.reads_at_once = at_once

    @precondition(lambda self: self.patience < 0 and self._receiver_lives())
    @rule(releases=st.booleans())
    def cancel_by_receiver(self, releases: bool) -> None:
        self.cancelled = True
        self.pair.cancel_receiver(releases=releases)

    # The processes.

    @precondition(lambda self: self.patience < 0 and not self.lost)
    @rule(which=st.sampled_from(("sender", "receiver")), noticed=st.booleans())
    def die(self, which: str, noticed: bool) -> None:
        self.lost = True
        if which == "sender":
            self.pair.lose_sender()
        else:
            self.pair.lose_receiver()
        if noticed:
            self.pair.tell_loss()

    # What always holds.

    @invariant()
    def everyone_grows_impatient(self) -> None:
        self.patience -= 1

    @invariant()
    def nothing_changes_under_a_reader(self) -> None:
        self.pair.check_held()

    @invariant()
    def the_bytes_under_way_are_bounded(self) -> None:
        sender = self.pair.sender
        if sender is not None:
            assert sender.under_way <= max(self.window, self.window // 2 + max(SIZES))
            held = sum(len(held.expected) for held in self.pair.held)
            assert sender.state is SendState.CLOSED or held <= sender.under_way

    @invariant()
    def blocked_exactly_while_something_waits(self) -> None:
        if self.pair.sender is not None:
            assert self.pair.blocked == bool(self.pair.sender.waiting)

    @invariant()
    def a_closed_sender_has_nothing_on_loan(self) -> None:
        if self.pair.sender is not None and self.pair.sender.state is SendState.CLOSED:
            assert self._on_loan() == 0

    def teardown(self) -> None:
        if not hasattr(self, "pair"):
            return
        pair = self.pair
        if self.crowd is not None and pair.sender is not None:
            pair.arena.free(self.crowd)
            self.crowd = None
            pair.sender.pump()
        pair.drain()
        if not (self._over or self.lost):
            self._nothing_was_lost()
            pair.sender.end(b"usage")
            pair.drain()
        assert pair.sender is None or pair.sender.state is SendState.CLOSED
        assert pair.receiver is None or pair.receiver.state is RecvState.CLOSED
        assert pair.sender is None or pair.arena.used == 0
        if not (self.failed or self.cancelled or self.lost):
            self._nothing_was_lost()
            assert [type(frame) for frame in pair.terminals] == [End]
        if self.failed and not (self.cancelled or self.lost) and pair.terminals:
            assert isinstance(pair.terminals[0], Error) or self.ending
        told = {("sender cancelled",), ("receiver cancelled",), ("sender lost",), ("receiver lost",), ()}
        assert tuple(pair.told) in told, "each end hears of its peer's leaving once, and only one of them does"
        if not self.lost:
            assert not [frame for frame in (*pair.up, *pair.down) if isinstance(frame, Cancel | CancelAck)]

    def _nothing_was_lost(self) -> None:
        assert self.pair.got == len(self.pair.sent)
        assert self._on_loan() == 0
        assert not self.pair.sender.waiting

    def _on_loan(self) -> int:
        crowd = 0 if self.crowd is None else len(self.pair.arena.places[self.crowd])
        return self.pair.arena.used - crowd


TestStreams = Streams.TestCase
TestStreams.settings = settings(max_examples=max(250, settings.default.max_examples), print_blob=True)
