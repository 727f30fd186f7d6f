"""What the door relies on in any `Service` (run/ports.py).

In: a row of SERVICES for each implementation. Out: a verdict on each law. Invariant: a service that
passes here can stand behind the door, and the fake behind the door's tests is one of them.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass

import pytest

from accord.run.payloads import Message, Prompt, TextPart, pack_prompt
from accord.run.ports import Service, Ticket
from accord.run.runtime import Runtime
from accord.terms.errors import Overloaded
from accord.terms.graph import DOOR
from accord.terms.request import Done, ErrorCode, Failed, Output, Params, Part, Request
from accord.terms.status import Activity
from tests.fake_plans import chain_plan
from tests.serve.fake_service import FakeService, Script, Wait, text

CHAT = Request(
    parts=(
        Part(edge="prompt", data=pack_prompt(Prompt(messages=(Message(role="user", parts=(TextPart(text="Hi"),)),)))),
    ),
    outputs=frozenset({"text"}),
    params=Params(max_tokens=4),
    deadline_s=60.0,
)
CHAIN = Request(parts=(Part(edge="in", data=b"Hi"),), outputs=frozenset({"out"}), deadline_s=60.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A service, and a request that it answers with a few deltas, slowly enough to be cancelled in between."""

    service: Service
    request: Request

    async def submit(self) -> Ticket:
        return await self.service.submit(self.request)


@asynccontextmanager
async def fake():
    """The fake behind the door's tests."""
    yield Case(service=FakeService(Script(steps=(*text("a"), Wait(seconds=0.05), *text("b")))), request=CHAT)


@asynccontextmanager
async def runtime():
    """The real runtime: three processes with fake engines, the last of which gives four words."""
    third = {"mode": "tokens", "tokens": "4", "work_us": "15000"}
    async with Runtime(chain_plan(options={"third": third}), assets={}) as made:
        yield Case(service=made, request=CHAIN)


SERVICES: dict[str, Callable[[], AbstractAsyncContextManager[Case]]] = {"fake": fake, "runtime": runtime}


@pytest.fixture(params=list(SERVICES))
async def case(request):
    async with SERVICES[request.param]() as made:
        yield made


async def test_outputs_then_exactly_one_end(case):
    events = [event async for event in await case.submit()]
    assert events
    assert all(isinstance(event, Output) and event.edge in case.request.outputs for event in events[:-1])
    assert isinstance(events[-1], Done)
    b"".join(event.data for event in events[:-1] if isinstance(event, Output)).decode()


async def test_cancel_ends_the_iteration(case):
    ticket = await case.submit()
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


async def test_cancel_may_come_before_the_first_event_and_more_than_once(case):
    ticket = await case.submit()
    ticket.cancel()
    ticket.cancel()
    async with asyncio.timeout(20):
        events = [event async for event in ticket]
    assert isinstance(events[-1], Failed)
    assert events[-1].code is ErrorCode.CANCELLED
    ticket.cancel()


async def test_cancel_after_the_end_does_nothing(case):
    ticket = await case.submit()
    assert isinstance([event async for event in ticket][-1], Done)
    before = case.service.status().totals
    ticket.cancel()
    await asyncio.sleep(0.05)
    assert case.service.status().totals == before
    assert before.done == 1


async def test_one_cancel_touches_no_other(case):
    one, other = await case.submit(), await case.submit()
    one.cancel()
    assert isinstance([event async for event in other][-1], Done)


async def test_a_withdrawn_submit_leaves_nothing(case):
    submitting = asyncio.ensure_future(case.submit())
    await asyncio.sleep(0)
    submitting.cancel()
    with suppress(asyncio.CancelledError, Overloaded):
        (await submitting).cancel()
    async with asyncio.timeout(20):
        while case.service.status().totals.active or case.service.status().totals.queued:
            await asyncio.sleep(0.01)


async def test_the_status_adds_up(case):
    tickets = [await case.submit() for _ in range(3)]
    for ticket in tickets:
        assert [event async for event in ticket]
    status = case.service.status()
    totals = status.totals
    ends = (totals.done, totals.failed, totals.cancelled, totals.refused, totals.queued, totals.active)
    assert totals.submitted == sum(ends) == 3
    assert all(len(replica.time_s) == len(Activity) for replica in status.replicas)
    assert any(edge.source == DOOR for edge in status.graph.edges)
    assert any(edge.target == DOOR for edge in status.graph.edges)
