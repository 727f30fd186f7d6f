"""POST /v1/chat/completions.

In: a chat with text, audio and pictures. Out: text, or text and sound, whole or streamed. Invariant:
text and sound go to the client in the order in which the runtime gives them, each as soon as it is there.
"""

import asyncio
import codecs
from functools import partial

from aiohttp import web

from accord.serve import chat_reply
from accord.serve.bodies import Lease, read_json_body
from accord.serve.chat_request import ChatStyle, build_chat, read_chat_body, style_of, urls_of
from accord.serve.door import DOOR, EXCHANGE, Door
from accord.serve.fetch import fetch_pictures
from accord.serve.metrics import Exchange
from accord.serve.problems import problem_of_failed
from accord.serve.relay import Events, Wire, gather, submitted
from accord.serve.sound import SoundFormat, encode_whole, make_encoder
from accord.terms.request import Done, Event, Failed, Output, Request

# Bodies above this are parsed in a thread, so that the loop stays free for others.
_INLINE_BYTES_MAX = 32 << 10
# One event carries at most this much sound: one second.
_SOUND_BYTES_MAX = 48_000


async def chat(request: web.Request) -> web.StreamResponse:
    """The handler."""
    door, exchange = request.app[DOOR], request[EXCHANGE]
    with door.bodies.lease() as lease:
        raw = await read_json_body(request, lease, door.config)
        style, ready = await _read(door, raw, lease)
        del raw
        async with submitted(door.service, ready) as events:
            # The runtime owns the parts from here on; nothing of the body stays behind.
            del ready
            lease.give_back()
            if style.stream:
                return await _stream(request, style, events)
            return await _whole(door, exchange, style, events)


async def _read(door: Door, raw: bytes, lease: Lease) -> tuple[ChatStyle, Request]:
    """Parses and checks. What may take long, or wakes a library, happens in a thread."""
    light = len(raw) <= _INLINE_BYTES_MAX and b"input_audio" not in raw and b"image_url" not in raw
    body = read_chat_body(raw, door.config) if light else await asyncio.to_thread(read_chat_body, raw, door.config)
    style = style_of(body, door.graph)
    urls = urls_of(body)
    fetched = await fetch_pictures(urls, door.config, lease.grow) if urls else {}
    build = partial(build_chat, body, door.graph, door.config, with_sound=style.sound is not None, fetched=fetched)
    return style, build() if light else await asyncio.to_thread(build)


async def _whole(door: Door, exchange: Exchange, style: ChatStyle, events: Events) -> web.Response:
    done, joined = await gather(events, exchange, bytes_max=door.config.reply_bytes_max)
    text = joined.get("text", bytearray()).decode("utf-8", "replace")
    sound = None
    if style.sound is not None:
        sound = await asyncio.to_thread(encode_whole, bytes(joined.get("speech", b"")), style.sound)
    body = chat_reply.completion(model=door.config.model, text=text, sound=sound, usage=done.usage)
    return web.Response(body=body, content_type="application/json")


async def _stream(request: web.Request, style: ChatStyle, events: Events) -> web.StreamResponse:
    door, exchange = request.app[DOOR], request[EXCHANGE]
    relay = _Relay(wire=Wire(request, door.config), exchange=exchange, style=style, model=door.config.model)
    await events.settle()
    response = await relay.open()
    async for event in events:
        await relay.take(event)
    await relay.close()
    return response


class _Relay:
    """Turns the events of one chat into chunks on the wire."""

    def __init__(self, *, wire: Wire, exchange: Exchange, style: ChatStyle, model: str) -> None:
        self._wire = wire
        self._exchange = exchange
        self._include_usage = style.include_usage
        self._chunks = chat_reply.ChunkWriter(
            model=model, with_sound=style.sound is not None, include_usage=style.include_usage
        )
        self._encoder = None if style.sound is None else make_encoder(style.sound)
        self._slow_encoder = style.sound not in (SoundFormat.PCM, SoundFormat.WAV)
        self._text = codecs.getincrementaldecoder("utf-8")("replace")

    async def open(self) -> web.StreamResponse:
        response = await self._wire.open("text/event-stream; charset=utf-8")
        await self._wire.event(self._chunks.role())
        return response

    async def take(self, event: Event) -> None:
        match event:
            case Output(edge="speech"):
                self._exchange.saw(event.edge)
                await self._send_sound(event.data)
            case Output():
                self._exchange.saw(event.edge)
                await self._send_text(self._text.decode(event.data))
            case Done():
                await self._finish(event)
            case Failed():
                problem = problem_of_failed(event)
                self._exchange.outcome = problem.outcome
                await self._wire.error(problem)

    async def close(self) -> None:
        await self._wire.close()

    async def _send_text(self, text: str) -> None:
        if text:
            await self._wire.event(self._chunks.text(text))

    async def _send_sound(self, pcm: bytes) -> None:
        if self._encoder is None:
            return
        data = await asyncio.to_thread(self._encoder.feed, pcm) if self._slow_encoder else self._encoder.feed(pcm)
        await self._send_encoded(data)

    async def _send_encoded(self, data: bytes) -> None:
        for start in range(0, len(data), _SOUND_BYTES_MAX):
            await self._wire.event(self._chunks.sound(data[start : start + _SOUND_BYTES_MAX]))

    async def _finish(self, done: Done) -> None:
        await self._send_text(self._text.decode(b"", final=True))
        if self._encoder is not None:
            await self._send_encoded(await asyncio.to_thread(self._encoder.finish))
            await self._wire.event(self._chunks.sound_end())
        await self._wire.event(self._chunks.finish(done.usage))
        if self._include_usage:
            await self._wire.event(self._chunks.usage(done.usage))
        await self._wire.send(b"data: [DONE]\n\n")
