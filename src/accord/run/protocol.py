"""The stream protocol of every edge, as two tables: states x events -> (state, actions).

In: nothing. Out: `SENDER` and `RECEIVER`, total tables that sender.py and receiver.py interpret and docs/protocol.md
is drawn from. Invariant: every state answers every event, and CLOSED is never left.
Events that start with GOT come from the peer, in sequence; the others are local. LOST: the peer's
process has gone. SETTLED: a terminal was passed and every payload has been given back.
"""

from enum import IntEnum


class SendState(IntEnum):
    """The producing end of a stream."""

    IDLE = 0
    OPEN = 1
    DRAINING = 2  # the terminal is sent, payloads are still on loan
    CANCELLING = 3  # cancel is sent, its acknowledgement is awaited
    CLOSED = 4


class SendEvent(IntEnum):
    """What can happen to a producing end."""

    OPEN = 0
    DATA = 1
    END = 2
    ERROR = 3
    CANCEL = 4
    DEADLINE = 5
    SETTLED = 6
    GOT_CREDIT = 7
    GOT_CANCEL = 8
    GOT_ACK = 9
    LOST = 10


class SendAction(IntEnum):
    """What a producing end does."""

    SEND_OPEN = 0
    SEND_DATA = 1
    SEND_END = 2
    SEND_ERROR = 3
    SEND_CANCEL = 4
    SEND_ACK = 5
    TAKE_CREDIT = 6
    FREE = 7  # take back every payload on loan
    TELL_CANCELLED = 8
    TELL_LOST = 9
    REJECT = 10  # a bug of the caller: raises


class RecvState(IntEnum):
    """The consuming end of a stream."""

    IDLE = 0
    OPEN = 1
    ENDED = 2  # the terminal has come, payloads are still being read
    CANCELLING = 3
    CLOSED = 4


class RecvEvent(IntEnum):
    """What can happen to a consuming end."""

    GOT_OPEN = 0
    GOT_DATA = 1
    GOT_END = 2
    GOT_ERROR = 3
    GOT_CANCEL = 4
    GOT_ACK = 5
    CANCEL = 6
    DEADLINE = 7
    SETTLED = 8
    LOST = 9


class RecvAction(IntEnum):
    """What a consuming end does."""

    TELL_OPEN = 0
    DELIVER = 1
    TELL_END = 2
    TELL_ERROR = 3
    DISCARD = 4  # a payload that nobody will read
    DROP = 5  # stop reading every payload at hand
    SEND_CANCEL = 6
    SEND_ACK = 7
    TELL_CANCELLED = 8
    TELL_LOST = 9
    GIVE_BACK = 10  # credit for everything, read or not


SendRow = dict[SendEvent, tuple[SendState, tuple[SendAction, ...]]]
RecvRow = dict[RecvEvent, tuple[RecvState, tuple[RecvAction, ...]]]

_S, _SE, _SA = SendState, SendEvent, SendAction
_R, _RE, _RA = RecvState, RecvEvent, RecvAction

