"""The answers of POST /v1/chat/completions, as the OpenAI API defines them.

In: texts, sound, usage. Out: JSON bytes. Invariant: with sound, `content` is null and the text is the
sound's `transcript`, whole or in deltas, as OpenAI's audio models do it.
"""

import base64
import time
import uuid

import msgspec
from msgspec import UNSET, UnsetType

from accord.terms.request import Usage


class _Usage(msgspec.Struct, frozen=True, kw_only=True):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class _Audio(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    data: str
    expires_at: int
    transcript: str


class _Message(msgspec.Struct, frozen=True, kw_only=True):
    content: str | None
    role: str = "assistant"
    refusal: None = None
    audio: _Audio | UnsetType = UNSET


class _Choice(msgspec.Struct, frozen=True, kw_only=True):
    message: _Message
    finish_reason: str
    index: int = 0
    logprobs: None = None


class _Completion(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    created: int
    model: str
    choices: tuple[_Choice, ...]
    usage: _Usage
    object: str = "chat.completion"


class _AudioDelta(msgspec.Struct, frozen=True, kw_only=True):
    id: str | UnsetType = UNSET
    data: str | UnsetType = UNSET
    transcript: str | UnsetType = UNSET
    expires_at: int | UnsetType = UNSET


class _Delta(msgspec.Struct, frozen=True, kw_only=True):
    role: str | UnsetType = UNSET
    content: str | UnsetType | None = UNSET
    refusal: UnsetType | None = UNSET
    audio: _AudioDelta | UnsetType = UNSET


class _ChunkChoice(msgspec.Struct, frozen=True, kw_only=True):
    delta: _Delta
    finish_reason: str | None = None
    index: int = 0
    logprobs: None = None


class _Chunk(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    created: int
    model: str
    choices: tuple[_ChunkChoice, ...]
    object: str = "chat.completion.chunk"
    usage: _Usage | UnsetType | None = UNSET


def completion(*, model: str, text: str, sound: bytes | None, usage: Usage) -> bytes:
    """A whole answer. `sound` is a file in the wanted format, None if none was wanted."""
    created = int(time.time())
    if sound is None:
        message = _Message(content=text)
    else:
        data = base64.b64encode(sound).decode()
        # Spoken answers are not kept, so the moment at which this one can't be referred to is now.
        message = _Message(content=None, audio=_Audio(id=_audio_id(), data=data, expires_at=created, transcript=text))
    return msgspec.json.encode(
        _Completion(
            id=_chat_id(),
            created=created,
            model=model,
            choices=(_Choice(message=message, finish_reason=usage.finish_reason.value),),
            usage=_usage(usage),
        )
    )


class ChunkWriter:
    """The chunks of one streamed answer, in the order in which they must be asked for."""

    def __init__(self, *, model: str, with_sound: bool, include_usage: bool) -> None:
        self._id = _chat_id()
        self._created = int(time.time())
        self._model = model
        self._with_sound = with_sound
        self._include_usage = include_usage
        self._audio_id: str | UnsetType = _audio_id()

    def role(self) -> bytes:
        """The first chunk: who speaks."""
        return self._chunk(_Delta(role="assistant", content=UNSET if self._with_sound else "", refusal=None))

    def text(self, text: str) -> bytes:
        """A text delta: `content`, or the sound's `transcript`."""
        if not self._with_sound:
            return self._chunk(_Delta(content=text))
        return self._sound(_AudioDelta(id=self._audio_id, transcript=text))

    def sound(self, data: bytes) -> bytes:
        """A sound delta; each one's base64 stands for itself."""
        return self._sound(_AudioDelta(id=self._audio_id, data=base64.b64encode(data).decode()))

    def sound_end(self) -> bytes:
        """The last sound delta, which says until when the sound is kept: it isn't."""
        return self._chunk(_Delta(audio=_AudioDelta(expires_at=self._created)))

    def finish(self, usage: Usage) -> bytes:
        """Why the answer stopped."""
        return self._chunk(_Delta(), finish_reason=usage.finish_reason.value)

    def usage(self, usage: Usage) -> bytes:
        """The chunk without choices that closes a stream with `include_usage`."""
        return msgspec.json.encode(
            _Chunk(id=self._id, created=self._created, model=self._model, choices=(), usage=_usage(usage))
        )

    def _sound(self, audio: _AudioDelta) -> bytes:
        first = self._audio_id is not UNSET
        self._audio_id = UNSET
        return self._chunk(_Delta(content=None if first else UNSET, audio=audio))

    def _chunk(self, delta: _Delta, finish_reason: str | None = None) -> bytes:
        return msgspec.json.encode(
            _Chunk(
                id=self._id,
                created=self._created,
                model=self._model,
                choices=(_ChunkChoice(delta=delta, finish_reason=finish_reason),),
                usage=None if self._include_usage else UNSET,
            )
        )


def _usage(usage: Usage) -> _Usage:
    return _Usage(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        total_tokens=usage.prompt_tokens + usage.completion_tokens,
    )


def _chat_id() -> str:
    return f"chatcmpl-{uuid.uuid4().hex}"


def _audio_id() -> str:
    return f"audio_{uuid.uuid4().hex}"
