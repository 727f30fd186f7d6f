"""Stands before every handler: who may come in, and what becomes of errors.

In: each HTTP request. Out: the handler's answer, or a problem as JSON. Invariants: every request is
counted once, under one outcome; no exception of ours or of a library reaches a client as anything but
a well-formed error; nothing is handled for a foreign host, a foreign page, or without the key.
"""

import asyncio
import hmac
import logging
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler
from aiohttp.web_exceptions import HTTPException

from accord.serve.config import DoorConfig
from accord.serve.door import DOOR, EXCHANGE, Door
from accord.serve.metrics import Exchange
from accord.serve.problems import (
    Outcome,
    Problem,
    Turned,
    bad_input,
    problem_of_error,
    problem_of_http,
    problem_response,
    refused,
)
from accord.serve.relay import StalledError
from accord.terms.errors import AccordError, Overloaded

_LOG = logging.getLogger(__name__)
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
_READS = ("GET", "HEAD")


@web.middleware
async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    """The one middleware."""
    door = request.app[DOOR]
    exchange = Exchange(_endpoint(request))
    request[EXCHANGE] = exchange
    task = asyncio.current_task()
    if task is not None:
        door.tasks.add(task)
    try:
        return await _answer(request, handler, door, exchange)
    except asyncio.CancelledError:
        exchange.outcome = Outcome.DISCONNECTED
        raise
    finally:
        door.metrics.observe(exchange)
        if task is not None:
            door.tasks.discard(task)


async def _answer(request: web.Request, handler: Handler, door: Door, exchange: Exchange) -> web.StreamResponse:
    try:
        _let_in(request, door)
        return await handler(request)
    except (StalledError, ConnectionError) as error:
        exchange.outcome = Outcome.STALLED if isinstance(error, StalledError) else Outcome.DISCONNECTED
        # Nobody reads this any more; aiohttp wants the answer that was begun, if one was.
        return exchange.answer or web.Response(status=400)
    except AccordError as error:
        problem = problem_of_error(error)
    except HTTPException as error:
        if error.status < 400:
            raise
        problem = problem_of_http(error, request.method, request.path)
    except web.RequestPayloadError as error:
        problem = bad_input(f"body: (unreadable): broken HTTP framing: {str(error)[:80]}; send it again")
    except Exception:  # noqa: BLE001  (the last line before the client: logged, counted, answered)
        _LOG.exception("the handler of %s %s failed", request.method, exchange.endpoint)
        problem = Problem(
            status=500,
            kind="server_error",
            code="internal_error",
            text="an error inside the server, which is in its log; this is our fault, not yours",
            outcome=Outcome.FAILED,
        )
    return _turn_away(request, problem, exchange)


def _turn_away(request: web.Request, problem: Problem, exchange: Exchange) -> web.StreamResponse:
    exchange.outcome = problem.outcome
    if exchange.answer is not None:
        # The head is out already, so all that is left is to show that the rest won't come.
        if request.transport is not None:
            request.transport.abort()
        return exchange.answer
    response = problem_response(problem)
    if problem.status == 405:
        response.headers["Allow"] = ", ".join(sorted(_allowed(request)))
    if request.can_read_body and not request.content.at_eof():
        # The rest of a refused body is not worth reading.
        response.force_close()
    return response


def _let_in(request: web.Request, door: Door) -> None:
    """Turned for a foreign host or page, or a missing key; Overloaded once the door is closing."""
    config = door.config
    _check_host(request, config)
    _check_origin(request, config)
    if door.closing.is_set():
        raise Overloaded("this server is closing; ask another one", retry_after_s=5.0, serving=False)
    if config.api_key is not None and not _is_open(request.path):
        _check_key(request, config.api_key)


def _check_host(request: web.Request, config: DoorConfig) -> None:
    """Keeps a name that an attacker points at this machine (DNS rebinding) from reaching a local door."""
    if not config.on_loopback() and not config.hosts:
        return
    host = _without_port(request.headers.get("Host", ""))
    if host not in (*_LOOPBACK_NAMES, config.host.lower(), *config.hosts):
        text = f"Host: {host[:120]!r}: not a name of this server; use {config.host}, or start it with this name"
        raise Turned(refused(403, "foreign_host", text, kind="permission_error"))


def _check_origin(request: web.Request, config: DoorConfig) -> None:
    """Keeps other web pages from posting here through a visitor's browser."""
    origin = request.headers.get("Origin")
    if origin is None or request.method in _READS:
        return
    try:
        netloc = urlsplit(origin).netloc.lower()
    except ValueError:
        netloc = ""
    if netloc != request.headers.get("Host", "").lower() and _without_port(netloc) not in config.hosts:
        text = f"Origin: {origin[:120]!r}: requests from other web pages are not taken; call from a program"
        raise Turned(refused(403, "foreign_origin", text, kind="permission_error"))


def _check_key(request: web.Request, key: str) -> None:
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    same = hmac.compare_digest(given.strip().encode("utf-8", "surrogateescape"), key.encode())
    if scheme.lower() != "bearer" or not same:
        said = "no API key was sent" if not given else "the API key is wrong"
        text = f"Authorization: {said}; send the header `Authorization: Bearer KEY`"
        raise Turned(refused(401, "invalid_api_key", text, kind="authentication_error"))


def _is_open(path: str) -> bool:
    return path in ("/", "/healthz") or path.startswith("/console/")


def _without_port(host: str) -> str:
    name = host.strip().lower()
    if name.startswith("["):
        return name.partition("]")[0] + "]"
    return name.partition(":")[0]


def _endpoint(request: web.Request) -> str:
    """The route's own pattern: a closed set, whatever clients ask for."""
    resource = request.match_info.route.resource
    return resource.canonical if resource is not None else "other"


def _allowed(request: web.Request) -> set[str]:
    error = request.match_info.http_exception
    return set(error.allowed_methods) if isinstance(error, web.HTTPMethodNotAllowed) else set()
