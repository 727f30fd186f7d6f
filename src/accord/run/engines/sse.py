"""The event stream of an OpenAI-compatible chat completion, as a state machine without I/O.

In: bytes as they come from the socket. Out: `Text` pieces and one `Finished` at most.
Invariant: whatever isn't such a stream raises BrokenEdge, with an excerpt of what came.
Sources: WHATWG HTML, "Server-sent events"; the OpenAI API reference, "chat completion chunk".
"""

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from accord.terms.errors import BrokenEdge
from accord.terms.request import FinishReason, Usage

LINE_BYTES_MAX = 1 << 20
_OTHER_FIELDS = (b"event", b"id", b"retry")


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A piece of the answer, UTF-8."""

    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The stream came to its proper end. Token counts are 0 if the server didn't tell them."""

    usage: Usage


class _Delta(msgspec.Struct, frozen=True, kw_only=True):
    content: str | None = None


class _Choice(msgspec.Struct, frozen=True, kw_only=True):
    delta: _Delta = _Delta()
    finish_reason: str | None = None


class _Counts(msgspec.Struct, frozen=True, kw_only=True):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Event(msgspec.Struct, frozen=True, kw_only=True):
    choices: tuple[_Choice, ...] = ()
    usage: _Counts | None = None
    error: msgspec.Raw = msgspec.Raw()


class ChatStream:
    """Feed it bytes; it gives what they meant. After `Finished` it takes no more."""

    def __init__(self) -> None:
        self._rest = b""
        self._reason: FinishReason | None = None
        self._counts = _Counts()
        self._finished = False

    def feed(self, data: bytes) -> Iterator[Text | Finished]:
        """The pieces that `data` completes, as far as it can be understood; then BrokenEdge."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if self._finished:
                return
            piece = self._line(line.removesuffix(b"\r"))
            if piece is not None:
                yield piece
        if len(self._rest) > LINE_BYTES_MAX:
            raise BrokenEdge(f"the server sent a line of more than {LINE_BYTES_MAX} bytes: {excerpt(self._rest)}")

    def end(self) -> None:
        """The server closed the stream: BrokenEdge, unless it had finished."""
        if not self._finished:
            raise BrokenEdge("the server closed the stream before it sent [DONE]")

    def _line(self, line: bytes) -> Text | Finished | None:
        if not line or line.startswith(b":"):
            return None
        name, _, value = line.partition(b":")
        if name in _OTHER_FIELDS:
            return None
        if name == b"error":  # llama.cpp's server reports a failure in mid-stream under this name
            raise BrokenEdge(f"the server failed in mid-stream: {excerpt(value)}")
        if name != b"data":
            raise BrokenEdge(f"the server sent a line that is no server-sent event: {excerpt(line)}")
        return self._data(value.strip())

    def _data(self, value: bytes) -> Text | Finished | None:
        if value == b"[DONE]":
            return self._finish()
        try:
            event = msgspec.json.decode(value, type=_Event)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BrokenEdge(f"the server sent no chat completion chunk ({error}): {excerpt(value)}") from error
        if bytes(event.error) not in {b"", b"null"}:
            raise BrokenEdge(f"the server failed in mid-stream: {excerpt(bytes(event.error))}")
        if event.usage is not None:
            self._counts = event.usage
        if not event.choices:
            return None
        choice = event.choices[0]
        if choice.finish_reason is not None:
            self._reason = _reason(choice.finish_reason)
        return Text(data=choice.delta.content.encode()) if choice.delta.content else None

    def _finish(self) -> Finished:
        if self._reason is None:
            raise BrokenEdge("the server sent [DONE] without a finish_reason")
        self._finished = True
        return Finished(
            usage=Usage(
                prompt_tokens=self._counts.prompt_tokens,
                completion_tokens=self._counts.completion_tokens,
                finish_reason=self._reason,
            )
        )


def excerpt(data: bytes) -> str:
    """The first 200 bytes, printable, for an error text."""
    shown = data[:200].decode(errors="replace").strip()
    return f"{shown!r}" + (" ..." if len(data) > 200 else "")


def _reason(word: str) -> FinishReason:
    match word:
        case "stop":
            return FinishReason.STOP
        case "length":
            return FinishReason.LENGTH
        case _:
            raise BrokenEdge(f"the server ended the answer with finish_reason {word!r}")
