"""A chat body -> a request to the runtime.

In: `ChatBody`, the model's graph, pictures already fetched. Out: a `Request`, whose prompt refers to each
audio or picture by the stage that reads it and its number. Invariant: every part's bytes have
passed a check of its header; stage names come from the graph alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from accord.run.engines.picture import check_picture
from accord.run.payloads import Message, Prompt, StagePart, TextPart, pack_prompt
from accord.serve import chat_body
from accord.serve.chat_body import ChatBody, ChatMessage
from accord.serve.config import DoorConfig
from accord.serve.media import check_audio, decode_base64, decode_data_url
from accord.serve.parse import decode_json
from accord.serve.problems import Turned, wrong_model
from accord.serve.sound import SoundFormat, check_voice, flows, format_named
from accord.terms.errors import BadInput
from accord.terms.graph import DOOR, StageGraph
from accord.terms.request import Params, Part, Request

# Each message and each content part has one of these keys, and a string can't hold them unescaped.
_COUNTED_KEYS = (b'"role"', b'"type"')
_PARTS_FACTOR = 4
_STOP_BYTES_MAX = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatStyle:
    """How a chat is to be answered. `sound` is None if only text is wanted."""

    stream: bool
    include_usage: bool
    sound: SoundFormat | None


def read_chat_body(raw: bytes, config: DoorConfig) -> ChatBody:
    """JSON -> `ChatBody` that asks for nothing that isn't offered; BadInput, or Turned for a wrong model."""
    for key in _COUNTED_KEYS:
        # Twice the bound: the same bytes may also stand as a value. The exact count comes after parsing.
        if raw.count(key) > 2 * _PARTS_FACTOR * config.messages_max:
            raise _too_many(raw.count(key), config)
    body = decode_json(raw, ChatBody)
    if body.model != config.model:
        raise Turned(wrong_model(body.model, config.model))
    parts = sum(len(message.content) for message in body.messages if isinstance(message.content, tuple))
    if len(body.messages) > config.messages_max or parts > _PARTS_FACTOR * config.messages_max:
        raise _too_many(len(body.messages), config)
    if not body.messages:
        raise BadInput(
            field="messages", value="[]", problem="there is nothing to answer", fix="send one message or more"
        )
    chat_body.refuse_unsupported(body)
    return body


def style_of(body: ChatBody, graph: StageGraph) -> ChatStyle:
    """How to answer; BadInput for a sound that can't be made."""
    include_usage = body.stream_options is not None and body.stream_options.include_usage
    return ChatStyle(stream=body.stream is True, include_usage=include_usage, sound=_sound(body, graph))


def urls_of(body: ChatBody) -> tuple[tuple[str, str], ...]:
    """(field, address) of every picture that isn't in a data URL."""
    found = []
    for m, message in enumerate(body.messages):
        for p, part in enumerate(message.content if isinstance(message.content, tuple) else ()):
            if isinstance(part, chat_body.ImagePart) and part.image_url.url[:5].lower() != "data:":
                found.append((f"messages[{m}].content[{p}].image_url.url", part.image_url.url))
    return tuple(found)


def build_chat(
    body: ChatBody, graph: StageGraph, config: DoorConfig, *, with_sound: bool, fetched: Mapping[str, bytes]
) -> Request:
    """The request, its parts checked; BadInput. `fetched` holds pictures by the field of their address."""
    collector = _Collector(graph, config, fetched)
    messages = tuple(collector.message(index, message) for index, message in enumerate(body.messages))
    prompt = pack_prompt(Prompt(messages=messages))
    if len(prompt) > config.prompt_bytes_max:
        raise BadInput(
            field="messages",
            value=f"{len(prompt)} bytes of text",
            problem=f"more than the {config.prompt_bytes_max} that one prompt may have",
            fix="send less",
        )
    target(graph, "prompt", "messages", "a prompt")
    return Request(
        parts=(Part(edge="prompt", data=prompt), *collector.parts),
        outputs=frozenset({"text", "speech"} if with_sound else {"text"}),
        params=_params(body, config),
        deadline_s=config.deadline_s,
        session=body.prompt_cache_key or body.user,
    )


def target(graph: StageGraph, edge: str, field_: str, what: str) -> str:
    """The stage that the door's edge of this name leads to; BadInput if the model has none."""
    for item in graph.edges:
        if item.name == edge and item.source == DOOR:
            return item.target
    raise BadInput(field=field_, value=edge, problem=f"{graph.model} doesn't take {what}", fix="leave it out")


def require_output(graph: StageGraph, edge: str, field_: str) -> None:
    """BadInput if the model doesn't give back this edge."""
    if not any(item.name == edge and item.target == DOOR for item in graph.edges):
        raise BadInput(field=field_, value=edge, problem=f"{graph.model} doesn't give {edge}", fix="ask another model")


