"""Rarer misfortunes: payloads that never fit, engines that stop early, replicas that freeze or can't come back."""

import asyncio
import math
import os
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest

from accord.run import frames, process, supervisor
from accord.run.frames import Data, Hop
from accord.run.jobs import NodeJob
from accord.run.node import Node
from accord.run.runtime import Runtime
from accord.terms.errors import BadInput, BrokenEdge, Overloaded
from accord.terms.graph import DOOR, Edge, Payload
from accord.terms.plan import AdmissionLimits
from accord.terms.request import Done, ErrorCode, Failed, Params
from accord.terms.status import Health
from tests.fake_plans import chain_plan
from tests.run.drive import ask, at_rest, collect, kill, until
from tests.run.world import ARENA, PretendedMemory

SLOW = {"mode": "tokens", "tokens": "100000", "work_us": "4000", "out": "text"}
EDGES = (
    Edge(name="in", source=DOOR, target="a", payload=Payload.TEXT),
    Edge(name="also", source="b", target="a", payload=Payload.TEXT),
    Edge(name="feed", source=DOOR, target="b", payload=Payload.TEXT),
    Edge(name="out", source="a", target=DOOR, payload=Payload.TEXT),
)
ROUTE = (Hop(0, 0, 1), Hop(1, 2, 1), Hop(2, 0, 2), Hop(3, 1, 0))


class Station:
    """A node whose owner only remembers what it was told."""

    def __init__(self, node_id: int) -> None:
        self.told: list[object] = []
        self.memory = PretendedMemory()
        self.node = Node(
            node_id=node_id, edges=EDGES, memory=self.memory, owner=self, clock=lambda: 1, accepts=node_id > 0
        )

    def opened(self, job: NodeJob) -> None:
        self.told.append("opened")

    def chunk(self, job: NodeJob, frame: Data, edge: int, release: Callable[[], None]) -> None:
        self.told.append(bytes(self.node.view(job.inputs[edge].peer, frame)))
        release()

    def input_ended(self, job: NodeJob, edge: int, usage: bytes) -> None:
        self.told.append(f"ended {edge}")

    def dropped(self, job: NodeJob, code: ErrorCode, text: str) -> None:
        self.told.append(code)

    def closed(self, job: NodeJob) -> None:
        self.told.append("closed")

    def reach(self, peer: int) -> None:
        pass


def _three() -> list[Station]:
    """The door, a (which answers) and b (which feeds a), all joined."""
    stations = [Station(number) for number in range(3)]
    for station in stations:
        for other in stations:
            if station is not other:
                station.node.connect(other.node.node_id, other.memory)
    return stations


def _settle(stations: list[Station]) -> None:
    for _ in range(20):
        for station in stations:
            for peer, packet in station.node.take_frames():
                stations[peer].node.receive(station.node.node_id, frames.decode(frames.encode(packet)))


def test_a_stage_that_is_done_early_lets_the_others_finish() -> None:
    """It has answered before one of its inputs has ended: that is no reason to cancel anything."""
    door, first, second = stations = _three()
    door.node.begin(1, ROUTE, b"", 10**12)
    door.node.send_on(1, 0, b"question", 0)
    _settle(stations)
    first.node.send(1, Payload.TEXT, (b"answer",))
    first.node.finish(1, b"")
    _settle(stations)
    second.node.send(1, Payload.TEXT, (b"late" * 10_000,))
    second.node.finish(1, b"")
    door.node.end_outputs(1)
    _settle(stations)
    assert door.told == ["opened", b"answer", "ended 3", "closed"]
    assert [station.told[-1] for station in stations] == ["closed"] * 3
    assert not any(isinstance(item, ErrorCode) for station in stations for item in station.told)
    assert all(station.memory.used == 0 for station in stations)


def test_a_failure_is_told_as_what_it_is_whichever_way_it_comes() -> None:
    """Upstream of a failed stage only cancels arrive: they carry the reason."""
    door, first, second = stations = _three()
    door.node.begin(1, ROUTE, b"", 10**12)
    _settle(stations)
    first.node.fail(1, ErrorCode.BAD_INPUT, "no")
    # The door hears of it from the second stage first.
    for source, target in ((first, second), (second, door)):
        for peer, packet in source.node.take_frames():
            if stations[peer] is target:
                target.node.receive(source.node.node_id, packet)
    assert ErrorCode.BAD_INPUT in door.told
    assert ErrorCode.CANCELLED not in door.told


def test_a_chunk_that_can_never_fit_fails_its_request_at_once() -> None:
    for data, meta in ((b"x" * (ARENA + 1), b""), (b"x", b"m" * (frames.META_BYTES_MAX + 1))):
        door, first, _ = stations = _three()
        door.node.begin(1, ROUTE, b"", 10**12)
        _settle(stations)
        first.node.send(1, Payload.TEXT, (data,), meta=meta)
        _settle(stations)
        assert ErrorCode.ENGINE in door.told
        assert ErrorCode.ENGINE in first.told


