"""An HTTP server that misbehaves on request: the model's name says how.

In: chat completion requests. Out: what `HABITS` says, and a record of what was asked and sent.
Invariant: it lives on its own thread and loopback port, and ends with the `with` block.
"""

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from aiohttp import web

KEY = "sesame"


class OddServer:
    """What tests look at. `closed` is set when the client of an endless answer has gone."""

    def __init__(self) -> None:
        self.url = ""
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.sent_bytes = 0
        self.closed = threading.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.bodies.append(body)
        self.keys.append(request.headers.get("Authorization"))
        return await HABITS[body["model"]](self, request)


def delta(text: str, **more: object) -> bytes:
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": text}, **more}]}).encode() + b"\n\n"


FINISH = b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\n'
COUNTS = b'data: {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}\n\n'
DONE = b"data: [DONE]\n\n"

Habit = Callable[[OddServer, web.Request], Awaitable[web.StreamResponse]]


async def _stream(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    await response.prepare(request)
    return response


def _says(*pieces: bytes) -> Habit:
    async def habit(_: OddServer, request: web.Request) -> web.StreamResponse:
        response = await _stream(request)
        for piece in pieces:
            await response.write(piece)
            await asyncio.sleep(0.002)
        return response

    return habit


def _answers(status: int, text: str, content_type: str = "text/plain") -> Habit:
    async def habit(_: OddServer, __: web.Request) -> web.StreamResponse:
        return web.Response(status=status, text=text, content_type=content_type)

    return habit


async def _moves(_: OddServer, __: web.Request) -> web.StreamResponse:
    return web.Response(status=307, headers={"Location": "http://192.0.2.1/"})


async def _mute(_: OddServer, __: web.Request) -> web.StreamResponse:
    await asyncio.sleep(60)
    raise AssertionError("nobody hung up on the mute server")


async def _trails_off(_: OddServer, request: web.Request) -> web.StreamResponse:
    response = await _stream(request)
    await response.write(delta("well"))
    await asyncio.sleep(60)
    return response


async def _dies(_: OddServer, request: web.Request) -> web.StreamResponse:
    response = await _stream(request)
    await response.write(delta("well"))
    assert request.transport is not None
    request.transport.abort()
    return response


async def _endless(server: OddServer, request: web.Request) -> web.StreamResponse:
    response = await _stream(request)
    piece = delta("na " * 300)
    try:
        while True:
            await response.write(piece)
            server.sent_bytes += len(piece)
    except (ConnectionError, asyncio.CancelledError):
        server.closed.set()
        raise


_WHOLE = delta("na") + delta("ïve") + FINISH + COUNTS + DONE

HABITS: dict[str, Habit] = {
    "good": _says(delta("na"), delta("ïve"), FINISH, COUNTS, DONE),
    "crumbs": _says(*(_WHOLE.replace(b"\n", b"\r\n")[at : at + 1] for at in range(len(_WHOLE) + _WHOLE.count(b"\n")))),
    "pings": _says(b": ping\n\n", b"event: message\nid: 1\nretry: 5\n", _WHOLE),
    "uncounted": _says(delta("naïve"), FINISH, DONE),
    "talks-on": _says(_WHOLE, delta("and more")),
    "400": _answers(400, '{"error": {"message": "prompt too long"}}', "application/json"),
    "413": _answers(413, "too large"),
    "422": _answers(422, "temperature: must be finite"),
    "401": _answers(401, "bad key"),
    "404": _answers(404, "no such model"),
    "429": _answers(429, "later"),
    "500": _answers(500, "x" * 100_000),
    "moved": _moves,
    "html": _answers(200, "<html>A login page</html>", "text/html"),
    "whole-json": _answers(200, '{"choices": []}', "application/json"),
    "mute": _mute,
    "trails-off": _trails_off,
    "dies": _dies,
    "garbage": _says(delta("na"), b"Segmentation fault\n\n"),
    "bad-json": _says(delta("na"), b"data: {oops\n\n"),
    "bad-type": _says(b'data: {"choices": "none"}\n\n'),
    "bad-utf8": _says(b'data: {"choices": [{"delta": {"content": "\xff"}}]}\n\n'),
    "no-done": _says(delta("na"), FINISH, COUNTS),
    "empty": _says(),
    "no-reason": _says(delta("na"), DONE),
    "aborts": _says(delta("na", finish_reason="abort"), DONE),
    "error-event": _says(delta("na"), b'data: {"error": {"message": "out of blocks", "code": 500}}\n\n'),
    "error-field": _says(delta("na"), b'error: {"message": "out of blocks"}\n\n'),
    "long-line": _says(b"data: " + b"x" * (2 << 20)),
    "endless": _endless,
}


async def _models(request: web.Request) -> web.StreamResponse:
    if request.headers.get("Authorization") not in {None, f"Bearer {KEY}"}:
        return web.Response(status=401, text="bad key")
    return web.json_response({"object": "list", "data": []})


@contextmanager
def odd_server() -> Iterator[OddServer]:
    """Runs one on a free loopback port."""
    server = OddServer()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="odd-server")
    thread.start()

    async def start() -> web.AppRunner:
        app = web.Application()
        app.router.add_get("/v1/models", _models)
        app.router.add_post("/v1/chat/completions", server.answer)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        server.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        return runner

    try:
        runner = asyncio.run_coroutine_threadsafe(start(), loop).result(10)
        try:
            yield server
        finally:
            with suppress(TimeoutError):
                asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(10)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
