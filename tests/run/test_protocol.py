"""The protocol of a stream: laws of its tables, every state that two ends can reach, and the real ends beside."""

import random
from dataclasses import dataclass
from typing import Any

import pytest

from accord.run import frames
from accord.run.protocol import RECEIVER, SENDER, RecvAction, RecvEvent, RecvState, SendAction, SendEvent, SendState
from tests.run.pair import Pair
from tests.run.stream_model import Bounds, Kind, Note, Step, Stream, steps

CHUNK = 10_000  # bytes: more than travels inside a frame
PEER_LETS_GO = {SendEvent.GOT_CANCEL, SendEvent.GOT_ACK, SendEvent.LOST}
WAITS = {SendState.IDLE, SendState.OPEN}

# Where a stream may stand still: all is over (None has lost its process), or nobody has ended anything, or it was
# given up before it was opened, of which the receiver hears nothing (it has its own deadline).
RESTS = {
    (SendState.CLOSED, RecvState.CLOSED),
    (SendState.CLOSED, None),
    (None, RecvState.CLOSED),
    (None, None),
    (SendState.IDLE, RecvState.IDLE),
    (SendState.OPEN, RecvState.OPEN),
    (SendState.CLOSED, RecvState.IDLE),
}


def test_every_state_answers_every_event() -> None:
    assert {state: set(row) for state, row in SENDER.items()} == {state: set(SendEvent) for state in SendState}
    assert {state: set(row) for state, row in RECEIVER.items()} == {state: set(RecvEvent) for state in RecvState}


def test_closed_is_never_left_and_only_acknowledges() -> None:
    for after, actions in SENDER[SendState.CLOSED].values():
        assert (after, set(actions) - {SendAction.SEND_ACK}) == (SendState.CLOSED, set())
    for then, answers in RECEIVER[RecvState.CLOSED].values():
        assert (then, set(answers) - {RecvAction.SEND_ACK, RecvAction.DISCARD}) == (RecvState.CLOSED, set())


def test_loss_or_an_answer_closes_every_state() -> None:
    for state in SendState:
        assert SENDER[state][SendEvent.LOST][0] is SendState.CLOSED
        assert SENDER[state][SendEvent.GOT_CANCEL][0] is SendState.CLOSED
    assert SENDER[SendState.CANCELLING][SendEvent.GOT_ACK][0] is SendState.CLOSED
    for end in RecvState:
        # After the terminal the receiver needs its peer no more: it closes when everything has been read.
        rest = RecvState.ENDED if end is RecvState.ENDED else RecvState.CLOSED
        assert RECEIVER[end][RecvEvent.LOST][0] is rest
        assert RECEIVER[end][RecvEvent.GOT_CANCEL][0] is RecvState.CLOSED
    assert RECEIVER[RecvState.CANCELLING][RecvEvent.GOT_ACK][0] is RecvState.CLOSED
    assert RECEIVER[RecvState.ENDED][RecvEvent.SETTLED][0] is RecvState.CLOSED


def test_memory_is_freed_only_when_the_peer_lets_go_of_it() -> None:
    for state, row in SENDER.items():
        for event, (after, actions) in row.items():
            if SendAction.FREE in actions:
                assert event in PEER_LETS_GO
            if SendAction.TAKE_CREDIT in actions:
                assert event is SendEvent.GOT_CREDIT
            if state in {SendState.OPEN, SendState.DRAINING, SendState.CANCELLING} and after is SendState.CLOSED:
                assert SendAction.FREE in actions or event is SendEvent.SETTLED, (state, event)


def test_a_receiver_stops_reading_before_it_lets_go() -> None:
    letting_go = {RecvAction.SEND_CANCEL, RecvAction.SEND_ACK, RecvAction.GIVE_BACK}
    for state, row in RECEIVER.items():
        for event, (after, actions) in row.items() if state in {RecvState.OPEN, RecvState.ENDED} else ():
            if after in {RecvState.CANCELLING, RecvState.CLOSED} and event is not RecvEvent.SETTLED:
                assert RecvAction.DROP in actions, (state, event)
            for action in letting_go.intersection(actions):
                assert actions.index(RecvAction.DROP) < actions.index(action), (state, event)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explored:
    """Every reachable state; by which step each was first reached; where the steps that nobody decides lead."""

    states: list[Stream]
    came: list[tuple[int, Step] | None]
    drains: list[set[int]]

    def way(self, to: int) -> str:
        """How a state is reached."""
        told = [repr(self.states[to])]
        while (before := self.came[to]) is not None:
            to, step = before
            told.append(f"{step.what} {'' if step.on is None else step.on}")
        return "\n".join(["the way to it:", *reversed(told)])