SENDER: dict[SendState, SendRow] = {
    _S.IDLE: {
        _SE.OPEN: (_S.OPEN, (_SA.SEND_OPEN,)),
        _SE.DATA: (_S.IDLE, (_SA.REJECT,)),
        _SE.END: (_S.IDLE, (_SA.REJECT,)),
        _SE.ERROR: (_S.IDLE, (_SA.REJECT,)),
        _SE.CANCEL: (_S.CLOSED, ()),
        _SE.DEADLINE: (_S.CLOSED, ()),
        _SE.SETTLED: (_S.IDLE, (_SA.REJECT,)),
        _SE.GOT_CREDIT: (_S.IDLE, ()),
        _SE.GOT_CANCEL: (_S.CLOSED, (_SA.SEND_ACK, _SA.TELL_CANCELLED)),
        _SE.GOT_ACK: (_S.IDLE, ()),
        _SE.LOST: (_S.CLOSED, (_SA.TELL_LOST,)),
    },
    _S.OPEN: {
        _SE.OPEN: (_S.OPEN, (_SA.REJECT,)),
        _SE.DATA: (_S.OPEN, (_SA.SEND_DATA,)),
        _SE.END: (_S.DRAINING, (_SA.SEND_END,)),
        _SE.ERROR: (_S.DRAINING, (_SA.SEND_ERROR,)),
        _SE.CANCEL: (_S.CANCELLING, (_SA.SEND_CANCEL,)),
        _SE.DEADLINE: (_S.DRAINING, (_SA.SEND_ERROR,)),
        _SE.SETTLED: (_S.OPEN, (_SA.REJECT,)),
        _SE.GOT_CREDIT: (_S.OPEN, (_SA.TAKE_CREDIT,)),
        _SE.GOT_CANCEL: (_S.CLOSED, (_SA.FREE, _SA.SEND_ACK, _SA.TELL_CANCELLED)),
        _SE.GOT_ACK: (_S.OPEN, ()),
        _SE.LOST: (_S.CLOSED, (_SA.FREE, _SA.TELL_LOST)),
    },
    _S.DRAINING: {
        _SE.OPEN: (_S.DRAINING, (_SA.REJECT,)),
        _SE.DATA: (_S.DRAINING, (_SA.REJECT,)),
        _SE.END: (_S.DRAINING, (_SA.REJECT,)),
        _SE.ERROR: (_S.CANCELLING, (_SA.SEND_CANCEL,)),
        _SE.CANCEL: (_S.CANCELLING, (_SA.SEND_CANCEL,)),
        _SE.DEADLINE: (_S.CANCELLING, (_SA.SEND_CANCEL,)),
        _SE.SETTLED: (_S.CLOSED, ()),
        _SE.GOT_CREDIT: (_S.DRAINING, (_SA.TAKE_CREDIT,)),
        _SE.GOT_CANCEL: (_S.CLOSED, (_SA.FREE, _SA.SEND_ACK, _SA.TELL_CANCELLED)),
        _SE.GOT_ACK: (_S.DRAINING, ()),
        _SE.LOST: (_S.CLOSED, (_SA.FREE,)),
    },
    _S.CANCELLING: {
        _SE.OPEN: (_S.CANCELLING, (_SA.REJECT,)),
        _SE.DATA: (_S.CANCELLING, ()),
        _SE.END: (_S.CANCELLING, ()),
        _SE.ERROR: (_S.CANCELLING, ()),
        _SE.CANCEL: (_S.CANCELLING, ()),
        _SE.DEADLINE: (_S.CANCELLING, ()),
        _SE.SETTLED: (_S.CANCELLING, ()),
        _SE.GOT_CREDIT: (_S.CANCELLING, ()),
        _SE.GOT_CANCEL: (_S.CLOSED, (_SA.FREE, _SA.SEND_ACK)),
        _SE.GOT_ACK: (_S.CLOSED, (_SA.FREE,)),
        _SE.LOST: (_S.CLOSED, (_SA.FREE,)),
    },
    _S.CLOSED: {
        _SE.OPEN: (_S.CLOSED, ()),
        _SE.DATA: (_S.CLOSED, ()),
        _SE.END: (_S.CLOSED, ()),
        _SE.ERROR: (_S.CLOSED, ()),
        _SE.CANCEL: (_S.CLOSED, ()),
        _SE.DEADLINE: (_S.CLOSED, ()),
        _SE.SETTLED: (_S.CLOSED, ()),
        _SE.GOT_CREDIT: (_S.CLOSED, ()),
        _SE.GOT_CANCEL: (_S.CLOSED, (_SA.SEND_ACK,)),
        _SE.GOT_ACK: (_S.CLOSED, ()),
        _SE.LOST: (_S.CLOSED, ()),
    },
}