def test_no_frame_outgrows_a_packet() -> None:
    door, first, _ = stations = _three()
    door.node.begin(1, ROUTE, b"", 10**12)
    _settle(stations)
    first.node.fail(1, ErrorCode.ENGINE, "é" * 1_000_000)
    assert all(len(msgspec.msgpack.encode(packet)) < 64 << 10 for _, packet in first.node.take_frames())


async def test_an_answer_larger_than_its_arena_is_an_error_and_not_a_wait() -> None:
    block = {"mode": "chunks", "tokens": "1", "chunk_bytes": str(2 << 20), "out": "text"}
    async with Runtime(chain_plan(options={"second": block}, arena_bytes=1 << 20), assets={}) as runtime:
        _, end = await collect(runtime, ask(deadline_s=20))
        assert isinstance(end, Failed)
        assert end.code is ErrorCode.ENGINE
        assert "larger arena" in end.text
        await until(lambda: at_rest(runtime))
        assert all(r.restarts == 0 for r in runtime.status().replicas)


async def test_inputs_are_not_kept_once_a_request_has_ended() -> None:
    async with Runtime(chain_plan(), assets={}) as runtime:
        ticket = await runtime.submit(ask(b"x" * 100_000))
        assert isinstance([event async for event in ticket][-1], Done)
        await until(lambda: at_rest(runtime))
        assert len(runtime.recent) == 1  # the time line knows the request
        assert ticket.request.parts == ()


@pytest.mark.parametrize("deadline_s", [0.0, -1.0, math.nan, math.inf])
async def test_a_deadline_that_is_none_is_refused(deadline_s: float) -> None:
    async with Runtime(chain_plan(), assets={}) as runtime:
        with pytest.raises(BadInput, match="deadline_s"):
            await runtime.submit(ask(deadline_s=deadline_s))
        assert isinstance((await collect(runtime, ask()))[1], Done)
        await until(lambda: at_rest(runtime))


async def test_what_cannot_travel_is_refused_before_it_takes_a_place() -> None:
    async with Runtime(chain_plan(), assets={}, door_arena_bytes=1 << 20) as runtime:
        with pytest.raises(BadInput, match=r"inputs\.in"):
            await runtime.submit(ask(b"x" * ((1 << 20) + 1)))
        request = replace(ask(), params=Params(stop=("x" * (frames.PARAMS_BYTES_MAX + 1),)))
        with pytest.raises(BadInput, match="params"):
            await runtime.submit(request)
        with pytest.raises(BadInput, match="seed"):
            await runtime.submit(replace(ask(), params=Params(seed=1 << 70)))
        assert len((await collect(runtime, ask(b"x" * (1 << 20))))[0][0]) == 1 << 20
        await until(lambda: at_rest(runtime))


async def test_nobody_waits_for_a_place_beyond_his_deadline() -> None:
    limits = AdmissionLimits(active_max=1, queue_max=4, queue_s_max=60)
    async with Runtime(chain_plan(options={"second": SLOW}, admission=limits), assets={}) as runtime:
        first = await runtime.submit(ask())
        with pytest.raises(Overloaded):
            async with asyncio.timeout(20):
                await runtime.submit(ask(deadline_s=0.2))
        assert runtime.status().totals.queued == 0
        first.cancel()
        await until(lambda: at_rest(runtime))


async def test_a_replica_that_freezes_while_it_waits_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its page says that it waits for input, as a healthy one's would; the requests in it end by their deadline."""
    monkeypatch.setattr(supervisor, "STEP_S_MAX", 1.0)
    async with Runtime(chain_plan(), assets={}) as runtime:
        frozen = runtime.status().replicas[1].pid
        os.kill(frozen, signal.SIGSTOP)
        _, end = await collect(runtime, ask(deadline_s=0.5))
        assert isinstance(end, Failed)
        assert end.code is ErrorCode.DEADLINE
        await until(lambda: runtime.status().replicas[1].pid != frozen and at_rest(runtime))
        assert isinstance((await collect(runtime, ask()))[1], Done)


async def test_a_replica_that_waits_long_is_not_taken_for_a_frozen_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "STEP_S_MAX", 0.2)
    async with Runtime(chain_plan(options={"second": SLOW}), assets={}) as runtime:
        stalled = await runtime.submit(ask())
        await asyncio.sleep(2.5)
        stalled.cancel()
        await until(lambda: at_rest(runtime))
        assert all(r.restarts == 0 for r in runtime.status().replicas)


