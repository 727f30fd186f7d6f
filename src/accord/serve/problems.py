"""What goes wrong at the door, as the OpenAI API words it.

In: errors of the tree in terms/errors.py, `Failed` events, aiohttp's own refusals. Out: `Problem`, and
its JSON `{"error": {"message", "type", "param", "code"}}`. Invariant: every failure has a status, a
text that says what to do, and an outcome under which it is counted.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

import msgspec
from aiohttp import web

from accord.terms.errors import AccordError, BadInput, BrokenEdge, Overloaded
from accord.terms.request import ErrorCode, Failed


class Outcome(StrEnum):
    """How one HTTP request ended; a label of `accord_http_requests_total`."""

    OK = "ok"
    BAD_INPUT = "bad_input"
    REFUSED = "refused"  # key, host, path, method, size or kind of body
    OVERLOADED = "overloaded"
    DEADLINE = "deadline"
    DISCONNECTED = "disconnected"  # the client left before the end
    STALLED = "stalled"  # the client did not take its answer
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One failure as a client sees it. `param` is the path of the field, where one is to blame."""

    status: int
    kind: str
    text: str
    outcome: Outcome
    code: str | None = None
    param: str | None = None
    retry_after_s: float | None = None


class Turned(AccordError):
    """The door turns a request away with this problem."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.text)
        self.problem = problem


class _ErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    message: str
    type: str
    param: str | None
    code: str | None


class _ErrorReply(msgspec.Struct, frozen=True, kw_only=True):
    error: _ErrorBody


def problem_json(problem: Problem) -> bytes:
    """The error body, in the OpenAI API's shape."""
    param = None if problem.param is None else utf8(problem.param)
    body = _ErrorBody(message=utf8(problem.text), type=problem.kind, param=param, code=problem.code)
    return msgspec.json.encode(_ErrorReply(error=body))


def utf8(text: str) -> str:
    """The text without what UTF-8 can't say: aiohttp reads odd bytes of headers as lone surrogates."""
    return text.encode("utf-8", "replace").decode()


def problem_response(problem: Problem) -> web.Response:
    """The HTTP answer, with Retry-After where trying again can help."""
    headers = {}
    if problem.retry_after_s is not None:
        headers["Retry-After"] = str(max(1, math.ceil(problem.retry_after_s)))
        headers["Retry-After-Ms"] = str(max(1, math.ceil(problem.retry_after_s * 1000)))
    if problem.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return web.Response(
        status=problem.status, body=problem_json(problem), content_type="application/json", headers=headers
    )


def problem_of_error(error: AccordError) -> Problem:
    """An error of our tree -> what the client is told."""
    match error:
        case Turned():
            return error.problem
        case BadInput():
            return bad_input(str(error), param=error.field)
        case Overloaded(serving=True):
            return _overloaded(429, "rate_limit_error", "overloaded", error)
        case Overloaded():
            return _overloaded(503, "service_unavailable_error", "not_serving", error)
        case BrokenEdge():
            return _server_error(500, "broken_edge", str(error), Outcome.FAILED)
        case _:
            return _server_error(500, "internal_error", str(error), Outcome.FAILED)


def problem_of_failed(failed: Failed) -> Problem:
    """The end of a request that failed inside the runtime -> what the client is told."""
    match failed.code:
        case ErrorCode.BAD_INPUT:
            return bad_input(failed.text)
        case ErrorCode.DEADLINE:
            return _server_error(504, "deadline_exceeded", failed.text, Outcome.DEADLINE)
        case ErrorCode.REPLICA_LOST:
            return _server_error(503, "replica_lost", failed.text, Outcome.FAILED, retry_after_s=1.0)
        case ErrorCode.ENGINE:
            return _server_error(500, "engine_error", failed.text, Outcome.FAILED)
        case ErrorCode.CANCELLED:
            return _server_error(503, "cancelled", failed.text, Outcome.FAILED, retry_after_s=1.0)
        case ErrorCode.OVERLOADED:
            return Problem(
                status=429,
                kind="rate_limit_error",
                code="overloaded",
                text=failed.text,
                outcome=Outcome.OVERLOADED,
                retry_after_s=1.0,
            )
        case _:
            assert_never(failed.code)


def problem_of_http(error: web.HTTPException, method: str, path: str) -> Problem:
    """A refusal by aiohttp itself (no such path, wrong method, ...)."""
    match error.status:
        case 404:
            text = f"{method} {path[:200]}: no such endpoint; GET /v1/models lists the model"
            return refused(404, "not_found", text, kind="invalid_request_error")
        case 405:
            allowed = error.headers.get("Allow", "another method")
            return refused(405, "method_not_allowed", f"{method} {path[:200]}: wrong method; use {allowed}")
        case _:
            return refused(error.status, "http_error", f"{method} {path[:200]}: {error.reason}")


def bad_input(text: str, *, param: str | None = None) -> Problem:
    """HTTP 400."""
    return Problem(
        status=400,
        kind="invalid_request_error",
        code="bad_input",
        text=text,
        param=param,
        outcome=Outcome.BAD_INPUT,
    )


def refused(status: int, code: str, text: str, *, kind: str = "invalid_request_error") -> Problem:
    """The door says no before it reads the request's content."""
    return Problem(status=status, kind=kind, code=code, text=text, outcome=Outcome.REFUSED)


def wrong_model(asked: str, model: str) -> Problem:
    """HTTP 404, with the name that would have been right."""
    return Problem(
        status=404,
        kind="invalid_request_error",
        code="model_not_found",
        param="model",
        text=f"model: {asked[:120]!r}: this server doesn't have it; use {model!r}",
        outcome=Outcome.REFUSED,
    )


def _overloaded(status: int, kind: str, code: str, error: Overloaded) -> Problem:
    return Problem(
        status=status,
        kind=kind,
        code=code,
        text=str(error),
        outcome=Outcome.OVERLOADED,
        retry_after_s=error.retry_after_s,
    )


def _server_error(
    status: int, code: str, text: str, outcome: Outcome, *, retry_after_s: float | None = None
) -> Problem:
    return Problem(
        status=status, kind="server_error", code=code, text=text, outcome=outcome, retry_after_s=retry_after_s
    )