RECEIVER: dict[RecvState, RecvRow] = {
    _R.IDLE: {
        _RE.GOT_OPEN: (_R.OPEN, (_RA.TELL_OPEN,)),
        _RE.GOT_DATA: (_R.IDLE, (_RA.DISCARD,)),
        _RE.GOT_END: (_R.CLOSED, ()),
        _RE.GOT_ERROR: (_R.CLOSED, ()),
        _RE.GOT_CANCEL: (_R.CLOSED, (_RA.SEND_ACK, _RA.TELL_CANCELLED)),
        _RE.GOT_ACK: (_R.IDLE, ()),
        _RE.CANCEL: (_R.CANCELLING, (_RA.SEND_CANCEL,)),
        _RE.DEADLINE: (_R.CANCELLING, (_RA.SEND_CANCEL,)),
        _RE.SETTLED: (_R.IDLE, ()),
        _RE.LOST: (_R.CLOSED, (_RA.TELL_LOST,)),
    },
    _R.OPEN: {
        _RE.GOT_OPEN: (_R.OPEN, ()),
        _RE.GOT_DATA: (_R.OPEN, (_RA.DELIVER,)),
        _RE.GOT_END: (_R.ENDED, (_RA.TELL_END,)),
        _RE.GOT_ERROR: (_R.ENDED, (_RA.TELL_ERROR,)),
        _RE.GOT_CANCEL: (_R.CLOSED, (_RA.TELL_CANCELLED, _RA.DROP, _RA.SEND_ACK)),
        _RE.GOT_ACK: (_R.OPEN, ()),
        _RE.CANCEL: (_R.CANCELLING, (_RA.DROP, _RA.SEND_CANCEL)),
        _RE.DEADLINE: (_R.CANCELLING, (_RA.DROP, _RA.SEND_CANCEL)),
        _RE.SETTLED: (_R.OPEN, ()),
        _RE.LOST: (_R.CLOSED, (_RA.TELL_LOST, _RA.DROP)),
    },
    _R.ENDED: {
        _RE.GOT_OPEN: (_R.ENDED, ()),
        _RE.GOT_DATA: (_R.ENDED, (_RA.DISCARD,)),
        _RE.GOT_END: (_R.ENDED, ()),
        _RE.GOT_ERROR: (_R.ENDED, ()),
        _RE.GOT_CANCEL: (_R.CLOSED, (_RA.TELL_CANCELLED, _RA.DROP, _RA.SEND_ACK)),
        _RE.GOT_ACK: (_R.ENDED, ()),
        _RE.CANCEL: (_R.CLOSED, (_RA.DROP, _RA.GIVE_BACK)),
        _RE.DEADLINE: (_R.CLOSED, (_RA.DROP, _RA.GIVE_BACK)),
        _RE.SETTLED: (_R.CLOSED, ()),
        _RE.LOST: (_R.ENDED, ()),
    },
    _R.CANCELLING: {
        _RE.GOT_OPEN: (_R.CANCELLING, ()),
        _RE.GOT_DATA: (_R.CANCELLING, (_RA.DISCARD,)),
        _RE.GOT_END: (_R.CANCELLING, ()),
        _RE.GOT_ERROR: (_R.CANCELLING, ()),
        _RE.GOT_CANCEL: (_R.CLOSED, (_RA.SEND_ACK,)),
        _RE.GOT_ACK: (_R.CLOSED, ()),
        _RE.CANCEL: (_R.CANCELLING, ()),
        _RE.DEADLINE: (_R.CANCELLING, ()),
        _RE.SETTLED: (_R.CANCELLING, ()),
        _RE.LOST: (_R.CLOSED, ()),
    },
    _R.CLOSED: {
        _RE.GOT_OPEN: (_R.CLOSED, ()),
        _RE.GOT_DATA: (_R.CLOSED, (_RA.DISCARD,)),
        _RE.GOT_END: (_R.CLOSED, ()),
        _RE.GOT_ERROR: (_R.CLOSED, ()),
        _RE.GOT_CANCEL: (_R.CLOSED, (_RA.SEND_ACK,)),
        _RE.GOT_ACK: (_R.CLOSED, ()),
        _RE.CANCEL: (_R.CLOSED, ()),
        _RE.DEADLINE: (_R.CLOSED, ()),
        _RE.SETTLED: (_R.CLOSED, ()),
        _RE.LOST: (_R.CLOSED, ()),
    },
}