def _explore(bounds: Bounds) -> Explored:
    found = Explored(states=[Stream()], came=[None], drains=[])
    numbers = {Stream(): 0}
    for number, now in enumerate(found.states):  # the list grows while it is walked: breadth first
        found.drains.append(set())
        try:
            for step in steps(now, bounds):
                to = numbers.setdefault(step.after, len(numbers))
                if to == len(found.states):
                    found.states.append(step.after)
                    found.came.append((number, step))
                if step.drains:
                    found.drains[number].add(to)
        except AssertionError as error:
            raise AssertionError(f"{error}; {found.way(number)}") from error
    return found


def _check_memory(found: Explored, bounds: Bounds) -> None:
    """The model asserts the rest at each step: order, exactly once, nothing freed that may yet be read."""
    for number, now in enumerate(found.states):
        if now.sender is not None:
            assert len(now.loans) <= bounds.window, found.way(number)
            assert now.sender is not SendState.CLOSED or not now.loans, found.way(number)
            if now.receiver is not None:
                assert now.reading <= set(now.loans), found.way(number)


def _check_rests(found: Explored) -> None:
    """No deadlock: where nothing is under way, either all is over, or nobody has ended anything yet."""
    seen: set[tuple[SendState | None, RecvState | None]] = set()
    for number, now in enumerate(found.states):
        if not found.drains[number]:
            seen.add((now.sender, now.receiver))
            assert (now.sender, now.receiver) in RESTS, found.way(number)
            assert now.sender in WAITS or not now.loans, found.way(number)
    assert seen == RESTS


def _check_draining_ends(found: Explored) -> None:
    """No livelock: the steps that nobody decides form no circle."""
    entering = [0] * len(found.states)
    for ways in found.drains:
        for to in ways:
            entering[to] += 1
    free = [number for number, count in enumerate(entering) if not count]
    done = 0
    while free:
        done += 1
        for to in found.drains[free.pop()]:
            entering[to] -= 1
            if not entering[to]:
                free.append(to)
    assert done == len(found.states)


@pytest.mark.parametrize(
    "bounds",
    [
        pytest.param(Bounds(chunks=2, window=2), id="all at once"),
        pytest.param(Bounds(chunks=2, window=1), id="one by one"),
        pytest.param(Bounds(chunks=3, window=2), id="larger", marks=pytest.mark.slow),
    ],
)
def test_no_reachable_state_is_bad_and_all_close_when_the_channel_is_empty(bounds: Bounds) -> None:
    found = _explore(bounds)
    assert len(found.states) > 20_000
    _check_all(found, bounds)


@pytest.mark.parametrize(
    ("state", "event", "wrong"),
    [
        # Frees before the peer has acknowledged.
        (SendState.OPEN, SendEvent.CANCEL, (SendState.CANCELLING, (SendAction.SEND_CANCEL, SendAction.FREE))),
        # Forgets to free.
        (SendState.OPEN, SendEvent.GOT_CANCEL, (SendState.CLOSED, (SendAction.SEND_ACK,))),
        # Frees what is still being read, since the terminal was sent.
        (SendState.DRAINING, SendEvent.CANCEL, (SendState.CLOSED, (SendAction.FREE, SendAction.SEND_CANCEL))),
        # Is opened after a cancel that came first.
        (RecvState.IDLE, RecvEvent.GOT_CANCEL, (RecvState.IDLE, (RecvAction.SEND_ACK,))),
        # Doesn't answer, because it is over.
        (SendState.CLOSED, SendEvent.GOT_CANCEL, (SendState.CLOSED, ())),
        # Lets go of what it goes on reading.
        (RecvState.OPEN, RecvEvent.CANCEL, (RecvState.CANCELLING, (RecvAction.SEND_CANCEL,))),
        # Keeps what it was lent.
        (RecvState.ENDED, RecvEvent.CANCEL, (RecvState.CLOSED, (RecvAction.DROP,))),
        # Waits for a peer that is gone.
        (RecvState.CANCELLING, RecvEvent.LOST, (RecvState.CANCELLING, ())),
        # Answers an acknowledgement, for ever.
        (RecvState.CLOSED, RecvEvent.GOT_ACK, (RecvState.CLOSED, (RecvAction.SEND_CANCEL,))),
    ],
)
def test_a_wrong_cell_is_found(
    monkeypatch: pytest.MonkeyPatch, state: SendState | RecvState, event: SendEvent | RecvEvent, wrong: object
) -> None:
    """An exploration that finds nothing proves something only if it finds what is there."""
    row: Any = SENDER[state] if isinstance(state, SendState) else RECEIVER[state]
    monkeypatch.setitem(row, event, wrong)
    bounds = Bounds(chunks=1, window=1)
    with pytest.raises(AssertionError):
        _check_all(_explore(bounds), bounds)