async def test_a_replica_that_cannot_be_started_again_yet_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    real, tries = process.spawn, iter((True, False))

    def spawn(*given: object, **named: object) -> process.Child:
        if next(tries, False):
            raise BrokenEdge("no memory for a moment")
        return real(*given, **named)  # type: ignore[arg-type]

    async with Runtime(chain_plan(), assets={}) as runtime:
        monkeypatch.setattr(process, "spawn", spawn)
        kill(runtime, "second")
        await until(lambda: [r.restarts for r in runtime.status().replicas] == [0, 1, 0] and _ready(runtime))
        assert isinstance((await collect(runtime, ask()))[1], Done)


async def test_a_replica_that_loads_for_too_long_is_ended_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Runtime(chain_plan(), assets={}) as runtime:
        monkeypatch.setattr(supervisor, "LOAD_S_MAX", 0.05)  # shorter than any load
        kill(runtime, "second")
        await until(lambda: any(r.stage == "second" and r.restarts > 1 for r in runtime.status().replicas))
        monkeypatch.setattr(supervisor, "LOAD_S_MAX", 30.0)
        await until(lambda: _ready(runtime))
        assert isinstance((await collect(runtime, ask()))[1], Done)


async def test_a_replica_that_dies_while_it_drains_is_not_replaced() -> None:
    async with Runtime(chain_plan(options={"second": SLOW}, replicas={"second": 2}), assets={}) as runtime:
        tickets = [await runtime.submit(ask()) for _ in range(2)]
        scaled = asyncio.create_task(runtime.scale("second", 1))
        await until(lambda: any(r.health is Health.DRAINING for r in runtime.status().replicas))
        os.kill(next(r.pid for r in runtime.status().replicas if r.health is Health.DRAINING), signal.SIGKILL)
        async with asyncio.timeout(10):
            await scaled
        await asyncio.sleep(0.5)
        assert sum(r.stage == "second" for r in runtime.status().replicas) == 1
        for ticket in tickets:
            ticket.cancel()
        await until(lambda: at_rest(runtime))


async def test_closing_ends_requests_that_wait_for_a_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    def spawn(*_: object, **__: object) -> process.Child:
        raise BrokenEdge("no memory at all")

    async with Runtime(chain_plan(options={"second": SLOW}), assets={}) as runtime:
        ticket = await runtime.submit(ask())
        monkeypatch.setattr(process, "spawn", spawn)
        kill(runtime, "first")
        kill(runtime, "second")
        await until(lambda: runtime.status().totals.replayed == 1)
        await asyncio.sleep(0.2)
    async with asyncio.timeout(5):
        end = [event async for event in ticket][-1]
    assert isinstance(end, Failed)


async def test_a_job_in_the_queue_of_an_engine_gets_the_place_of_one_that_was_late() -> None:
    """The late one held the engine's only place, blocked by its client; nothing but the clock frees it."""
    blocks = {"mode": "chunks", "tokens": "100", "chunk_bytes": "65536", "out": "text"}
    plan = chain_plan(options={"first": blocks}, batch_max=1)
    async with Runtime(plan, assets={}) as runtime:
        await runtime.submit(ask(deadline_s=1.0))  # and never read
        assert isinstance((await collect(runtime, ask()))[1], Done)
        await until(lambda: at_rest(runtime))


async def test_two_time_lines_at_once() -> None:
    async with Runtime(chain_plan(), assets={}) as runtime:
        await collect(runtime, ask())
        await runtime.settled()
        both = await asyncio.gather(runtime.timeline(), runtime.timeline())
        assert all(b"request 1" in line for line in both)


def test_a_graph_with_more_edges_than_keys_is_refused() -> None:
    plan = chain_plan()
    edges = tuple(replace(plan.graph.edges[0], name=f"in{number}") for number in range(frames.EDGES_MAX))
    wide = replace(plan, graph=replace(plan.graph, edges=(*plan.graph.edges, *edges)))
    with pytest.raises(BadInput, match="edges"):
        Runtime(wide, assets={})


async def test_a_replica_serves_a_parent_that_is_number_one() -> None:
    """In a container the service itself may be process 1; what a replica looks at is whether its parent is gone."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        orphan = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-P", "-m", "accord.run.replica", str(theirs.fileno()), str(os.getpid() + 1)),
            pass_fds=[theirs.fileno()],
        )
        assert await asyncio.wait_for(orphan.wait(), 20) == 3
    async with Runtime(chain_plan(), assets={}) as runtime:
        groups = {os.getpgid(r.pid) for r in runtime.status().replicas}
        assert os.getpgid(0) not in groups  # Ctrl-C in a terminal is for the parent alone


def _ready(runtime: Runtime) -> bool:
    replicas = runtime.status().replicas
    return len(replicas) == 3 and all(r.health is Health.READY for r in replicas)
