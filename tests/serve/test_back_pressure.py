"""A client that doesn't read stops the producer; one that leaves cancels it; the door's memory stays flat."""

import asyncio
import json
import socket

import pytest

from tests.serve.conftest import MODEL, chat_body, until
from tests.serve.fake_service import Script, Wait, sound, text


async def raw_post(bound, path, body, *, receive_bytes=4096):
    """Sends a request over a socket with a small receive buffer, and reads nothing."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, (bound.host, bound.port))
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    await asyncio.get_running_loop().sock_sendall(
        sock, f"{head}Content-Length: {len(data)}\r\nConnection: close\r\n\r\n".encode() + data
    )
    return sock


async def settled(ticket) -> int:
    """How many events the producer had made once it stopped making any."""
    before = -1
    async with asyncio.timeout(20):
        while ticket.produced != before:
            before = ticket.produced
            await asyncio.sleep(0.3)
    return before


async def drain(sock) -> int:
    loop, size = asyncio.get_running_loop(), 0
    async with asyncio.timeout(60):
        while piece := await loop.sock_recv(sock, 1 << 20):
            size += len(piece)
    return size


SPOKEN = {"modalities": ["text", "audio"], "audio": {"voice": "default", "format": "pcm16"}}


@pytest.mark.parametrize("spoken", [False, True])
async def test_a_client_that_stops_reading_stops_the_producer(open_door, service, spoken):
    size = 16_000
    steps = sound(b"\0" * size) if spoken else text("x" * size)
    service.script = Script(steps=steps, repeat=1000)
    bound = await open_door(send_buffer_bytes=16 << 10)
    sock = await raw_post(bound, "/v1/chat/completions", chat_body(stream=True, **(SPOKEN if spoken else {})))
    await until(lambda: bool(service.tickets))
    ticket = service.tickets[0]
    made = await settled(ticket)
    # 16 MB are there to be sent; what is under way fits the socket's and the door's small buffers.
    assert made * size < 256 << 10
    assert not ticket.cancelled
    # Reading on sets the producer going again, to the end.
    received = await drain(sock)
    assert received > 1000 * size
    assert ticket.produced == 1001
    sock.close()


async def test_speech_is_held_back_too(open_door, service):
    service.script = Script(steps=sound(b"\0" * 48_000), repeat=500)
    bound = await open_door(send_buffer_bytes=16 << 10)
    body = {"model": MODEL, "input": "Hi", "response_format": "wav"}
    sock = await raw_post(bound, "/v1/audio/speech", body)
    await until(lambda: bool(service.tickets))
    assert await settled(service.tickets[0]) < 20
    sock.close()
    await until(lambda: service.tickets[0].cancelled)


async def test_a_stalled_client_that_leaves_cancels(open_door, service):
    service.script = Script(steps=text("x" * 16_000), repeat=1000)
    bound = await open_door(send_buffer_bytes=16 << 10)
    sock = await raw_post(bound, "/v1/chat/completions", chat_body(stream=True))
    await until(lambda: bool(service.tickets))
    await settled(service.tickets[0])
    sock.close()
    await until(lambda: service.tickets[0].cancelled)


async def test_a_client_that_stalls_too_long_is_cut_off(open_door, service, http):
    service.script = Script(steps=text("x" * 16_000), repeat=1000)
    bound = await open_door(send_buffer_bytes=16 << 10, stall_s_max=0.3)
    sock = await raw_post(bound, "/v1/chat/completions", chat_body(stream=True))
    await until(lambda: bool(service.tickets) and service.tickets[0].cancelled)
    async with http.get(bound.url + "/metrics") as answer:
        assert 'outcome="stalled"} 1.0' in await answer.text()
    sock.close()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("queue_s", [0.0, 60.0])
async def test_a_client_that_leaves_cancels_wherever_it_stands(open_door, service, http, *, stream, queue_s):
    service.script = Script(steps=(Wait(seconds=60.0),), queue_s=queue_s)
    bound = await open_door()
    sock = await raw_post(bound, "/v1/chat/completions", chat_body(stream=stream))
    await until(lambda: bool(service.queued if queue_s else service.tickets))
    sock.close()
    await until(lambda: service.withdrawn == 1 if queue_s else service.tickets[0].cancelled)
    async with http.get(bound.url + "/metrics") as answer:
        assert 'endpoint="/v1/chat/completions",outcome="disconnected"} 1.0' in await answer.text()


async def test_a_collected_answer_is_bounded(open_door, service, http):
    service.script = Script(steps=text("x" * 1000), repeat=100)
    bound = await open_door(reply_bytes_max=10_000)
    async with http.post(bound.url + "/v1/chat/completions", json=chat_body()) as answer:
        assert answer.status == 500
        assert (await answer.json())["error"]["code"] == "answer_too_large"
    assert service.tickets[0].cancelled
    assert service.tickets[0].produced < 15


@pytest.mark.parametrize("queue_s", [0.0, 60.0])
async def test_the_door_keeps_the_deadline_if_the_service_does_not(open_door, service, http, monkeypatch, queue_s):
    monkeypatch.setattr("accord.serve.relay._GRACE_S", 0.1)
    service.script = Script(steps=(Wait(seconds=60.0),), queue_s=queue_s)
    bound = await open_door(deadline_s=0.2)
    async with http.post(bound.url + "/v1/chat/completions", json=chat_body()) as answer:
        assert answer.status == 504
        assert (await answer.json())["error"]["code"] == "deadline_exceeded"
    assert service.withdrawn if queue_s else service.tickets[0].cancelled


async def test_what_the_door_holds_of_a_body_is_given_back(open_door, service, http):
    service.script = Script(steps=(*text("a"), Wait(seconds=60.0)))
    bound = await open_door(bodies_bytes_max=40_000)
    body = chat_body(stream=True, messages=[{"role": "user", "content": "x" * 30_000}])
    # Each body nearly fills the pool, and all answers are open at once: only admission holds the pool.
    async with asyncio.timeout(10):
        answers = [await http.post(bound.url + "/v1/chat/completions", json=body) for _ in range(5)]
    assert [answer.status for answer in answers] == [200] * 5
    for answer in answers:
        answer.close()
    await until(lambda: all(ticket.cancelled for ticket in service.tickets))
