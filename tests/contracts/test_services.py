"""What the door relies on in any `Service` (run/ports.py).

In: a row of SERVICES for each implementation. Out: a verdict on each law. Invariant: a service that
passes here can stand behind the door, and the fake behind the door's tests is one of them.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

import pytest

from accord.run.payloads import Message, Prompt, TextPart, pack_prompt
from accord.run.ports import Service
from accord.terms.errors import Overloaded
from accord.terms.graph import DOOR
from accord.terms.request import Done, ErrorCode, Failed, Output, Params, Part, Request
from accord.terms.status import Activity
from tests.serve.fake_service import FakeService, Script, Wait, text

CHAT = Request(
    parts=(
        Part(edge="prompt", data=pack_prompt(Prompt(messages=(Message(role="user", parts=(TextPart(text="Hi"),)),)))),
    ),
    outputs=frozenset({"text"}),
    params=Params(max_tokens=4),
    deadline_s=60.0,
)


@asynccontextmanager
async def fake():
    """Answers with a few deltas, slowly enough to be cancelled in between."""
    yield FakeService(Script(steps=(*text("a"), Wait(seconds=0.05), *text("b"))))


SERVICES: dict[str, Callable[[], AbstractAsyncContextManager[Service]]] = {"fake": fake}


@pytest.fixture(params=list(SERVICES))
async def service(request):
    async with SERVICES[request.param]() as made:
        yield made


async def test_outputs_then_exactly_one_end(service):
    events = [event async for event in await service.submit(CHAT)]
    assert events
    assert all(isinstance(event, Output) and event.edge in CHAT.outputs for event in events[:-1])
    assert isinstance(events[-1], Done)
    b"".join(event.data for event in events[:-1] if isinstance(event, Output)).decode()


async def test_cancel_ends_the_iteration(service):
    ticket = await service.submit(CHAT)
    source = aiter(ticket)
    await anext(source)
    waiting = asyncio.ensure_future(anext(source))
    await asyncio.sleep(0)
    ticket.cancel()
    async with asyncio.timeout(20):
        last = await waiting
        while isinstance(last, Output):
            last = await anext(source)
    assert isinstance(last, Done) or last.code is ErrorCode.CANCELLED
    with pytest.raises(StopAsyncIteration):
        await anext(source)


async def test_cancel_may_come_before_the_first_event_and_more_than_once(service):
    ticket = await service.submit(CHAT)
    ticket.cancel()
    ticket.cancel()
    async with asyncio.timeout(20):
        events = [event async for event in ticket]
    assert isinstance(events[-1], Failed)
    assert events[-1].code is ErrorCode.CANCELLED
    ticket.cancel()


async def test_cancel_after_the_end_does_nothing(service):
    ticket = await service.submit(CHAT)
    assert isinstance([event async for event in ticket][-1], Done)
    before = service.status().totals
    ticket.cancel()
    await asyncio.sleep(0.05)
    assert service.status().totals == before
    assert before.done == 1


async def test_one_cancel_touches_no_other(service):
    one, other = await service.submit(CHAT), await service.submit(CHAT)
    one.cancel()
    assert isinstance([event async for event in other][-1], Done)


async def test_a_withdrawn_submit_leaves_nothing(service):
    submitting = asyncio.ensure_future(service.submit(CHAT))
    await asyncio.sleep(0)
    submitting.cancel()
    with suppress(asyncio.CancelledError, Overloaded):
        (await submitting).cancel()
    async with asyncio.timeout(20):
        while service.status().totals.active or service.status().totals.queued:
            await asyncio.sleep(0.01)


async def test_the_status_adds_up(service):
    tickets = [await service.submit(CHAT) for _ in range(3)]
    for ticket in tickets:
        assert [event async for event in ticket]
    status = service.status()
    totals = status.totals
    ends = (totals.done, totals.failed, totals.cancelled, totals.refused, totals.queued, totals.active)
    assert totals.submitted == sum(ends) == 3
    assert all(len(replica.time_s) == len(Activity) for replica in status.replicas)
    assert any(edge.source == DOOR for edge in status.graph.edges)
    assert any(edge.target == DOOR for edge in status.graph.edges)
