"""A model of one stream, small enough to visit every state of it: the tables, a bag of frames, two processes.

In: the tables of accord.run.protocol. Out: `steps`, every step that can be taken from a state.
The model keeps its own books (what is sent, on loan, being read, given back) and shares no code with the
ends of real streams. Frames may come in any order and any number of times; a process may die at any moment.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from accord.run.protocol import RECEIVER, SENDER, RecvAction, RecvEvent, RecvState, SendAction, SendEvent, SendState


class Bounds(NamedTuple):
    """How much a stream carries, in chunks (all of them lie in the sender's memory), and how much at once."""

    chunks: int = 2
    window: int = 2


class Kind(StrEnum):
    """What travels."""

    OPEN = "open"
    DATA = "data"
    END = "end"
    ERROR = "error"
    CANCEL = "cancel"
    ACK = "ack"
    CREDIT = "credit"


class Note(NamedTuple):
    """A frame. `number` is its place in the sequence, or a credit's count of chunks; 0 for others."""

    kind: Kind
    number: int = 0


class Stream(NamedTuple):
    """One state of a stream, at both ends and between them. An end that is None has lost its process."""

    sender: SendState | None = SendState.IDLE
    receiver: RecvState | None = RecvState.IDLE
    sent: int = 0
    credited: int = 0
    loans: tuple[int, ...] = ()
    awaited: int = 1  # the place in the sequence that the receiver acts on next
    early: frozenset[Note] = frozenset()
    delivered: int = 0
    reading: frozenset[int] = frozenset()
    reported: int = 0
    down: frozenset[Note] = frozenset()  # to the receiver
    up: frozenset[Note] = frozenset()  # to the sender

    @property
    def given(self) -> int:
        """How many chunks have been given back, all those before them included."""
        return min(self.reading, default=self.delivered + 1) - 1


class Step(NamedTuple):
    """`what` happens (`on` one frame or chunk) and what comes of it. `drains`: it needs nobody's decision."""

    what: str
    on: Note | int | None
    after: Stream
    drains: bool


_SEQUENCED = (Kind.DATA, Kind.END, Kind.ERROR)
_SEND_GOT = {Kind.CREDIT: SendEvent.GOT_CREDIT, Kind.CANCEL: SendEvent.GOT_CANCEL, Kind.ACK: SendEvent.GOT_ACK}
_RECV_GOT = {
    Kind.OPEN: RecvEvent.GOT_OPEN,
    Kind.DATA: RecvEvent.GOT_DATA,
    Kind.END: RecvEvent.GOT_END,
    Kind.ERROR: RecvEvent.GOT_ERROR,
    Kind.CANCEL: RecvEvent.GOT_CANCEL,
    Kind.ACK: RecvEvent.GOT_ACK,
}


def steps(now: Stream, bounds: Bounds) -> Iterator[Step]:
    """Every step that can be taken now."""
    if now.sender is not None:
        yield from _sender_steps(now, now.sender, bounds)
        yield Step("sender dies", None, now._replace(sender=None, loans=(), up=frozenset()), drains=False)
    if now.receiver is not None:
        yield from _receiver_steps(now, now.receiver)
        gone = now._replace(receiver=None, reading=frozenset(), early=frozenset(), down=frozenset())
        yield Step("receiver dies", None, gone, drains=False)


def _sender_steps(now: Stream, state: SendState, bounds: Bounds) -> Iterator[Step]:
    local = [SendEvent.CANCEL, SendEvent.DEADLINE]
    if state is SendState.IDLE:
        local.append(SendEvent.OPEN)
    if state is SendState.OPEN:
        local += [SendEvent.END, SendEvent.ERROR]
        if now.sent < bounds.chunks and now.sent - now.credited < bounds.window:
            local.append(SendEvent.DATA)
    if state is SendState.DRAINING:
        local.append(SendEvent.ERROR)
    for event in local:
        yield Step(f"sender {event.name}", None, send_step(now, event), drains=False)
    for note in now.up:
        left = now._replace(up=now.up - {note})
        yield Step("to sender", note, send_step(left, _SEND_GOT[note.kind], note.number), drains=True)
        yield Step("to sender, again later", note, send_step(now, _SEND_GOT[note.kind], note.number), drains=False)
    if now.receiver is None and state is not SendState.CLOSED:
        yield Step("sender LOST", None, send_step(now._replace(up=frozenset()), SendEvent.LOST), drains=True)


def _receiver_steps(now: Stream, state: RecvState) -> Iterator[Step]:
    for event in (RecvEvent.CANCEL, RecvEvent.DEADLINE):
        yield Step(f"receiver {event.name}", None, recv_step(now, event), drains=False)
    for note in now.down:
        yield Step("to receiver", note, _take(now._replace(down=now.down - {note}), note), drains=True)
        yield Step("to receiver, again later", note, _take(now, note), drains=False)
    for chunk in now.reading:
        yield Step("release", chunk, now._replace(reading=now.reading - {chunk}), drains=True)
    over = state is RecvState.ENDED and not now.reading
    if over or (state in {RecvState.OPEN, RecvState.ENDED} and now.given > now.reported):
        yield Step("flush", None, _flush(now, over=over), drains=True)
    if now.sender is None and state not in {RecvState.CLOSED, RecvState.ENDED}:
        yield Step("receiver LOST", None, recv_step(now._replace(down=frozenset()), RecvEvent.LOST), drains=True)


def send_step(now: Stream, event: SendEvent, number: int = 0) -> Stream:
    """What the sender's table makes of an event, and of having nothing on loan after the terminal."""
    assert now.sender is not None
    state, actions = SENDER[now.sender][event]
    now = now._replace(sender=state)
    for action in actions:
        now = _send_act(now, action, number)
    if now.sender is SendState.DRAINING and not now.loans:
        return send_step(now, SendEvent.SETTLED)
    return now


def recv_step(now: Stream, event: RecvEvent, number: int = 0) -> Stream:
    """What the receiver's table makes of an event."""
    assert now.receiver is not None
    state, actions = RECEIVER[now.receiver][event]
    now = now._replace(receiver=state)
    for action in actions:
        now = _recv_act(now, action, number)
    return now


def _send_act(now: Stream, action: SendAction, number: int) -> Stream:
    match action:
        case SendAction.SEND_OPEN:
            return _down(now, Note(Kind.OPEN))
        case SendAction.SEND_DATA:
            chunk = now.sent + 1
            return _down(now._replace(sent=chunk, loans=(*now.loans, chunk)), Note(Kind.DATA, chunk))
        case SendAction.SEND_END:
            return _down(now, Note(Kind.END, now.sent + 1))
        case SendAction.SEND_ERROR:
            return _down(now, Note(Kind.ERROR, now.sent + 1))
        case SendAction.SEND_CANCEL:
            return _down(now, Note(Kind.CANCEL))
        case SendAction.SEND_ACK:
            return _down(now, Note(Kind.ACK))
        case SendAction.TAKE_CREDIT:
            assert number <= now.sent, "more is given back than was sent"
            credited = max(now.credited, number)
            return now._replace(credited=credited, loans=tuple(chunk for chunk in now.loans if chunk > credited))
        case SendAction.FREE:
            return now._replace(loans=())
        case SendAction.TELL_CANCELLED | SendAction.TELL_LOST:
            return now
        case SendAction.REJECT:
            raise AssertionError("a lawful call is rejected")


def _recv_act(now: Stream, action: RecvAction, number: int) -> Stream:
    match action:
        case RecvAction.DELIVER:
            assert number == now.delivered + 1, "data is delivered out of order, or twice"
            assert now.sender is None or number in now.loans, "a payload is delivered after it was freed"
            return now._replace(delivered=number, reading=now.reading | {number})
        case RecvAction.DROP:
            return now._replace(reading=frozenset(), early=frozenset())
        case RecvAction.SEND_CANCEL | RecvAction.SEND_ACK:
            assert not now.reading, "the sender may free what is still being read"
            return _up(now, Note(Kind.CANCEL if action is RecvAction.SEND_CANCEL else Kind.ACK))
        case RecvAction.GIVE_BACK:
            assert not now.reading, "what is still being read is given back"
            return _up(now, Note(Kind.CREDIT, now.delivered))
        case _:
            return now


def _take(now: Stream, note: Note) -> Stream:
    if note.kind not in _SEQUENCED:
        now = recv_step(now, _RECV_GOT[note.kind], note.number)
        return _take_early(now) if note.kind is Kind.OPEN else now
    if note.number != now.awaited or now.receiver is RecvState.IDLE:
        return now._replace(early=now.early | {note}) if note.number >= now.awaited else now
    now = recv_step(now._replace(awaited=now.awaited + 1), _RECV_GOT[note.kind], note.number)
    return _take_early(now)


def _take_early(now: Stream) -> Stream:
    while due := [note for note in now.early if note.number == now.awaited]:
        left = now._replace(early=now.early - {due[0]}, awaited=now.awaited + 1)
        now = recv_step(left, _RECV_GOT[due[0].kind], due[0].number)
    return now


def _flush(now: Stream, *, over: bool) -> Stream:
    if now.given > now.reported:
        now = _up(now._replace(reported=now.given), Note(Kind.CREDIT, now.given))
    return recv_step(now, RecvEvent.SETTLED) if over else now


def _down(now: Stream, note: Note) -> Stream:
    return now if now.receiver is None else now._replace(down=now.down | {note})


def _up(now: Stream, note: Note) -> Stream:
    return now if now.sender is None else now._replace(up=now.up | {note})
