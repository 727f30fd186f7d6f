"""Binding and closing: taken ports, free ports, open requests at the end."""

import asyncio
import socket
import time
from contextlib import AsyncExitStack

import aiohttp
import pytest

from accord.serve.config import DoorConfig
from accord.serve.server import serve
from accord.terms.errors import BrokenEdge
from tests.serve.conftest import MODEL, chat_body, until
from tests.serve.fake_service import FakeService, Script, Wait, text


async def test_a_taken_port_names_itself_and_the_way_out(service):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        with pytest.raises(BrokenEdge, match=rf"{port}: already taken.*--port 0"):
            async with serve(service, DoorConfig(model=MODEL, port=port)):
                pass


@pytest.mark.parametrize("host", ["no.such.host.invalid", "192.0.2.1"])
async def test_an_address_that_is_not_ours(service, host):
    with pytest.raises(BrokenEdge, match="serving"):
        async with serve(service, DoorConfig(model=MODEL, host=host, port=0)):
            pass


async def test_port_0_picks_a_free_one_and_the_same_port_can_be_had_again(service, http):
    async with serve(service, DoorConfig(model=MODEL, port=0)) as bound:
        assert bound.port > 0
        async with http.get(bound.url + "/healthz") as answer:
            assert answer.status == 200
    with pytest.raises(aiohttp.ClientConnectorError):
        await http.get(bound.url + "/healthz")
    async with serve(service, DoorConfig(model=MODEL, port=bound.port)) as again:
        assert again.port == bound.port


async def test_closing_lets_short_requests_end_and_cancels_long_ones():
    scripts = iter(
        (
            Script(steps=(*text("a"), Wait(seconds=0.3), *text("b"))),
            Script(steps=(*text("a"), Wait(seconds=600.0))),
            Script(steps=(Wait(seconds=600.0),)),
        )
    )
    service = FakeService(lambda _request: next(scripts))
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(aiohttp.ClientSession())
        door = AsyncExitStack()
        bound = await door.enter_async_context(serve(service, DoorConfig(model=MODEL, port=0, close_s_max=0.8)))
        url = bound.url + "/v1/chat/completions"
        short = await http.post(url, json=chat_body(stream=True))
        long = await http.post(url, json=chat_body(stream=True))
        whole = asyncio.ensure_future(http.post(url, json=chat_body()))
        status = await http.get(bound.url + "/status/stream?interval=60")
        await until(lambda: len(service.tickets) == 3)
        started_s = time.monotonic()
        await door.aclose()
        # A generous bound: it says that closing doesn't wait for 600 s, not how fast it is.
        assert time.monotonic() - started_s < 30
        assert b"[DONE]" in await short.read()
        await status.read()
        with pytest.raises(aiohttp.ClientPayloadError):
            await long.read()
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await whole
        assert [ticket.cancelled for ticket in service.tickets] == [False, True, True]
        for answer in (short, long, status):
            answer.close()


async def test_a_closing_door_takes_nothing_new(service):
    service.script = Script(steps=(*text("a"), Wait(seconds=600.0)))
    door = AsyncExitStack()
    bound = await door.enter_async_context(serve(service, DoorConfig(model=MODEL, port=0, close_s_max=1.0)))
    async with aiohttp.ClientSession() as http:
        held = await http.post(bound.url + "/v1/chat/completions", json=chat_body(stream=True))
        async with http.get(bound.url + "/v1/models") as answer:  # leaves a connection that is kept alive
            assert answer.status == 200
        closing = asyncio.ensure_future(door.aclose())
        await asyncio.sleep(0.1)
        async with http.get(bound.url + "/v1/models") as answer:
            assert answer.status == 503
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(bound.host, bound.port)
        await closing
        held.close()
    assert service.tickets[0].cancelled


async def test_connections_are_bounded(service):
    async with serve(service, DoorConfig(model=MODEL, port=0, connections_max=3)) as bound:
        held = [await asyncio.open_connection(bound.host, bound.port) for _ in range(3)]
        await asyncio.sleep(0.05)
        reader, writer = await asyncio.open_connection(bound.host, bound.port)
        async with asyncio.timeout(5):
            assert b" 503 " in await reader.readline()
        writer.close()
        for _, other in held:
            other.close()


async def test_the_block_s_own_error_comes_through(service):
    with pytest.raises(ZeroDivisionError):
        async with serve(service, DoorConfig(model=MODEL, port=0)):
            raise ZeroDivisionError
