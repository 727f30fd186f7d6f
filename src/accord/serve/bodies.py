"""Request bodies: read whole, within bounds of size, time and memory.

In: an HTTP request. Out: its bytes, or a refusal. Invariant: the bytes of all bodies that are being
read or parsed never exceed the pool; what doesn't fit is refused at once, since waiting could deadlock.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from aiohttp import web

from accord.serve.config import DoorConfig
from accord.serve.problems import Turned, refused
from accord.terms.errors import Overloaded


class Lease:
    """What one request holds of the pool."""

    __slots__ = ("_bytes_max", "_pool", "held_bytes")

    def __init__(self, pool: "BodyPool", bytes_max: int) -> None:
        self._pool = pool
        self._bytes_max = bytes_max
        self.held_bytes = 0

    def grow(self, size: int) -> None:
        """Takes `size` more bytes; Turned (413) past the body's own bound, Overloaded past the pool's."""
        if self.held_bytes + size > self._bytes_max:
            raise too_large(self._bytes_max)
        self._pool.take(size)
        self.held_bytes += size

    def give_back(self) -> None:
        """Returns all bytes to the pool."""
        self._pool.used_bytes -= self.held_bytes
        self.held_bytes = 0


class BodyPool:
    """Counts the bytes of bodies in memory."""

    __slots__ = ("_body_bytes_max", "_bytes_max", "used_bytes")

    def __init__(self, *, bytes_max: int, body_bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._body_bytes_max = body_bytes_max
        self.used_bytes = 0

    def take(self, size: int) -> None:
        """Overloaded if the pool is full."""
        if self.used_bytes + size > self._bytes_max:
            raise Overloaded(
                f"the bodies of other requests fill the {self._bytes_max >> 20} MiB kept for them; try again shortly",
                retry_after_s=1.0,
            )
        self.used_bytes += size

    @contextmanager
    def lease(self) -> Iterator[Lease]:
        """A lease whose bytes go back to the pool at the end, whatever happens."""
        lease = Lease(self, self._body_bytes_max)
        try:
            yield lease
        finally:
            lease.give_back()


async def read_json_body(request: web.Request, lease: Lease, config: DoorConfig) -> bytes:
    """The body of a JSON request; Turned with 408, 413 or 415."""
    if request.content_type != "application/json":
        text = f"Content-Type: {request.content_type!r}: this endpoint reads JSON; send application/json"
        raise Turned(refused(415, "unsupported_media_type", text))
    check_framing(request, config)
    pieces: list[bytes] = []
    async with body_deadline(config):
        async for piece in _pieces(request):
            lease.grow(len(piece))
            pieces.append(piece)
    return b"".join(pieces)


def check_framing(request: web.Request, config: DoorConfig) -> None:
    """Refuses, before reading, a body that says itself that it is too long or compressed."""
    encoding = request.headers.get("Content-Encoding", "identity")
    if encoding.lower() != "identity":
        text = f"Content-Encoding: {encoding[:40]!r}: compressed bodies are not taken; send it plain"
        raise Turned(refused(415, "unsupported_encoding", text))
    if request.content_length is not None and request.content_length > config.body_bytes_max:
        raise too_large(config.body_bytes_max)


@asynccontextmanager
async def body_deadline(config: DoorConfig) -> AsyncIterator[None]:
    """Bounds the time in which a body must arrive; Turned (408) past it."""
    try:
        async with asyncio.timeout(config.body_s_max):
            yield
    except TimeoutError:
        text = f"the body did not arrive within {config.body_s_max:g} s; send it faster, or send less"
        raise Turned(refused(408, "body_timeout", text)) from None


def too_large(bytes_max: int) -> Turned:
    """HTTP 413."""
    return Turned(
        refused(413, "body_too_large", f"the body is larger than {bytes_max >> 20} MiB ({bytes_max} bytes); send less")
    )


async def _pieces(request: web.Request) -> AsyncIterator[bytes]:
    while piece := await request.content.readany():
        yield piece
