"""What users suffer from elsewhere: a killed stage, a stalled client, an abort, a hang. All must end well here."""

import asyncio
import gc
import os
import signal

import pytest

from accord.run import supervisor
from accord.run.ports import Ticket
from accord.run.runtime import Runtime
from accord.terms.errors import BadInput, BrokenEdge, Overloaded
from accord.terms.plan import AdmissionLimits
from accord.terms.request import Done, ErrorCode, Failed, Output
from accord.terms.status import Health
from tests.fake_plans import STAGES, chain_plan
from tests.run.drive import ask, at_rest, collect, kill, until

TOKENS = {"mode": "tokens", "tokens": "50", "work_us": "4000", "out": "text"}
BLOCKS = {"mode": "chunks", "tokens": "400", "chunk_bytes": "65536", "out": "text"}


async def test_a_request_passes_through_three_processes() -> None:
    async with Runtime(chain_plan(), assets={}) as runtime:
        chunks, end = await collect(runtime, ask(b"x" * 100_000))
        assert chunks == [b"x" * 100_000]
        assert isinstance(end, Done)
        await until(lambda: at_rest(runtime))


@pytest.mark.parametrize("stage", STAGES)
async def test_kill_before_anything_is_visible_replays(stage: str) -> None:
    slow = {"mode": "echo", "work_us": "400000"}
    async with Runtime(chain_plan(options={stage: slow}), assets={}) as runtime:
        asked = asyncio.create_task(collect(runtime, ask(b"again")))
        await until(lambda: any(r.activity.value == "busy" for r in runtime.status().replicas if r.stage == stage))
        pid = kill(runtime, stage)
        chunks, end = await asked
        assert isinstance(end, Done)
        assert chunks == [b"again"]
        status = runtime.status()
        assert status.totals.replayed == 1
        await until(lambda: all(r.pid != pid and r.health is Health.READY for r in runtime.status().replicas))
        assert [r.restarts for r in runtime.status().replicas if r.stage == stage] == [1]
        await until(lambda: at_rest(runtime))


async def test_kill_in_mid_stream_tells_that_request_and_spares_the_others() -> None:
    plan = chain_plan(options={"second": TOKENS}, replicas={"second": 2})
    async with Runtime(plan, assets={}) as runtime:
        tickets = [await runtime.submit(ask()) for _ in range(6)]
        firsts = [await anext(aiter(ticket)) for ticket in tickets]
        assert all(isinstance(first, Output) for first in firsts)
        kill(runtime, "second")

        async def rest(ticket: Ticket) -> Done | Failed:
            events = [event async for event in ticket]
            end = events[-1]
            assert isinstance(end, Done | Failed)
            if isinstance(end, Done):
                assert len(events) == 50  # 49 words more, and the end
            return end

        async with asyncio.timeout(20):
            ends = await asyncio.gather(*(rest(ticket) for ticket in tickets))
        assert sum(isinstance(end, Done) for end in ends) == 3
        failed = [end for end in ends if isinstance(end, Failed)]
        assert {end.code for end in failed} == {ErrorCode.REPLICA_LOST}
        assert all("second" in end.text for end in failed)
        await until(lambda: at_rest(runtime) and len(runtime.status().replicas) == 4)


async def test_cancel_reaches_every_stage_and_touches_no_other_request() -> None:
    async with Runtime(chain_plan(options={"second": TOKENS}), assets={}) as runtime:
        alone, _ = await collect(runtime, ask(b"stay"))
        stays = asyncio.create_task(collect(runtime, ask(b"stay")))
        goes = await runtime.submit(ask(b"go"))
        assert isinstance(await anext(aiter(goes)), Output)
        goes.cancel()
        goes.cancel()
        assert [type(event) for event in [e async for e in goes]] == [Failed]
        chunks, end = await stays
        assert isinstance(end, Done)
        assert chunks == alone
        await until(lambda: at_rest(runtime))
        assert runtime.status().totals.cancelled == 1