class _Collector:
    """Gathers the parts in order while the messages are turned into prompt slots."""

    def __init__(self, graph: StageGraph, config: DoorConfig, fetched: Mapping[str, bytes]) -> None:
        self._graph = graph
        self._config = config
        self._fetched = fetched
        self._counts = {"audio": 0, "image": 0}
        self.parts: list[Part] = []

    def message(self, index: int, message: ChatMessage) -> Message:
        where = f"messages[{index}]"
        match message.content:
            case None:
                if message.role != "assistant" or message.refusal is None:
                    raise BadInput(
                        field=f"{where}.content", value="null", problem="nothing is said", fix="send a text or parts"
                    )
                parts: tuple[TextPart | StagePart, ...] = (TextPart(text=message.refusal),)
            case str() as text:
                parts = (TextPart(text=text),)
            case content:
                if not content:
                    raise BadInput(
                        field=f"{where}.content", value="[]", problem="it is empty", fix="send a text or parts"
                    )
                parts = tuple(self._part(f"{where}.content[{p}]", part) for p, part in enumerate(content))
        role = "system" if message.role == "developer" else message.role
        return Message(role=role, parts=parts)

    def _part(self, where: str, part: chat_body.ContentPart) -> TextPart | StagePart:
        match part:
            case chat_body.TextPart():
                return TextPart(text=part.text)
            case chat_body.RefusalPart():
                return TextPart(text=part.refusal)
            case chat_body.AudioPart():
                path = f"{where}.input_audio.data"
                stage = target(self._graph, "audio", path, "audio")
                data = decode_base64(part.input_audio.data, path)
                check_audio(data, field=path, kind=part.input_audio.format, config=self._config)
                return self._slot(path, "audio", stage, data)
            case chat_body.ImagePart():
                path = f"{where}.image_url.url"
                stage = target(self._graph, "image", path, "pictures")
                data = self._fetched.get(path) or decode_data_url(part.image_url.url, path)
                check_picture(data, pixels_max=self._config.pixels_max, field=path)
                return self._slot(path, "image", stage, data)

    def _slot(self, path: str, edge: str, stage: str, data: bytes) -> StagePart:
        if len(self.parts) >= self._config.media_parts_max:
            raise BadInput(
                field=path,
                value=f"part {len(self.parts) + 1}",
                problem=f"one request may hold {self._config.media_parts_max} audio and picture parts",
                fix="send fewer",
            )
        self.parts.append(Part(edge=edge, data=data))
        index = self._counts[edge]
        self._counts[edge] = index + 1
        return StagePart(stage=stage, index=index)


def _sound(body: ChatBody, graph: StageGraph) -> SoundFormat | None:
    wanted = body.modalities is not None and "audio" in body.modalities
    if body.modalities is not None and not body.modalities:
        raise BadInput(field="modalities", value="[]", problem="nothing is asked for", fix='send ["text"]')
    if not wanted:
        return None
    require_output(graph, "speech", "modalities")
    if body.audio is None:
        raise BadInput(
            field="audio",
            value="(absent)",
            problem="needed when modalities has 'audio'",
            fix='send {"voice": "default", "format": "wav"}',
        )
    voice = body.audio.voice
    check_voice(voice if isinstance(voice, str) else voice.id, field="audio.voice")
    sound = format_named(body.audio.format, field="audio.format")
    if body.stream and not flows(sound):
        raise BadInput(
            field="audio.format",
            value=body.audio.format,
            problem="its header needs the whole answer, so it can't be streamed",
            fix="use pcm16, wav or opus, or stream: false",
        )
    return sound


def _params(body: ChatBody, config: DoorConfig) -> Params:
    given = {value for value in (body.max_tokens, body.max_completion_tokens) if value is not None}
    if len(given) > 1:
        raise BadInput(
            field="max_tokens",
            value=body.max_tokens,
            problem=f"max_completion_tokens says {body.max_completion_tokens}",
            fix="send one of the two",
        )
    top_p = 1.0 if body.top_p is None else body.top_p
    temperature = 0.0 if body.temperature is None else body.temperature
    return Params(
        max_tokens=min(given.pop() if given else config.tokens_default, config.tokens_max),
        # Keeping none but the likeliest token is what greedy decoding does.
        temperature=temperature if top_p > 0 else 0.0,
        top_p=top_p if top_p > 0 else 1.0,
        seed=body.seed,
        stop=_stops(body.stop),
    )


def _stops(raw: msgspec.Raw) -> tuple[str, ...]:
    text = bytes(raw)
    found = None if len(text) > _STOP_BYTES_MAX else decode_json(b'{"stop":%b}' % text, _Stop).stop
    words = () if found is None else (found,) if isinstance(found, str) else found
    if len(text) > _STOP_BYTES_MAX or len(words) > 4 or "" in words:
        raise BadInput(
            field="stop",
            value=text[:60].decode("utf-8", "replace"),
            problem="not up to four non-empty strings",
            fix="send fewer or shorter ones",
        )
    return words


class _Stop(msgspec.Struct, frozen=True):
    stop: str | tuple[str, ...] | None


def _too_many(count: int, config: DoorConfig) -> BadInput:
    return BadInput(
        field="messages",
        value=f"about {count} of them, parts included",
        problem=f"one request may hold {config.messages_max} messages and {_PARTS_FACTOR} times as many parts",
        fix="send fewer",
    )
