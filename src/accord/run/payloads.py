"""What the bytes of each payload mean.

In: typed values. Out: bytes and meta, and back. Invariant: unpack(pack(x)) == x.
PROMPT is JSON (`Prompt`); SPECTRUM and PCM carry their shape in the chunk's meta, as msgpack.
"""

from typing import Literal

import msgspec

PCM_RATE_HZ = 24_000


class TextPart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="text"):
    """Typed text."""

    text: str


class StagePart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="stage"):
    """A slot for chunk `index` that stage `stage` will send: what was heard or seen."""

    stage: str
    index: int


class Message(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One turn of a chat."""

    role: Literal["system", "user", "assistant"]
    parts: tuple[TextPart | StagePart, ...]


class Prompt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole chat."""

    messages: tuple[Message, ...]


class TensorMeta(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Shapes of float32 tensors that lie one after the other in a SPECTRUM chunk."""

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]


class SpectrumMeta(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One clause as an acoustic model's tensors; `text` is what it says."""

    tensors: TensorMeta
    text: str = ""


class PcmMeta(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Signed 16-bit little-endian mono samples; `text` is what this chunk says."""

    rate_hz: int
    text: str = ""


def pack_prompt(prompt: Prompt) -> bytes:
    """Prompt -> JSON bytes."""
    return msgspec.json.encode(prompt)


def unpack_prompt(data: bytes | memoryview) -> Prompt:
    """JSON bytes -> Prompt; msgspec.ValidationError if it isn't one."""
    return msgspec.json.decode(data, type=Prompt)
