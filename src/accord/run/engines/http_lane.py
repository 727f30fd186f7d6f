"""Chat completions over HTTP in a background thread, beside an engine that is stepped.

In: request bodies. Out: a `Flow` for each, from which the engine's thread takes text and the ending.
Invariant: a full flow's socket isn't read, so that a consumer without credit holds back the server.
Cancelling a flow closes its connection.
"""

import asyncio
import os
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass

import aiohttp

from accord.run.engines.http_flow import Broken, Flow
from accord.run.engines.sse import ChatStream, Finished, Text, excerpt
from accord.terms.errors import BrokenEdge
from accord.terms.request import ErrorCode, Usage

_SOCKET_BYTES = 32 << 10
_EXCERPT_BYTES_MAX = 2048
_CLIENT_FAULTS = frozenset({400, 413, 422})


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Where and how. `url` is the API's root, with its `/v1`. `api_key` may be empty."""

    url: str
    api_key: str
    connect_s: float
    read_s: float


class Lane:
    """The thread and its event loop. All methods are for the engine's thread."""

    def __init__(self, server: Server, name: str) -> None:
        self._server = server
        self._wake_out, self._wake_in = os.pipe()
        os.set_blocking(self._wake_out, False)
        os.set_blocking(self._wake_in, False)
        self._loop = asyncio.new_event_loop()
        self._session: aiohttp.ClientSession | None = None
        self._bug: BaseException | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"{name}-http", daemon=True)
        self._thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(server.connect_s + server.read_s + 1)
        except BaseException:
            self.close()
            raise

    def wake_fd(self) -> int:
        """Readable when a flow has news."""
        return self._wake_out

    def drain(self) -> None:
        """Empties the wake-up pipe; call it before looking at flows. Raises what broke the lane."""
        with suppress(BlockingIOError):
            while os.read(self._wake_out, 4096):
                pass
        if self._bug is not None:
            raise BrokenEdge(f"the HTTP thread broke: {self._bug!r}") from self._bug

    def start(self, body: bytes) -> Flow:
        """Posts the body."""
        flow = Flow()
        self._loop.call_soon_threadsafe(self._spawn, flow, body)
        return flow

    def resume(self, flow: Flow) -> None:
        """Lets a full flow read on."""
        self._loop.call_soon_threadsafe(flow.reopen)

    def cancel(self, flow: Flow) -> None:
        """Closes the flow's connection, soon."""
        self._loop.call_soon_threadsafe(self._cancel, flow)

    def close(self) -> None:
        """Ends the thread and every connection."""
        if self._loop.is_closed():
            return
        asyncio.run_coroutine_threadsafe(self._shut(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
        os.close(self._wake_out)
        os.close(self._wake_in)

    def _wake(self) -> None:
        with suppress(BlockingIOError):  # a pipe full of wake-ups wakes as well
            os.write(self._wake_in, b"!")

    def _spawn(self, flow: Flow, body: bytes) -> None:
        if not flow.cancelled:
            flow.task = self._loop.create_task(self._run(flow, body))
            flow.task.add_done_callback(self._look)

    def _look(self, task: asyncio.Task[None]) -> None:
        """An exception that `_run` doesn't know is a bug of ours: the engine's next step raises it."""
        if not task.cancelled() and task.exception() is not None:
            self._bug = task.exception()
            self._wake()

    def _cancel(self, flow: Flow) -> None:
        flow.cancelled = True
        if flow.task is not None:
            flow.task.cancel()

    async def _open(self) -> None:
        """Opens the session and asks the server for its models, so that a wrong address is told at once."""
        server = self._server
        # A connection serves one request: a kept one may be closed by the server in the moment of a POST,
        # which can't be told from a failure of the request. Small socket buffers let back-pressure through.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(force_close=True, limit=0, socket_factory=_small_socket),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=server.connect_s),
            headers={"Authorization": f"Bearer {server.api_key}"} if server.api_key else None,
            read_bufsize=_SOCKET_BYTES,
        )
        try:
            async with (
                asyncio.timeout(server.connect_s + server.read_s),
                self._session.get(f"{server.url}/models", allow_redirects=False) as response,
            ):
                status = response.status
        except (aiohttp.ClientError, TimeoutError) as error:
            raise BrokenEdge(
                f"options.base_url: {server.url}: no answer from the server ({_words(error)}); "
                "start it, or correct the address"
            ) from error
        if status in {401, 403}:
            raise BrokenEdge(
                f"options.api_key_env: {server.url} refused the key with HTTP {status}; put a valid key there"
            )

    async def _shut(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    async def _run(self, flow: Flow, body: bytes) -> None:
        try:
            flow.end(await self._converse(flow, body))
        except BrokenEdge as error:
            flow.end(Broken(code=ErrorCode.ENGINE, text=f"{self._server.url}: {error}"))
        except aiohttp.ClientError as error:
            text = f"{self._server.url}: the connection failed: {_words(error)}"
            flow.end(Broken(code=ErrorCode.ENGINE, text=text))
        except TimeoutError:
            text = f"{self._server.url}: the server was silent for {self._server.read_s:g} s"
            flow.end(Broken(code=ErrorCode.ENGINE, text=text))
        self._wake()

    async def _converse(self, flow: Flow, body: bytes) -> Usage | Broken:
        assert self._session is not None
        post = self._session.post(
            f"{self._server.url}/chat/completions",
            data=body,
            headers={"Content-Type": "application/json", "Accept": "text/event-stream"},
            allow_redirects=False,
        )
        async with asyncio.timeout(self._server.connect_s + self._server.read_s):
            response = await post
        try:
            if response.status != 200:
                return await self._refused(response)
            if response.content_type != "text/event-stream":
                head = await self._read(response)
                raise BrokenEdge(f"the server answered {response.content_type}, not an event stream: {excerpt(head)}")
            return await self._listen(flow, response)
        finally:
            response.close()

    async def _refused(self, response: aiohttp.ClientResponse) -> Broken:
        code = ErrorCode.BAD_INPUT if response.status in _CLIENT_FAULTS else ErrorCode.ENGINE
        body = await self._read(response)
        return Broken(code=code, text=f"{self._server.url}: HTTP {response.status}: {excerpt(body)}")

    async def _listen(self, flow: Flow, response: aiohttp.ClientResponse) -> Usage:
        stream = ChatStream()
        while True:
            await flow.room.wait()
            # The deadline runs only while we are willing to read: a held-back server isn't a silent one.
            async with asyncio.timeout(self._server.read_s):
                data = await response.content.readany()
            if not data:
                stream.end()
            for piece in stream.feed(data):
                match piece:
                    case Text():
                        flow.put(piece.data)
                        self._wake()
                    case Finished():
                        return piece.usage

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        async with asyncio.timeout(self._server.read_s):
            return await response.content.read(_EXCERPT_BYTES_MAX)


def _small_socket(
    address: tuple[int | socket.AddressFamily, int | socket.SocketKind, int, str, tuple[object, ...]],
) -> socket.socket:
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SOCKET_BYTES)
    return made


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__
