"""What the supervisor and a replica say to each other. No payload passes here.

In: messages. Out: bytes, and back. Invariant: a replica that has said `Ready` serves until `Stop`.
Descriptors travel beside a message: Start brings (arena, status page), Attach (link socket, peer's arena).
"""

import socket

import msgspec

from accord.run.ports import EngineSpec
from accord.run.wire import Wire
from accord.terms.graph import Edge


class Start(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The first message to a replica."""

    node_id: int
    spec: EngineSpec
    edges: tuple[Edge, ...]
    arena_bytes: int


class Attach(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A link to a peer is up."""

    peer: int
    arena_bytes: int


class Forget(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A request is over: whatever is left of it, or is still to come, is not wanted.

    Cancels go from stage to stage, and a chain that a crash has cut passes none on: hence this.
    """

    rid: int


class Trace(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Asks for the spans kept so far."""

    ticket: int


class Stop(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Asks the replica to end."""


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The engine is loaded."""

    load_s: float


class Broken(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The engine failed to load, or raised; the replica ends. `final`: a restart would fail alike."""

    text: str
    final: bool


class Row(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One request that has left a replica. Times in ns of CLOCK_MONOTONIC; 0 for never."""

    rid: int
    opened_ns: int
    first_input_ns: int
    first_output_ns: int
    ended_ns: int
    worked_ns: int


class Finished(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Requests that have left a replica."""

    rows: list[Row]


class Span(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A stretch of one activity (its number in `Activity`)."""

    activity: int
    start_ns: int
    length_ns: int


class Spans(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The answer to Trace, in parts; `last` ends it."""

    ticket: int
    spans: list[Span]
    last: bool


Down = Start | Attach | Forget | Trace | Stop
Up = Ready | Broken | Finished | Spans

_encode = msgspec.msgpack.Encoder().encode
_decode_down = msgspec.msgpack.Decoder(list[Down]).decode
_decode_up = msgspec.msgpack.Decoder(list[Up]).decode


def supervisor_wire(sock: socket.socket) -> Wire[Down, Up]:
    """The supervisor's end of a control socket."""
    return Wire(sock, encode=_encode, decode=_decode_up)


def replica_wire(sock: socket.socket) -> Wire[Up, Down]:
    """The replica's end of a control socket."""
    return Wire(sock, encode=_encode, decode=_decode_down)
