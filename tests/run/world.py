"""A whole service of real nodes over a pretended network, memory and clock: every run is its seed.

In: a seed and a `Weather`. Out: a run that has come to rest, or an AssertionError that names the seed.
What is pretended: the clock, packets (late, out of order, twice), arenas, engines that echo at their own
pace, clients that stall, cancel or time out, processes that die at any moment. What is real: every `Node`.
"""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from accord.run import frames
from accord.run.frames import Data, Frame, Hop
from accord.run.jobs import NodeJob
from accord.run.node import Node
from accord.terms.graph import DOOR, Batching, Capability, Edge, Payload, Stage, StageGraph
from accord.terms.request import ErrorCode

WINDOW = 20_000
ARENA = 200_000
MS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """How bad the world is. Chances are for each event; times in ms."""

    reorder: bool = False
    repeat: float = 0.0
    kills: int = 0
    cancel: float = 0.0
    stall: float = 0.0
    fail: float = 0.0
    deadline_ms: int = 60_000
    requests: int = 15


def diamond() -> StageGraph:
    """door -> a, b; a -> c; b -> c; c -> d; c and d -> door: a join, a fan-out and a chain."""
    names = ("a", "b", "c", "d")
    pairs = ((DOOR, "a"), (DOOR, "b"), ("a", "c"), ("b", "c"), ("c", "d"), ("c", DOOR), ("d", DOOR))
    return StageGraph(
        model="diamond",
        stages=tuple(Stage(name=n, capabilities=(Capability.PREPROCESS,), batching=Batching.PLAIN) for n in names),
        edges=tuple(
            Edge(name=f"{s}-{t}", source=s, target=t, payload=Payload.TEXT, window_bytes=WINDOW) for s, t in pairs
        ),
    )


class PretendedMemory:
    """An arena whose places are never reused in silence: a freed place is overwritten."""

    def __init__(self) -> None:
        self.places: dict[int, bytearray] = {}
        self.used = 0
        self._next = 0

    def allocate(self, size_bytes: int) -> int | None:
        if self.used + size_bytes > ARENA:
            return None
        self._next += 1
        self.places[self._next] = bytearray(size_bytes)
        self.used += size_bytes
        return self._next

    def fits(self, size_bytes: int) -> bool:
        return size_bytes <= ARENA

    def write(self, offset: int, buffers: tuple[bytes | memoryview, ...]) -> None:
        self.places[offset][:] = b"".join(buffers)

    def free(self, offset: int) -> None:
        place = self.places.pop(offset)
        self.used -= len(place)
        place[:] = b"\xff" * len(place)

    def view(self, offset: int, size_bytes: int) -> memoryview:
        assert offset in self.places, "a payload is read after it was freed"
        return memoryview(self.places[offset])[:size_bytes]


@dataclass
class Held:
    """A chunk in an engine's hands; its bytes must not change before it is released."""

    edge: int
    view: memoryview
    expected: bytes
    release: Callable[[], None]
    index: int


@dataclass
class Work:
    """A job as a pretended engine or client sees it."""

    held: list[Held] = field(default_factory=list)
    ended: bool = False


class Member:
    """One node with its pretended engine (or, for the door, its clients)."""

    def __init__(self, world: "World", node_id: int, stage: str) -> None:
        self.world = world
        self.stage = stage
        self.memory = PretendedMemory()
        self.work: dict[int, Work] = {}
        self.closed_rids: list[int] = []
        self.node = Node(
            node_id=node_id,
            edges=world.graph.edges,
            memory=self.memory,
            owner=self,
            clock=lambda: world.now,
            accepts=stage != DOOR,
        )

    def opened(self, job: NodeJob) -> None:
        self.work[job.rid] = Work()

    def chunk(self, job: NodeJob, frame: Data, edge: int, release: Callable[[], None]) -> None:
        view = self.node.view(job.inputs[edge].peer, frame)
        self.work[job.rid].held.append(Held(edge, view, bytes(view), release, frame.index))

    def input_ended(self, job: NodeJob, edge: int, usage: bytes) -> None:
        assert edge in job.inputs
        if job.expected == 0:
            self.work[job.rid].ended = True

    def dropped(self, job: NodeJob, code: ErrorCode, text: str) -> None:
        assert text
        work = self.work.pop(job.rid, None)
        assert work is not None, "a job is dropped twice"
        for held in work.held:
            self._read(held)
        if self.stage == DOOR:
            self.world.client_failed(job.rid, code)

    def closed(self, job: NodeJob) -> None:
        assert job.rid not in self.closed_rids, "a job leaves twice"
        self.closed_rids.append(job.rid)
        work = self.work.pop(job.rid, None)
        if self.stage == DOOR:
            self.world.client_closed(job.rid, complete=work is not None and work.ended)

    def reach(self, peer: int) -> None:
        pass

    def turn(self) -> None:
        """One turn of an engine: takes at most one chunk of some jobs that aren't blocked."""
        dice = self.world.dice
        for rid, work in list(self.work.items()):
            # An engine works for no job that is blocked; a client reads whatever else is blocked.
            blocked = rid in self.node.blocked and self.stage != DOOR
            if blocked or dice.random() < 0.5 or rid not in self.work:
                continue
            if self.stage == DOOR:
                self.world.client_turn(rid, work, self)
            elif work.held:
                held = work.held.pop(0)
                data = self._read(held)
                if dice.random() < self.world.weather.fail / 10:
                    for other in work.held:
                        self._read(other)
                    del self.work[rid]
                    self.node.fail(rid, ErrorCode.ENGINE, "the engine says no")
                else:
                    self.node.send(rid, Payload.TEXT, (data,), index=held.index)
            elif work.ended:
                del self.work[rid]
                self.node.finish(rid, b"")

    def _read(self, held: Held) -> bytes:
        data = bytes(held.view)
        assert data == held.expected, "a payload changed while it was on loan"
        held.release()
        return data

    take = _read


