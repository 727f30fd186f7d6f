"""Rarer misfortunes: payloads that never fit, engines that stop early, replicas that freeze or can't come back."""


import msgspec

from accord.run import frames
from accord.run.frames import Data, Hop
from accord.run.jobs import NodeJob
from accord.run.node import Node
from accord.run.runtime import Runtime
from accord.terms.graph import DOOR, Edge, Payload
from accord.terms.request import ErrorCode, Failed
from tests.fake_plans import chain_plan
from tests.run.drive import ask, at_rest, collect, until
from tests.run.world import ARENA, PretendedMemory

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
        self.node = Node(
            node_id=node_id, edges=EDGES, memory=PretendedMemory(), owner=self, clock=lambda: 1, accepts=node_id > 0
        )

    def opened(self, job: NodeJob) -> None:
        self.told.append("opened")

    def chunk(self, job: NodeJob, frame: Data, edge: int, release: object) -> None:
        self.told.append(bytes(self.node.view(job.inputs[edge].peer, frame)))
        release()  # type: ignore[operator]

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
                station.node.connect(other.node.node_id, other.node.memory)
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
    assert all(station.node.memory.used == 0 for station in stations)


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
