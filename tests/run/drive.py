"""Helpers for tests of the runtime on fake stages."""

import asyncio
import os
import signal
from collections.abc import Callable

from accord.run.runtime import Runtime
from accord.terms.request import Done, Event, Failed, Output, Params, Part, Request
from accord.terms.status import Activity


def ask(
    data: bytes = b"hello", *, deadline_s: float = 20.0, session: str | None = None, max_tokens: int = 256
) -> Request:
    """A request for the fake chain."""
    return Request(
        parts=(Part(edge="in", data=data),),
        outputs=frozenset({"out"}),
        params=Params(max_tokens=max_tokens),
        deadline_s=deadline_s,
        session=session,
    )


async def collect(runtime: Runtime, request: Request, limit_s: float = 30.0) -> tuple[list[bytes], Done | Failed]:
    """Submits, and takes everything: the chunks and the end."""
    async with asyncio.timeout(limit_s):
        ticket = await runtime.submit(request)
        events: list[Event] = [event async for event in ticket]
    chunks = [event.data for event in events if isinstance(event, Output)]
    end = events[-1]
    assert isinstance(end, Done | Failed)
    assert all(isinstance(event, Output) for event in events[:-1])
    return chunks, end


async def until(met: Callable[[], bool], limit_s: float = 15.0) -> None:
    """Waits for a condition of the outside world; fails when it takes too long."""
    async with asyncio.timeout(limit_s):
        while not met():
            await asyncio.sleep(0.01)


def kill(runtime: Runtime, stage: str) -> int:
    """kill -9 of the first replica of a stage; returns its pid."""
    pid = next(r.pid for r in runtime.status().replicas if r.stage == stage)
    os.kill(pid, signal.SIGKILL)
    return pid


def at_rest(runtime: Runtime) -> bool:
    """Nothing is active, no engine works on, and no arena holds anything."""
    status = runtime.status()
    return (
        status.totals.active == 0
        and not runtime.any_active()
        and runtime.door_used_bytes == 0
        and all(r.active == 0 and r.arena_used_bytes == 0 and r.activity is Activity.IDLE for r in status.replicas)
    )
