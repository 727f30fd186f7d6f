"""What operators and the console page ask: models, health, status, metrics.

In: GET requests. Out: JSON, server-sent events, Prometheus text. Invariant: nothing here submits work,
so all of it answers while the stages are full.
"""

import asyncio
import math
import time

import msgspec
from aiohttp import web

from accord.serve.door import DOOR
from accord.serve.problems import Turned, wrong_model
from accord.serve.relay import Wire
from accord.terms.errors import BadInput, Overloaded
from accord.terms.status import Health, ServiceStatus

_INTERVAL_S_MIN, _INTERVAL_S_MAX = 0.1, 60.0


class _Model(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    created: int
    object: str = "model"
    owned_by: str = "accord"


class _Models(msgspec.Struct, frozen=True, kw_only=True):
    data: tuple[_Model, ...]
    object: str = "list"


class _Health(msgspec.Struct, frozen=True, kw_only=True):
    status: str
    waiting_for: tuple[str, ...] = ()


async def models(request: web.Request) -> web.Response:
    """GET /v1/models."""
    return _json(_Models(data=(_model(request),)))


async def model(request: web.Request) -> web.Response:
    """GET /v1/models/{id}."""
    asked, name = request.match_info["id"], request.app[DOOR].config.model
    if asked != name:
        raise Turned(wrong_model(asked, name))
    return _json(_model(request))


async def health(request: web.Request) -> web.Response:
    """GET /healthz: 200 once every stage is ready; else 503 with what is still on its way."""
    door = request.app[DOOR]
    status = door.service.status()
    if door.closing.is_set():
        return _json(_Health(status="closing"), status=503)
    if not status.ready:
        return _json(_Health(status="loading", waiting_for=_waiting_for(status)), status=503)
    return _json(_Health(status="ready"))


async def metrics(request: web.Request) -> web.Response:
    """GET /metrics."""
    body, content_type = request.app[DOOR].metrics.page(request.headers.get("Accept", ""))
    return web.Response(body=body, headers={"Content-Type": content_type})


async def status(request: web.Request) -> web.Response:
    """GET /status: one `ServiceStatus`."""
    return _json(request.app[DOOR].service.status())


async def status_stream(request: web.Request) -> web.StreamResponse:
    """GET /status/stream?interval=1: one `ServiceStatus` an interval, until the client or the door closes."""
    door = request.app[DOOR]
    interval_s = _interval_s(request)
    if door.status_slots.locked():
        raise Overloaded(f"{door.config.status_streams_max} status streams are open already", retry_after_s=interval_s)
    async with door.status_slots:
        wire = Wire(request, door.config)
        response = await wire.open("text/event-stream; charset=utf-8")
        while not door.closing.is_set():
            await wire.event(msgspec.json.encode(door.service.status()))
            await _pause(door.closing, interval_s)
        await wire.close()
        return response


async def _pause(closing: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await closing.wait()
    except TimeoutError:
        return


def _interval_s(request: web.Request) -> float:
    text = request.query.get("interval", "1")
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not _INTERVAL_S_MIN <= seconds <= _INTERVAL_S_MAX:
        raise BadInput(
            field="interval",
            value=text,
            problem="not a number of seconds within bounds",
            fix=f"send {_INTERVAL_S_MIN:g} to {_INTERVAL_S_MAX:g}",
        )
    return seconds


def _waiting_for(status: ServiceStatus) -> tuple[str, ...]:
    ready = {replica.stage for replica in status.replicas if replica.health is Health.READY}
    waiting = [
        f"{replica.stage}/{replica.replica}: {replica.health.value}"
        for replica in status.replicas
        if replica.stage not in ready
    ]
    seen = {replica.stage for replica in status.replicas}
    return (*waiting, *(f"{stage.name}: no replica" for stage in status.graph.stages if stage.name not in seen))


def _model(request: web.Request) -> _Model:
    door = request.app[DOOR]
    return _Model(id=door.config.model, created=int(time.time() - door.service.status().uptime_s))


def _json(value: object, *, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json", status=status)