def _check_all(found: Explored, bounds: Bounds) -> None:
    _check_memory(found, bounds)
    _check_rests(found)
    _check_draining_ends(found)


@pytest.mark.parametrize("seed", range(60))
def test_the_real_ends_go_where_the_model_goes(seed: int) -> None:
    """A random walk of the model, done step by step to a real Sender and Receiver; the seed repeats it."""
    dice = random.Random(seed)
    bounds = Bounds(chunks=4, window=2)
    pair, now, walked = Pair(window=bounds.window * CHUNK), Stream(), []
    for _ in range(60):
        ways = [step for step in steps(now, bounds) if "dies" not in step.what or dice.random() < 0.03]
        ways = [w for w in ways if dice.random() < 0.05 or not w.what.endswith(("CANCEL", "DEADLINE", "ERROR", "END"))]
        if not ways:
            continue
        step = dice.choice(ways)
        walked.append(f"{step.what} {step.on}")
        _do(pair, step)
        now = step.after
        assert _books(pair) == _expected(now), "\n".join(walked)
        pair.check_held()


def _do(pair: Pair, step: Step) -> None:
    """The step, done to the real ends."""
    match step.what, step.on:
        case "sender OPEN", _:
            pair.open()
        case "sender DATA", _:
            pair.send(len(pair.sent).to_bytes(1, "big") * CHUNK)
        case "sender END", _:
            pair.sender.end(b"")
        case "sender ERROR", _:
            pair.fail()
        case "sender CANCEL", _:
            pair.cancel_sender()
        case "sender DEADLINE", _:
            pair.sender.apply(SendEvent.DEADLINE, frames.Error(pair.sender.key, len(pair.sent) + 1, "deadline", "late"))
            pair.sender.pump()
        case "receiver CANCEL" | "receiver DEADLINE", _:
            pair.cancel_receiver(releases=False)
        case "sender LOST" | "receiver LOST", _:
            pair.tell_loss()
        case "sender dies", _:
            pair.lose_sender()
        case "receiver dies", _:
            pair.lose_receiver()
        case "release", int() as chunk:
            pair.release(next(n for n, held in enumerate(pair.held) if held.expected[0] == chunk - 1))
        case "flush", _:
            pair.flush()
        case (("to sender" | "to sender, again later"), Note() as note):
            pair.to_sender(_find(pair.up, note), keep=step.what != "to sender")
        case (("to receiver" | "to receiver, again later"), Note() as note):
            pair.to_receiver(_find(pair.down, note), keep=step.what != "to receiver")
        case other:
            raise AssertionError(f"unknown step {other}")


def _find(bag: list[frames.Frame], note: Note) -> int:
    """The model's bag is a set: of frames that are alike it knows one, so the others go with it."""
    alike = [n for n, frame in enumerate(bag) if _note(frame) == note]
    for n in reversed(alike[1:]):
        del bag[n]
    return alike[0]


def _note(frame: frames.Frame) -> Note:
    match frame:
        case frames.Data(seq=seq):
            return Note(Kind.DATA, seq)
        case frames.End(seq=seq):
            return Note(Kind.END, seq)
        case frames.Error(seq=seq):
            return Note(Kind.ERROR, seq)
        case frames.Credit(total_bytes=total):
            return Note(Kind.CREDIT, total // CHUNK)
        case frames.Open():
            return Note(Kind.OPEN)
        case frames.Cancel():
            return Note(Kind.CANCEL)
        case frames.CancelAck():
            return Note(Kind.ACK)


Books = tuple[SendState | None, RecvState | None, int, frozenset[int], frozenset[Note], frozenset[Note]]


def _books(pair: Pair) -> Books:
    return (
        None if pair.sender is None else pair.sender.state,
        None if pair.receiver is None else pair.receiver.state,
        0 if pair.sender is None else pair.arena.used // CHUNK,
        frozenset(held.expected[0] + 1 for held in pair.held),
        frozenset(map(_note, pair.down)),
        frozenset(map(_note, pair.up)),
    )


def _expected(now: Stream) -> Books:
    return now.sender, now.receiver, len(now.loans), now.reading, now.down, now.up