@dataclass
class Client:
    """What a client sent, got and was told. Exactly one of done, code and cancelled ends it."""

    sent: dict[int, list[bytes]]
    got: dict[int, list[bytes]] = field(default_factory=dict)
    done: bool = False
    code: ErrorCode | None = None
    cancelled: bool = False
    left: bool = False
    nodes: set[int] = field(default_factory=set)


class World:
    """The network, the clock and the clients."""

    def __init__(self, seed: int, weather: Weather) -> None:
        self.seed = seed
        self.weather = weather
        self.dice = random.Random(seed)
        self.graph = diamond()
        self.now = 0
        self.members: dict[int, Member] = {}
        self.clients: dict[int, Client] = {}
        self._packets: list[tuple[int, int, int, int, list[Frame]]] = []
        self._sent = 0
        self._last: dict[tuple[int, int], int] = {}
        self._goodbyes: list[tuple[int, int, int]] = []
        self._forgets: list[tuple[int, int, int]] = []
        self._kills_left = weather.kills
        self._next_node = 1
        self._next_rid = 1
        self._add(DOOR)
        for stage in self.graph.stages:
            for _ in range(2 if stage.name in {"b", "c"} else 1):
                self._add(stage.name)

    def run(self) -> None:
        """Until everything has come to rest; AssertionError, with the seed, when it doesn't."""
        try:
            for _ in range(200_000):
                self._tick()
                if self._at_rest():
                    break
            self._check()
        except Exception as error:
            raise AssertionError(f"{error!r}; repeat it with World({self.seed}, {self.weather}).run()") from error

    # Clients.

    def client_turn(self, rid: int, work: Work, door: Member) -> None:
        client = self.clients[rid]
        if self.dice.random() < self.weather.cancel / 20:
            client.cancelled = True
            del door.work[rid]
            for held in work.held:
                door.take(held)
            door.node.cancel(rid)
            self._forget_later(rid)
        elif work.held and self.dice.random() >= self.weather.stall:
            held = work.held.pop(0)
            client.got.setdefault(held.edge, []).append(door.take(held))

    def client_failed(self, rid: int, code: ErrorCode) -> None:
        client = self.clients[rid]
        assert client.code is None, "a client is told twice"
        assert client.cancelled or code is not ErrorCode.CANCELLED, "a failure is told as a cancel"
        client.code = code
        self._forget_later(rid)

    def client_closed(self, rid: int, *, complete: bool) -> None:
        client = self.clients[rid]
        client.left = True
        client.done = complete and client.code is None and not client.cancelled

    # The world's parts.

    def _add(self, stage: str) -> int:
        node_id = 0 if stage == DOOR else self._next_node
        self._next_node += stage != DOOR
        member = Member(self, node_id, stage)
        for other_id, other in self.members.items():
            if any({e.source, e.target} == {stage, other.stage} for e in self.graph.edges):
                member.node.connect(other_id, other.memory)
                other.node.connect(node_id, member.memory)
        self.members[node_id] = member
        return node_id

    def _tick(self) -> None:
        self.now += self.dice.randrange(1, 3) * MS
        if len(self.clients) < self.weather.requests and self.dice.random() < 0.3:
            self._submit()
        if self._kills_left and self.dice.random() < 0.02:
            self._kill()
        self._deliver()
        for node_id in self.dice.sample(sorted(self.members), len(self.members)):
            member = self.members[node_id]
            member.node.expire()
            member.turn()
            member.node.room_freed()
            for peer, packet in member.node.take_frames():
                self._post(node_id, peer, packet)
            self._check_blocked(member)

    def _submit(self) -> None:
        rid = self._next_rid
        self._next_rid += 1
        choice = {DOOR: 0}
        for stage in self.graph.stages:
            choice[stage.name] = self.dice.choice([i for i, m in self.members.items() if m.stage == stage.name])
        route = tuple(Hop(n, choice[e.source], choice[e.target]) for n, e in enumerate(self.graph.edges))
        sizes = (10, 3000, 12_000, 30_000)
        sent = {
            n: [self._block(rid, n, k, self.dice.choice(sizes)) for k in range(self.dice.randrange(1, 6))]
            for n in (0, 1)
        }
        self.clients[rid] = Client(sent=sent, nodes=set(choice.values()))
        door = self.members[0].node
        door.begin(rid, route, b"", self.now + self.weather.deadline_ms * MS)
        for edge, blocks in sent.items():
            for index, block in enumerate(blocks):
                door.send_on(rid, edge, block, index)
        door.end_outputs(rid)

    def _block(self, rid: int, edge: int, index: int, size: int) -> bytes:
        return f"{rid}/{edge}/{index}:".encode() + self.dice.randbytes(size)

    def _post(self, sender: int, receiver: int, packet: list[Frame]) -> None:
        copies = 2 if self.dice.random() < self.weather.repeat else 1
        if self.weather.reorder:
            loads = [[frame] for frame in packet] if self.dice.random() < 0.5 else [packet]
        else:
            loads = [packet]
        for load in loads * copies:
            due = self.now + self.dice.randrange(0, 5) * MS
            if not self.weather.reorder:
                due = max(due, self._last.get((sender, receiver), 0))
                self._last[sender, receiver] = due
            self._sent += 1
            heapq.heappush(self._packets, (due, self._sent, sender, receiver, frames.decode(frames.encode(load))))

    def _deliver(self) -> None:
        while self._packets and self._packets[0][0] <= self.now:
            _, _, sender, receiver, packet = heapq.heappop(self._packets)
            if receiver in self.members and self.members[receiver].node.knows(sender):
                self.members[receiver].node.receive(sender, packet)
        for due, receiver, dead in [g for g in self._goodbyes if g[0] <= self.now]:
            self._goodbyes.remove((due, receiver, dead))
            if receiver in self.members:
                self.members[receiver].node.disconnect(dead)
        for due, receiver, rid in [f for f in self._forgets if f[0] <= self.now]:
            self._forgets.remove((due, receiver, rid))
            if receiver in self.members:
                self.members[receiver].node.forget(rid)

    def _forget_later(self, rid: int) -> None:
        for node_id in self.clients[rid].nodes - {0}:
            self._forgets.append((self.now + self.dice.randrange(0, 20) * MS, node_id, rid))

    def _kill(self) -> None:
        self._kills_left -= 1
        victim = self.dice.choice([i for i in self.members if i != 0])
        stage = self.members.pop(victim).stage
        for node_id in self.members:
            if self.members[node_id].node.knows(victim):
                self._goodbyes.append((self.now + self.dice.randrange(0, 8) * MS, node_id, victim))
        self._add(stage)

    def _check_blocked(self, member: Member) -> None:
        for rid, job in member.node.jobs.items():
            waits = any(sender.waiting for sender in job.outputs.values())
            assert job.over or waits == (rid in member.node.blocked), "blocked is out of step with what waits"
            for sender in job.outputs.values():
                limit = WINDOW + WINDOW // 2 + 30_000 + 20
                assert sender.under_way <= limit, f"{sender.under_way} bytes are under way"

    def _at_rest(self) -> bool:
        return (
            len(self.clients) == self.weather.requests
            and not self._packets
            and not self._goodbyes
            and not self._forgets
            and all(not m.node.jobs for m in self.members.values())
        )

    def _check(self) -> None:
        assert self._at_rest(), [(m.stage, len(m.node.jobs)) for m in self.members.values()]
        for member in self.members.values():
            assert member.memory.used == 0, f"{member.stage} still has {member.memory.used} bytes on loan"
            assert not member.node.blocked
            member.node.room_freed()
            assert not member.node._waiting_for_room, "a sender that waits for nothing is remembered"
            assert not member.work
        for rid, client in self.clients.items():
            ends = (client.done, client.code is not None, client.cancelled)
            assert sum(ends) == 1, f"request {rid} ended as {ends}"
            assert client.left
            if client.done:
                self._check_data(rid, client)

    def _check_data(self, rid: int, client: Client) -> None:
        sent = sorted(block for blocks in client.sent.values() for block in blocks)
        for edge in (5, 6):
            got = client.got.get(edge, [])
            assert sorted(got) == sent, f"request {rid} lost or repeated a chunk on edge {edge}"
            for number, blocks in client.sent.items():
                mine = [block for block in got if block.startswith(f"{rid}/{number}/".encode())]
                assert mine == blocks, f"request {rid}: chunks of edge {number} changed their order"
