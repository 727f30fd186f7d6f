"""The body of POST /v1/chat/completions, as the OpenAI API defines it.

In: JSON. Out: `ChatBody`, and what in it this server can't do. Invariant: a field is honoured, refused
with a reason, or is one of the few that don't change the answer (IGNORED); unknown fields are errors.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Raw

from accord.terms.errors import BadInput

NULL = Raw(b"null")

# Hints and bookkeeping that leave the answer as it is: taken and not used.
IGNORED = (
    "metadata",
    "store",
    "service_tier",
    "safety_identifier",
    "parallel_tool_calls",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning_effort",
    "verbosity",
)

SEED = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
SESSION = Annotated[str, Meta(max_length=512)]


class TextPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="text", tag_field="type"):
    """Typed text."""

    text: str
    prompt_cache_breakpoint: Raw = NULL


class RefusalPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="refusal", tag_field="type"):
    """What an assistant said when it refused; read as text."""

    refusal: str


class AudioData(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One encoded audio file in base64."""

    data: str
    format: Literal["wav", "mp3", "flac", "ogg"]


class AudioPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="input_audio", tag_field="type"):
    """Something said."""

    input_audio: AudioData
    prompt_cache_breakpoint: Raw = NULL


class ImageUrl(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A data URL, or an address where those are allowed. `detail` is a hint."""

    url: str
    detail: Literal["auto", "low", "high", "original"] = "auto"


class ImagePart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="image_url", tag_field="type"):
    """Something shown."""

    image_url: ImageUrl
    prompt_cache_breakpoint: Raw = NULL


ContentPart = TextPart | RefusalPart | AudioPart | ImagePart


class ChatMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One turn. The fields below `name` are those that a client echoes from an earlier answer."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | tuple[ContentPart, ...] | None = None
    name: str | None = None
    refusal: str | None = None
    annotations: Raw = NULL
    audio: Raw = NULL
    tool_calls: Raw = NULL
    function_call: Raw = NULL


class StreamOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`include_obfuscation` pads chunks against traffic analysis at OpenAI; it is taken and not used."""

    include_usage: bool = False
    include_obfuscation: bool = False


class VoiceId(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A voice by id."""

    id: str


class AudioWish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the spoken answer should be."""

    format: Literal["wav", "mp3", "flac", "opus", "pcm16", "aac"]
    voice: str | VoiceId = "default"


class ChatBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The whole body. Raw fields are looked at by `unsupported` only, or not at all (IGNORED)."""

    model: str
    messages: tuple[ChatMessage, ...]
    modalities: tuple[Literal["text", "audio"], ...] | None = None
    audio: AudioWish | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Meta(ge=1)] | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    seed: SEED | None = None
    stop: Raw = NULL
    user: SESSION | None = None
    prompt_cache_key: SESSION | None = None

    n: Raw = NULL
    frequency_penalty: Raw = NULL
    presence_penalty: Raw = NULL
    logit_bias: Raw = NULL
    logprobs: Raw = NULL
    top_logprobs: Raw = NULL
    tools: Raw = NULL
    tool_choice: Raw = NULL
    functions: Raw = NULL
    function_call: Raw = NULL
    response_format: Raw = NULL
    prediction: Raw = NULL
    moderation: Raw = NULL
    web_search_options: Raw = NULL

    metadata: Raw = NULL
    store: Raw = NULL
    service_tier: Raw = NULL
    safety_identifier: Raw = NULL
    parallel_tool_calls: Raw = NULL
    prompt_cache_options: Raw = NULL
    prompt_cache_retention: Raw = NULL
    reasoning_effort: Raw = NULL
    verbosity: Raw = NULL


def refuse_unsupported(body: ChatBody) -> None:
    """BadInput for a known field whose value would change the answer in a way that isn't offered."""
    zero, empty = (b"0", b"0.0"), (b"[]", b"{}")
    rows: tuple[tuple[str, Raw, tuple[bytes, ...]], ...] = (
        ("n", body.n, (b"1",)),
        ("frequency_penalty", body.frequency_penalty, zero),
        ("presence_penalty", body.presence_penalty, zero),
        ("logit_bias", body.logit_bias, empty),
        ("logprobs", body.logprobs, (b"false",)),
        ("top_logprobs", body.top_logprobs, zero),
        ("tools", body.tools, empty),
        ("tool_choice", body.tool_choice, (b'"none"', b'"auto"')),
        ("functions", body.functions, empty),
        ("function_call", body.function_call, (b'"none"', b'"auto"')),
        ("response_format", body.response_format, (b'{"type":"text"}',)),
        ("prediction", body.prediction, ()),
        ("moderation", body.moderation, ()),
        ("web_search_options", body.web_search_options, ()),
    )
    for index, message in enumerate(body.messages):
        refuse_unless_neutral(f"messages[{index}].tool_calls", message.tool_calls, empty)
        refuse_unless_neutral(f"messages[{index}].function_call", message.function_call, ())
        if not is_null(message.audio):
            raise BadInput(
                field=f"messages[{index}].audio",
                value=bytes(message.audio).decode("utf-8", "replace"),
                problem="spoken answers are not kept",
                fix="send the answer's transcript as `content`",
            )
    for name, value, neutral in rows:
        refuse_unless_neutral(name, value, neutral)


def refuse_unless_neutral(field: str, value: Raw, neutral: tuple[bytes, ...]) -> None:
    """BadInput unless the JSON text of `value` is null or one of `neutral`, white space aside."""
    text = b"".join(bytes(value).split())
    if text != b"null" and text not in neutral:
        allowed = " or ".join(word.decode() for word in neutral)
        raise BadInput(
            field=field,
            value=bytes(value).decode("utf-8", "replace"),
            problem="this server doesn't offer that",
            fix=f"remove it, or send {allowed}" if allowed else "remove it",
        )


def is_null(value: Raw) -> bool:
    """Whether the field is absent or null."""
    return bytes(value).strip() == b"null"
