"""A request as the door hands it to the runtime, and the events that come back.

In: nothing. Out: `Request`, `Params`, and the tagged union `Event`.
Invariant: every request ends with exactly one `Done` or `Failed`.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from accord.terms.graph import Payload


@dataclass(frozen=True, slots=True, kw_only=True)
class Params:
    """What a client may ask of the stages. `seed` None means a fresh one for each request."""

    max_tokens: int = 256
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    speed: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One input chunk, for the door's edge of this name (`audio`, `image`, `prompt`, `say`)."""

    edge: str
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Inputs in order, the edges into the door that are wanted back, and the limits.

    Parts of one edge are numbered from 0 in their order; a PROMPT part refers to what a stage made of
    them by (stage, number). `deadline_s` counts from submission. Requests of one `session` reach the
    same replica of sticky stages.
    """

    parts: tuple[Part, ...]
    outputs: frozenset[str]
    params: Params = field(default_factory=Params)
    deadline_s: float = 120.0
    session: str | None = None


class FinishReason(StrEnum):
    """Why an AR stage stopped, in the OpenAI API's words."""

    STOP = "stop"
    LENGTH = "length"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What was consumed. Counts of tokens, and seconds of audio in."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    audio_s: float = 0.0
    finish_reason: FinishReason = FinishReason.STOP


class ErrorCode(StrEnum):
    """The kinds of failure that a request can end with."""

    BAD_INPUT = "bad_input"  # the stage can't read what the client sent
    DEADLINE = "deadline"
    REPLICA_LOST = "replica_lost"
    ENGINE = "engine"
    CANCELLED = "cancelled"
    OVERLOADED = "overloaded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A chunk for the client, from the edge of this name (`text`, `speech`, `transcript`)."""

    edge: str
    payload: Payload
    index: int
    data: bytes
    meta: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSpan:
    """What one stage did for one request. Times in nanoseconds of CLOCK_MONOTONIC."""

    stage: str
    replica: int
    opened_ns: int
    first_input_ns: int
    first_output_ns: int
    ended_ns: int
    busy_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The request ended well."""

    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The request ended with an error, whose text names the field, the value and the fix."""

    code: ErrorCode
    text: str


Event = Output | Done | Failed
