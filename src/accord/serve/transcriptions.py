"""POST /v1/audio/transcriptions.

In: a form with an audio file. Out: its text, as JSON, plain text, or a stream of deltas. Invariant: the
file is judged by its header before the recognizer sees it.
"""

import asyncio
import codecs
from collections.abc import AsyncIterator
from typing import Annotated, Literal

import msgspec
from aiohttp import BodyPartReader, web
from aiohttp.http_exceptions import HttpProcessingError
from msgspec import Meta

from accord.serve.bodies import Lease, body_deadline, check_framing
from accord.serve.chat_request import require_output, target
from accord.serve.config import DoorConfig
from accord.serve.door import DOOR, EXCHANGE, Door
from accord.serve.media import check_audio
from accord.serve.parse import convert_form
from accord.serve.problems import Turned, problem_of_failed, refused, utf8, wrong_model
from accord.serve.relay import Events, Wire, gather, submitted
from accord.terms.errors import BadInput
from accord.terms.request import Done, Failed, Output, Params, Part, Request

_FIELDS_MAX = 32
_FIELD_BYTES_MAX = 64 << 10
# What aiohttp's reader of forms was seen or is documented to raise over a broken one.
_BROKEN_FORM = (HttpProcessingError, ValueError, AssertionError, LookupError, EOFError, RuntimeError)


class Form(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The fields beside `file`. `prompt` and `chunking_strategy` are hints: taken and not used."""

    model: str
    language: str | None = None
    prompt: str | None = None
    response_format: Literal["json", "text"] = "json"
    temperature: Annotated[float, Meta(ge=0, le=1)] = 0.0
    stream: bool = False
    chunking_strategy: str | None = None


class _Seconds(msgspec.Struct, frozen=True, kw_only=True):
    seconds: float
    type: str = "duration"


class _Transcription(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    usage: _Seconds


class _Delta(msgspec.Struct, frozen=True, kw_only=True):
    delta: str
    type: str = "transcript.text.delta"


class _End(msgspec.Struct, frozen=True, kw_only=True):
    text: str  # no usage: OpenAI's event knows only tokens, and sound is counted in seconds
    type: str = "transcript.text.done"


async def transcribe(request: web.Request) -> web.StreamResponse:
    """The handler."""
    door, exchange = request.app[DOOR], request[EXCHANGE]
    with door.bodies.lease() as lease:
        fields, file = await read_form(request, lease, door.config)
        form = convert_form(fields, Form)
        length_s = await _judge(door, form, file)
        ready = Request(
            parts=(Part(edge="audio", data=file),),
            outputs=frozenset({"transcript"}),
            params=Params(temperature=form.temperature, max_tokens=door.config.tokens_max),
            deadline_s=door.config.deadline_s,
        )
        del file
        async with submitted(door.service, ready) as events:
            del ready
            lease.give_back()
            if form.stream:
                return await _stream(request, events)
            done, joined = await gather(events, exchange, bytes_max=door.config.reply_bytes_max)
            text = joined.get("transcript", bytearray()).decode("utf-8", "replace")
            return _answer(form, text, done.usage.audio_s or length_s)


async def read_form(request: web.Request, lease: Lease, config: DoorConfig) -> tuple[dict[str, str], bytes]:
    """The fields and the bytes of `file` of a multipart form; Turned or BadInput."""
    if request.content_type != "multipart/form-data":
        text = f"Content-Type: {request.content_type!r}: this endpoint reads a form; send multipart/form-data"
        raise Turned(refused(415, "unsupported_media_type", text))
    check_framing(request, config)
    fields: dict[str, str] = {}
    file: bytes | None = None
    async with body_deadline(config):
        async for name, data in _parts(request, lease):
            if name == "file":
                file = data
            elif name in fields or len(fields) >= _FIELDS_MAX or len(data) > _FIELD_BYTES_MAX:
                raise BadInput(
                    field=name, value=f"{len(data)} bytes", problem="sent twice, or too much", fix="send it once"
                )
            else:
                fields[name] = _text(name, data)
    if not file:
        raise BadInput(
            field="file", value="(absent)", problem="no audio was sent", fix="send a file in the field `file`"
        )
    return fields, file


async def _parts(request: web.Request, lease: Lease) -> AsyncIterator[tuple[str, bytes]]:
    try:
        reader = await request.multipart()
        while (part := await reader.next()) is not None:
            if not isinstance(part, BodyPartReader) or not part.name:
                raise BadInput(field="body", value="(a part)", problem="it has no field name", fix="name every part")
            data = bytearray()
            while piece := await part.read_chunk(1 << 16):
                lease.grow(len(piece))
                data += piece
            yield utf8(part.name[:80]), bytes(data)
    except _BROKEN_FORM as error:
        raise BadInput(
            field="body",
            value="(the form)",
            problem=f"not a readable form: {str(error)[:80]}",
            fix="check its boundaries",
        ) from None


def _text(name: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise BadInput(field=name, value=data[:20].hex(" "), problem="not UTF-8", fix="send text") from None


async def _judge(door: Door, form: Form, file: bytes) -> float:
    """BadInput or Turned; the file's length in seconds."""
    config = door.config
    if form.model != config.model:
        raise Turned(wrong_model(form.model, config.model))
    target(door.graph, "audio", "file", "audio")
    require_output(door.graph, "transcript", "model")
    if form.language and form.language.lower() not in config.languages:
        raise BadInput(
            field="language",
            value=form.language,
            problem="this model doesn't hear it",
            fix=f"use one of {', '.join(config.languages)}, or leave it out",
        )
    if form.stream and form.response_format != "json":
        raise BadInput(
            field="response_format",
            value=form.response_format,
            problem="a stream is JSON",
            fix="use json, or stream=false",
        )
    return await asyncio.to_thread(check_audio, file, field="file", kind=None, config=config)


def _answer(form: Form, text: str, length_s: float) -> web.Response:
    if form.response_format == "text":
        return web.Response(text=text + "\n", content_type="text/plain")
    body = msgspec.json.encode(_Transcription(text=text, usage=_Seconds(seconds=length_s)))
    return web.Response(body=body, content_type="application/json")


async def _stream(request: web.Request, events: Events) -> web.StreamResponse:
    exchange = request[EXCHANGE]
    wire = Wire(request, request.app[DOOR].config)
    await events.settle()
    response = await wire.open("text/event-stream; charset=utf-8")
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    pieces: list[str] = []
    async for event in events:
        match event:
            case Output():
                exchange.saw(event.edge)
                pieces.append(decoder.decode(event.data))
                if pieces[-1]:
                    await wire.event(msgspec.json.encode(_Delta(delta=pieces[-1])))
            case Done():
                await wire.event(msgspec.json.encode(_End(text="".join(pieces))))
            case Failed():
                problem = problem_of_failed(event)
                exchange.outcome = problem.outcome
                await wire.error(problem)
    await wire.close()
    return response
