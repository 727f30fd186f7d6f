"""What every handler of the door works with.

In: a service and a config. Out: `Door`, found in the application, and the `Exchange` of the request at
hand. Invariant: `tasks` holds exactly the requests that are being answered, so that closing can end them.
"""

import asyncio
from dataclasses import dataclass, field

from aiohttp import web

from accord.run.ports import Service
from accord.serve.bodies import BodyPool
from accord.serve.config import DoorConfig
from accord.serve.metrics import DoorMetrics, Exchange
from accord.terms.graph import StageGraph


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """One door. `graph` is the model's, which stays the same; `closing` is set once it takes no more requests."""

    service: Service
    graph: StageGraph
    config: DoorConfig
    metrics: DoorMetrics
    bodies: BodyPool
    status_slots: asyncio.Semaphore
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    tasks: set["asyncio.Task[object]"] = field(default_factory=set)


DOOR = web.AppKey("door", Door)
EXCHANGE = web.RequestKey("exchange", Exchange)


def make_door(service: Service, config: DoorConfig) -> Door:
    """A door in front of `service`, not yet bound to anything."""
    return Door(
        service=service,
        graph=service.status().graph,
        config=config,
        metrics=DoorMetrics(service.status),
        bodies=BodyPool(bytes_max=config.bodies_bytes_max, body_bytes_max=config.body_bytes_max),
        status_slots=asyncio.Semaphore(config.status_streams_max),
    )
