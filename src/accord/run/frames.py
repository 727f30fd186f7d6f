"""What travels on a link: control frames, never large payloads.

In: frames. Out: packets of bytes, and back. Invariant: one packet decodes to the frames it was made of.
A stream's `key` is request id x 64 + edge number. OPEN has sequence number 0; DATA and the terminal
count from 1. Payloads of more than `INLINE_BYTES_MAX` lie in the sender's arena at `offset`.
"""

import socket
from functools import lru_cache

import msgspec

from accord.run.wire import Wire

EDGES_MAX = 64
INLINE_BYTES_MAX = 8192
INLINE = -1
# A frame is one packet at most: what a stage may say beside its payloads is bounded.
META_BYTES_MAX = 32 << 10
PARAMS_BYTES_MAX = 32 << 10
TEXT_CHARS_MAX = 4096


class Open(msgspec.Struct, frozen=True, array_like=True, tag=0, gc=False):
    """Opens a stream and tells the whole route of its request."""

    key: int
    route: bytes
    deadline_ns: int
    params: bytes


class Data(msgspec.Struct, frozen=True, array_like=True, tag=1, gc=False):
    """One payload: `inline`, or `size` bytes at `offset` of the sender's arena."""

    key: int
    seq: int
    index: int
    meta: bytes
    size: int
    inline: bytes
    offset: int = INLINE


class End(msgspec.Struct, frozen=True, array_like=True, tag=2, gc=False):
    """The stream is complete."""

    key: int
    seq: int
    usage: bytes


class Error(msgspec.Struct, frozen=True, array_like=True, tag=3, gc=False):
    """The stream ends early; `code` is one of terms.request.ErrorCode."""

    key: int
    seq: int
    code: str
    text: str


class Cancel(msgspec.Struct, frozen=True, array_like=True, tag=4, gc=False):
    """Either end wants no more of this stream. `code` and `text` say why, as in Error; empty: the client left."""

    key: int
    code: str = ""
    text: str = ""


class CancelAck(msgspec.Struct, frozen=True, array_like=True, tag=5, gc=False):
    """The other end holds nothing of this stream any more."""

    key: int


class Credit(msgspec.Struct, frozen=True, array_like=True, tag=6, gc=False):
    """All that the receiver has given back so far, in bytes: safe to lose order, safe to repeat."""

    key: int
    total_bytes: int


Frame = Open | Data | End | Error | Cancel | CancelAck | Credit


class Hop(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One edge of a request's route, between two nodes."""

    edge: int
    producer: int
    consumer: int


Route = tuple[Hop, ...]

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[Frame])
_route_decoder = msgspec.msgpack.Decoder(Route)


def encode(frames: list[Frame]) -> bytes:
    """Frames -> one packet."""
    return _encoder.encode(frames)


def decode(packet: bytes | memoryview) -> list[Frame]:
    """One packet -> its frames; msgspec.DecodeError if it is none."""
    return _decoder.decode(packet)


@lru_cache(maxsize=4096)
def encode_route(route: Route) -> bytes:
    """Route -> bytes, as carried by OPEN."""
    return _encoder.encode(route)


@lru_cache(maxsize=4096)
def decode_route(data: bytes) -> Route:
    """Bytes -> Route. Cached: a fleet has few distinct routes, a service many requests."""
    return _route_decoder.decode(data)


def cancel(key: int, why: Error | None) -> Cancel:
    """A cancel, with its reason if there is one."""
    return Cancel(key) if why is None else Cancel(key, why.code, why.text[:TEXT_CHARS_MAX])


def link_wire(sock: socket.socket) -> Wire[Frame, Frame]:
    """Either end of a link."""
    return Wire(sock, encode=encode, decode=decode)
