"""A fake service behind a real door on a real port.

In: the tests of this folder. Out: `open_door`, which gives the address. Invariant: whatever a test does,
its door is closed, and no task of it is left.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import aiohttp
import pytest

from accord.serve.config import DoorConfig
from accord.serve.server import Bound, serve
from tests.serve.fake_service import FakeService

MODEL = "embedded-omni"
OpenDoor = Callable[..., Awaitable[Bound]]


@pytest.fixture
def service() -> FakeService:
    return FakeService()


@pytest.fixture
async def open_door(service: FakeService) -> AsyncIterator[OpenDoor]:
    async with AsyncExitStack() as stack:

        async def opened(**changes: Any) -> Bound:
            config = replace(DoorConfig(model=MODEL, port=0, close_s_max=1.0), **changes)
            return await stack.enter_async_context(serve(service, config))

        yield opened
    await asyncio.sleep(0)
    left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task() and "serve" in repr(task)]
    assert not left, left


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


def chat_body(**changes: object) -> dict[str, object]:
    """A valid chat."""
    return {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}], **changes}


async def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    """Waits until something has become true; fails if it doesn't."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)
