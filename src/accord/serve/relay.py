"""Between a ticket of the runtime and the wire of a client.

In: a request for the runtime; a client's connection. Out: the ticket's events within the deadline;
bytes on the wire, one piece at a time. Invariants: leaving the block cancels the ticket; the next event
is taken only after the client has taken the last one, so a stalled client stalls the stages.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

from accord.run.ports import Service, Ticket
from accord.serve.config import DoorConfig
from accord.serve.door import EXCHANGE
from accord.serve.metrics import Exchange
from accord.serve.problems import Outcome, Problem, Turned, problem_json, problem_of_failed
from accord.terms.request import Done, ErrorCode, Event, Failed, Output, Request

# The runtime keeps the deadline; the door waits a little longer, in case it can't answer at all.
_GRACE_S = 2.0


class StalledError(Exception):
    """The client has not taken its answer for too long; its connection is cut."""


class Events:
    """The events of one ticket; ends after `Done` or `Failed`, and makes up a `Failed` past the deadline."""

    __slots__ = ("_end_s", "_held", "_over", "_source")

    def __init__(self, ticket: Ticket, end_s: float) -> None:
        self._source = aiter(ticket)
        self._end_s = end_s
        self._over = False
        self._held: Event | None = None

    async def settle(self) -> None:
        """Waits for the first event, which stays the next one; Turned if the request failed before any output."""
        first = await anext(self)
        if isinstance(first, Failed):
            raise Turned(problem_of_failed(first))
        self._held, self._over = first, False

    def __aiter__(self) -> "Events":
        return self

    async def __anext__(self) -> Event:
        if self._over:
            raise StopAsyncIteration
        event, self._held = self._held or await self._next(), None
        self._over = not isinstance(event, Output)
        return event

    async def _next(self) -> Event:
        timeout = asyncio.timeout(self._end_s - time.monotonic())
        try:
            async with timeout:
                return await anext(self._source)
        except StopAsyncIteration:
            return Failed(code=ErrorCode.ENGINE, text="the service ended the request without saying how; try again")
        except TimeoutError:
            if not timeout.expired():
                raise
            return late()


@asynccontextmanager
async def submitted(service: Service, request: Request) -> AsyncIterator[Events]:
    """Submits, gives the events, and cancels at the end of the block; Overloaded, or Turned (504)."""
    end_s = time.monotonic() + request.deadline_s + _GRACE_S
    try:
        async with asyncio.timeout(request.deadline_s + _GRACE_S):
            ticket = await service.submit(request)
    except TimeoutError:
        raise Turned(problem_of_failed(late())) from None
    del request  # its parts may be large, and the runtime has them now
    try:
        yield Events(ticket, end_s)
    finally:
        ticket.cancel()


def late() -> Failed:
    """The door's own verdict on a request that has outlived its deadline."""
    return Failed(code=ErrorCode.DEADLINE, text="the answer took longer than the deadline; ask for less, or try later")


class Wire:
    """A chunked answer. Nothing is on the wire before `open`, so errors until then have their status."""

    __slots__ = ("_config", "_request", "_response", "_writer")

    def __init__(self, request: web.Request, config: DoorConfig) -> None:
        self._request = request
        self._config = config
        self._response: web.StreamResponse | None = None
        self._writer: AbstractStreamWriter | None = None

    async def open(self, content_type: str) -> web.StreamResponse:
        """Sends the head of the answer."""
        headers = {"Content-Type": content_type, "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        response = web.StreamResponse(headers=headers)
        transport = self._request.transport
        if transport is None:
            raise ConnectionResetError("the client has left")
        transport.set_write_buffer_limits(high=self._config.write_buffer_bytes)
        self._writer = await response.prepare(self._request)
        self._request[EXCHANGE].answer = response
        self._response = response
        return response

    async def send(self, data: bytes) -> None:
        """Writes, and waits until the client has taken nearly all of it; StalledError."""
        if self._writer is None:
            raise RuntimeError("send before open")
        if not data:
            return
        try:
            async with asyncio.timeout(self._config.stall_s_max):
                await self._writer.write(data)
                await self._writer.drain()
        except TimeoutError:
            self.cut()
            raise StalledError from None

    async def event(self, json: bytes) -> None:
        """One server-sent event."""
        await self.send(b"data: " + json + b"\n\n")

    async def error(self, problem: Problem) -> None:
        """The last event of a stream that failed."""
        await self.event(problem_json(problem))

    async def close(self) -> None:
        """Ends the answer."""
        if self._response is not None:
            await self._response.write_eof()

    def cut(self) -> None:
        """Ends the connection in the middle of the answer, which is how a client sees that it is not whole."""
        transport = self._request.transport
        if transport is not None:
            transport.abort()


async def gather(events: Events, exchange: Exchange, *, bytes_max: int) -> tuple[Done, Mapping[str, bytearray]]:
    """All output until the end, joined by edge; Turned if the request fails or the output outgrows `bytes_max`."""
    joined: dict[str, bytearray] = {}
    size = 0
    async for event in events:
        match event:
            case Output():
                exchange.saw(event.edge)
                size += len(event.data)
                if size > bytes_max:
                    raise Turned(_outgrown(bytes_max))
                joined.setdefault(event.edge, bytearray()).extend(event.data)
            case Done():
                return event, joined
            case Failed():
                raise Turned(problem_of_failed(event))
    raise RuntimeError("events ended without Done or Failed")


def _outgrown(bytes_max: int) -> Problem:
    return Problem(
        status=500,
        kind="server_error",
        code="answer_too_large",
        text=f"the answer outgrew the {bytes_max >> 20} MiB kept for it; ask with stream: true, or for fewer tokens",
        outcome=Outcome.FAILED,
    )
