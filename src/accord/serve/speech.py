"""POST /v1/audio/speech.

In: a text. Out: it spoken, as a file that is sent while it is made where its format allows. Invariant:
a file that can't be finished is cut off in the middle of a chunk, so that no client takes it for whole.
"""

import asyncio
import base64
from typing import Annotated, Literal

import msgspec
from aiohttp import web
from msgspec import Meta

from accord.serve.bodies import read_json_body
from accord.serve.chat_body import VoiceId
from accord.serve.chat_request import require_output, target
from accord.serve.door import DOOR, EXCHANGE, Door
from accord.serve.parse import decode_json
from accord.serve.problems import Turned, problem_of_failed, wrong_model
from accord.serve.relay import Events, Wire, gather, submitted
from accord.serve.sound import SoundFormat, check_voice, encode_whole, flows, format_named, make_encoder, media_type
from accord.terms.errors import BadInput
from accord.terms.graph import StageGraph
from accord.terms.request import Done, Failed, Output, Params, Part, Request, Usage


class SpeechBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The body. `response_format` defaults to mp3, as OpenAI's does."""

    model: str
    input: str
    voice: str | VoiceId = "default"
    instructions: str | None = None
    response_format: Literal["mp3", "opus", "aac", "flac", "wav", "pcm"] = "mp3"
    speed: Annotated[float, Meta(ge=0.25, le=4.0)] = 1.0
    stream_format: Literal["audio", "sse"] = "audio"


class _Delta(msgspec.Struct, frozen=True, kw_only=True):
    audio: str
    type: str = "speech.audio.delta"


class _Tokens(msgspec.Struct, frozen=True, kw_only=True):
    input_tokens: int
    output_tokens: int
    total_tokens: int


class _End(msgspec.Struct, frozen=True, kw_only=True):
    usage: _Tokens
    type: str = "speech.audio.done"


async def speak(request: web.Request) -> web.StreamResponse:
    """The handler."""
    door = request.app[DOOR]
    with door.bodies.lease() as lease:
        body = decode_json(await read_json_body(request, lease, door.config), SpeechBody)
        sound = _judge(door, body)
        ready = Request(
            parts=(Part(edge="say", data=body.input.encode()),),
            outputs=frozenset({"speech"}),
            params=Params(speed=body.speed),
            deadline_s=door.config.deadline_s,
        )
        async with submitted(door.service, ready) as events:
            lease.give_back()
            if flows(sound):
                return await _stream(request, events, sound, sse=body.stream_format == "sse")
            return await _whole(request, events, sound)


def _judge(door: Door, body: SpeechBody) -> SoundFormat:
    config, graph = door.config, door.graph
    if body.model != config.model:
        raise Turned(wrong_model(body.model, config.model))
    _require_voice(graph)
    if not body.input.strip() or len(body.input) > config.say_chars_max:
        raise BadInput(
            field="input",
            value=body.input,
            problem=f"{len(body.input)} characters, or only white space",
            fix=f"send 1 to {config.say_chars_max} characters",
        )
    check_voice(body.voice if isinstance(body.voice, str) else body.voice.id, field="voice")
    if body.instructions:
        raise BadInput(
            field="instructions", value=body.instructions, problem="the voice takes no directions", fix="leave it out"
        )
    sound = format_named(body.response_format, field="response_format")
    if body.stream_format == "sse" and not flows(sound):
        raise BadInput(
            field="stream_format",
            value="sse",
            problem=f"{sound.value} can't be streamed",
            fix="use response_format pcm, wav or opus",
        )
    return sound


def _require_voice(graph: StageGraph) -> None:
    target(graph, "say", "input", "text to say")
    require_output(graph, "speech", "model")


async def _whole(request: web.Request, events: Events, sound: SoundFormat) -> web.Response:
    config = request.app[DOOR].config
    _done, joined = await gather(events, request[EXCHANGE], bytes_max=config.reply_bytes_max)
    data = await asyncio.to_thread(encode_whole, bytes(joined.get("speech", b"")), sound)
    return web.Response(body=data, content_type=media_type(sound))


async def _stream(request: web.Request, events: Events, sound: SoundFormat, *, sse: bool) -> web.StreamResponse:
    exchange = request[EXCHANGE]
    wire = Wire(request, request.app[DOOR].config)
    await events.settle()
    encoder = make_encoder(sound)
    response = await wire.open("text/event-stream; charset=utf-8" if sse else media_type(sound))
    async for event in events:
        match event:
            case Output():
                exchange.saw(event.edge)
                await _send(wire, await asyncio.to_thread(encoder.feed, event.data), sse=sse)
            case Done():
                await _send(wire, await asyncio.to_thread(encoder.finish), sse=sse)
                if sse:
                    await wire.event(msgspec.json.encode(_End(usage=_tokens(event.usage))))
            case Failed():
                problem = problem_of_failed(event)
                exchange.outcome = problem.outcome
                if not sse:
                    wire.cut()
                    return response
                await wire.error(problem)
    await wire.close()
    return response


async def _send(wire: Wire, data: bytes, *, sse: bool) -> None:
    if sse and data:
        await wire.event(msgspec.json.encode(_Delta(audio=base64.b64encode(data).decode())))
    else:
        await wire.send(data)


def _tokens(usage: Usage) -> _Tokens:
    return _Tokens(
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        total_tokens=usage.prompt_tokens + usage.completion_tokens,
    )
