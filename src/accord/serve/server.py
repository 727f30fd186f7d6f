"""Binds the door to a port, and closes it.

In: a `Service` and a `DoorConfig`. Out: a `Bound` door that answers until the block ends. Invariant:
once the block has ended, no connection, task or socket of the door is left, whatever clients do.
"""

import asyncio
import errno
import socket
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import BadContentDispositionHeader, BadContentDispositionParam, web

from accord.run.ports import Service
from accord.serve.app import make_app
from accord.serve.config import DoorConfig
from accord.serve.door import DOOR, Door
from accord.terms.errors import BrokenEdge

_BACKLOG = 512
_LAST_WORDS_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """Where the door is. `port` is the real one, also where 0 was asked for."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """The address to open, without a slash at its end."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


@asynccontextmanager
async def serve(service: Service, config: DoorConfig) -> AsyncIterator[Bound]:
    """Serves inside the block; BrokenEdge if the address can't be had.

    At the end it stops accepting, lets open requests go on for `close_s_max`, then cancels them.
    """
    _hush()
    listener = await _listen(config)
    app = make_app(service, config)
    runner = web.AppRunner(
        app,
        access_log=None,
        handler_cancellation=True,
        auto_decompress=False,
        keepalive_timeout=config.keepalive_s,
        shutdown_timeout=_LAST_WORDS_S,
    )
    try:
        await runner.setup()
        server = await _start(runner, listener, config)
        try:
            yield Bound(host=config.host, port=listener.getsockname()[1])
        finally:
            server.close()
            await _finish(app[DOOR], config.close_s_max)
    finally:
        await runner.cleanup()
        listener.close()


def _hush() -> None:
    """Lets a broken form be an answer to its sender and nothing else.

    aiohttp also warns of it, and Python keeps every distinct warning: a way for strangers to fill memory.
    """
    for category in (BadContentDispositionHeader, BadContentDispositionParam):
        warnings.filterwarnings("ignore", category=category)


async def _listen(config: DoorConfig) -> socket.socket:
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(
            config.host.strip("[]"), config.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (OSError, OverflowError, UnicodeError) as error:
        raise BrokenEdge(f"serving.host: {config.host!r}: no such address ({error}); use 127.0.0.1") from None
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Accepted connections inherit this: what a stalled client can make the kernel hold.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, config.send_buffer_bytes)
        listener.bind(address)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise _unbound(config, error) from None
    return listener


def _unbound(config: DoorConfig, error: OSError) -> BrokenEdge:
    where = f"serving.port: {config.port}"
    match error.errno:
        case errno.EADDRINUSE:
            return BrokenEdge(
                f"{where}: already taken on {config.host}; stop what holds it, or pass --port 0 for a free one"
            )
        case errno.EACCES:
            return BrokenEdge(f"{where}: this user may not bind it; choose a port above 1023, or pass --port 0")
        case _:
            return BrokenEdge(
                f"{where}: can't be bound on {config.host}: {error.strerror}; choose another host or port"
            )


async def _start(runner: web.AppRunner, listener: socket.socket, config: DoorConfig) -> asyncio.Server:
    serving = runner.server
    if serving is None:
        raise RuntimeError("the runner has not been set up")

    def protocol() -> asyncio.Protocol:
        return _Full() if len(serving.connections) >= config.connections_max else serving()

    return await asyncio.get_running_loop().create_server(protocol, sock=listener, backlog=_BACKLOG)


async def _finish(door: Door, seconds_max: float) -> None:
    """Lets open requests end, then cancels those that don't."""
    door.closing.set()
    mine = asyncio.current_task()
    waiting = {task for task in door.tasks if task is not mine}
    if waiting:
        _, waiting = await asyncio.wait(waiting, timeout=seconds_max)
    for task in waiting:
        task.cancel()
    if waiting:
        await asyncio.wait(waiting, timeout=_LAST_WORDS_S)


class _Full(asyncio.Protocol):
    """Answers a connection over the limit, and closes it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.WriteTransport):
            transport.write(
                b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
            )
            transport.close()
