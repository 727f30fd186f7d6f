"""The door's application: the table of its routes.

In: a `Service` and a `DoorConfig`. Out: an aiohttp application. Invariant: every route passes the guard.
"""

from aiohttp import web

from accord.run.ports import Service
from accord.serve import operations, pages
from accord.serve.chat import chat
from accord.serve.config import DoorConfig
from accord.serve.door import DOOR, make_door
from accord.serve.guard import guard
from accord.serve.speech import speak
from accord.serve.transcriptions import transcribe


def make_app(service: Service, config: DoorConfig) -> web.Application:
    """The application, not yet bound. Run it with `handler_cancellation`, as `server.serve` does.

    Without it, a client that leaves is noticed only at the next write.
    """
    app = web.Application(middlewares=(guard,))
    app[DOOR] = make_door(service, config)
    app.add_routes(
        (
            web.post("/v1/chat/completions", chat),
            web.post("/v1/audio/transcriptions", transcribe),
            web.post("/v1/audio/speech", speak),
            web.get("/v1/models", operations.models),
            web.get("/v1/models/{id:.+}", operations.model),
            web.get("/healthz", operations.health),
            web.get("/metrics", operations.metrics),
            web.get("/status", operations.status),
            web.get("/status/stream", operations.status_stream),
            web.get("/", pages.index),
            web.get("/console/{name}", pages.asset),
        )
    )
    return app