async def test_a_stalled_client_stops_the_first_stage_and_memory_stays_flat() -> None:
    plan = chain_plan(options={"first": BLOCKS}, window_bytes=1 << 18)
    async with Runtime(plan, assets={}) as runtime:
        ticket = await runtime.submit(ask())
        iterator = aiter(ticket)
        assert isinstance(await anext(iterator), Output)
        held: list[int] = []
        for _ in range(20):
            await asyncio.sleep(0.05)
            held.append(sum(r.arena_used_bytes for r in runtime.status().replicas))
        # Three edges of 256 KiB each, and at most one chunk more on each: not the 25 MiB that first could make.
        assert 0 < held[-1] <= 3 * ((1 << 18) + (1 << 17))
        assert held[-1] == held[10]
        assert runtime.status().replicas[0].activity.value == "blocked"
        fast, _ = await collect(runtime, ask(b"another client"))
        assert len(fast) == 400
        rest = [event async for event in ticket]
        assert len(rest) == 400
        assert isinstance(rest[-1], Done)
        await until(lambda: at_rest(runtime))


async def test_a_deadline_ends_the_request_everywhere() -> None:
    async with Runtime(chain_plan(options={"second": {**TOKENS, "tokens": "100000"}}), assets={}) as runtime:
        chunks, end = await collect(runtime, ask(deadline_s=0.5))
        assert isinstance(end, Failed)
        assert end.code is ErrorCode.DEADLINE
        assert chunks
        await until(lambda: at_rest(runtime))


async def test_engine_errors_are_told_and_the_stage_serves_on() -> None:
    plan = chain_plan(options={"second": {"mode": "echo", "commands": "true"}})
    async with Runtime(plan, assets={}) as runtime:
        _, end = await collect(runtime, ask(b"!bad_input"))
        assert isinstance(end, Failed)
        assert end.code is ErrorCode.BAD_INPUT
        _, end = await collect(runtime, ask(b"!fail"))
        assert isinstance(end, Failed)
        assert end.code is ErrorCode.ENGINE
        assert (await collect(runtime, ask(b"fine")))[0] == [b"fine"]
        assert all(r.restarts == 0 for r in runtime.status().replicas)
        await until(lambda: at_rest(runtime))


@pytest.mark.parametrize("command", [b"!crash", b"!raise"])
async def test_a_request_that_kills_its_replica_is_given_up_after_one_replay(command: bytes) -> None:
    plan = chain_plan(options={"second": {"mode": "echo", "commands": "true"}})
    async with Runtime(plan, assets={}) as runtime:
        _, end = await collect(runtime, ask(command))
        assert isinstance(end, Failed)
        assert end.code is ErrorCode.REPLICA_LOST
        assert (await collect(runtime, ask(b"fine")))[0] == [b"fine"]
        await until(lambda: at_rest(runtime))


async def test_a_hanging_step_is_found_and_the_replica_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "STEP_S_MAX", 1.0)
    plan = chain_plan(options={"second": {"mode": "echo", "commands": "true"}})
    async with Runtime(plan, assets={}) as runtime:
        _, end = await collect(runtime, ask(b"!hang", deadline_s=15))
        assert isinstance(end, Failed)
        assert (await collect(runtime, ask(b"fine")))[0] == [b"fine"]
        assert sum(r.restarts for r in runtime.status().replicas) >= 1


async def test_a_full_service_refuses_with_a_time_to_come_back() -> None:
    limits = AdmissionLimits(active_max=1, queue_max=1, queue_s_max=0.5)
    async with Runtime(chain_plan(options={"second": TOKENS}, admission=limits), assets={}) as runtime:
        first = await runtime.submit(ask())
        waits = asyncio.create_task(collect(runtime, ask()))
        await until(lambda: runtime.status().totals.queued == 1)
        with pytest.raises(Overloaded) as refused:
            await runtime.submit(ask())
        assert refused.value.retry_after_s >= 1
        assert len([e async for e in first]) == 51
        assert isinstance((await waits)[1], Done)
        totals = runtime.status().totals
        assert (totals.submitted, totals.done, totals.refused) == (3, 2, 1)


async def test_a_client_that_leaves_the_queue_gives_its_place_up() -> None:
    limits = AdmissionLimits(active_max=1, queue_max=4, queue_s_max=20)
    async with Runtime(chain_plan(options={"second": TOKENS}, admission=limits), assets={}) as runtime:
        first = await runtime.submit(ask())
        leaves = asyncio.create_task(runtime.submit(ask()))
        stays = asyncio.create_task(collect(runtime, ask()))
        await until(lambda: runtime.status().totals.queued == 2)
        leaves.cancel()
        await asyncio.gather(leaves, return_exceptions=True)
        assert runtime.status().totals.queued == 1
        first.cancel()
        assert isinstance((await stays)[1], Done)
        await until(lambda: at_rest(runtime))


async def test_inputs_that_no_stage_could_hold_are_refused() -> None:
    limits = AdmissionLimits(active_max=4, queue_max=4, queue_s_max=5, inflight_bytes_max=1 << 20)
    async with Runtime(chain_plan(admission=limits), assets={}) as runtime:
        with pytest.raises(BadInput, match="at most 1048576"):
            await runtime.submit(ask(b"x" * (2 << 20)))
        assert runtime.status().totals.failed == 1


async def test_replicas_come_and_drain_while_traffic_flows() -> None:
    async with Runtime(chain_plan(options={"second": TOKENS}), assets={}) as runtime:
        stop = asyncio.Event()
        ends: list[Done | Failed] = []

        async def client() -> None:
            while not stop.is_set():
                ends.append((await collect(runtime, ask()))[1])

        clients = [asyncio.create_task(client()) for _ in range(4)]
        await asyncio.sleep(0.3)
        await runtime.scale("second", 3)
        assert sum(r.stage == "second" for r in runtime.status().replicas) == 3
        await until(lambda: all(r.served for r in runtime.status().replicas))
        await runtime.scale("second", 1)
        await until(lambda: len(runtime.status().replicas) == 3)
        stop.set()
        await asyncio.gather(*clients)
        assert len(ends) > 4
        assert all(isinstance(end, Done) for end in ends)
        await until(lambda: at_rest(runtime))


async def test_sessions_stick_to_a_replica() -> None:
    plan = chain_plan(replicas={"second": 3}, sticky=True)
    async with Runtime(plan, assets={}) as runtime:
        for session in ("anna", "ben", "clara", "dora"):
            for _ in range(5):
                await collect(runtime, ask(session=session))
        await until(lambda: len(runtime.recent) == 20)
        homes = [{s.replica for s in t.spans if s.stage == "second"} for t in runtime.recent]
        assert all(len(set.union(*homes[i : i + 5])) == 1 for i in range(0, 20, 5))
        assert len(set.union(*homes)) > 1


async def test_an_engine_that_cannot_load_is_named_and_nothing_is_left() -> None:
    others = _children()
    plan = chain_plan(options={"second": {"mode": "no-such-mode"}})
    with pytest.raises(BrokenEdge, match="second"):
        async with Runtime(plan, assets={}):
            pass
    assert _children() == others


async def test_nothing_is_left_behind() -> None:
    before, others = set(os.listdir("/dev/shm")), _children()
    async with Runtime(chain_plan(options={"second": TOKENS}), assets={}) as runtime:
        pids = [r.pid for r in runtime.status().replicas]
        await runtime.submit(ask())
        os.kill(pids[0], signal.SIGSTOP)  # even a replica that does not answer
    assert _children() == others
    assert set(os.listdir("/dev/shm")) == before


def _children() -> set[str]:
    """Every child of this process; other fixtures may have some."""
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as children:
        return set(children.read().split())


async def test_a_service_leaves_no_descriptor_open() -> None:
    async def once() -> None:
        async with Runtime(chain_plan(), assets={}) as runtime:
            await collect(runtime, ask(b"x" * 100_000))
            kill(runtime, "second")
            await until(lambda: all(r.health is Health.READY for r in runtime.status().replicas) and _three(runtime))

    await once()
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        await once()
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


def _three(runtime: Runtime) -> bool:
    return len(runtime.status().replicas) == 3


async def test_an_engine_stops_working_for_those_who_left() -> None:
    """The word that a request is over may come before the peers' own cancels."""
    plan = chain_plan(options={"second": {**TOKENS, "tokens": "1000000"}})
    async with Runtime(plan, assets={}) as runtime:
        for _ in range(20):
            ticket = await runtime.submit(ask(max_tokens=1_000_000))
            assert isinstance(await anext(aiter(ticket)), Output)
            ticket.cancel()
        await until(lambda: at_rest(runtime))
