"""Owns every replica's process: start, links, health, restart, drain, stop.

In: what to launch for each stage. Out: calls of the hooks. Invariant: each child is watched from its
birth; a child that ends unasked is reported once and replaced, after a pause that doubles while it keeps
failing; after `stop` no child is left.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from accord.run import process
from accord.run.control import Broken, Down, Finished, Forget, Ready, Spans, Stop, Trace, Up
from accord.run.linking import link_door, link_peers, neighbours, touches_door
from accord.run.ports import EngineSpec
from accord.run.process import Child
from accord.terms.errors import BrokenEdge
from accord.terms.graph import StageGraph
from accord.terms.status import Activity, Health

LOAD_S_MAX = 180.0
STOP_S_MAX = 5.0
STEP_S_MAX = 60.0
_WATCH_S = 1.0
_PAUSE_S = 0.5
_PAUSE_S_MAX = 30.0
_SETTLED_S = 60.0
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How replicas of one stage are made."""

    spec: EngineSpec
    arena_bytes: int
    replicas: int


class Hooks(Protocol):
    """What the supervisor tells the runtime."""

    def attach(self, child: Child, sock: socket.socket) -> None:
        """The door gets its end of a link to a replica."""
        ...

    def ready(self, child: Child) -> None:
        """A replica serves."""
        ...

    def lost(self, child: Child) -> None:
        """A replica is gone."""
        ...

    def finished(self, child: Child, message: Finished) -> None:
        """Requests have left a replica."""
        ...

    def any_active(self) -> bool:
        """Whether any request is under way."""
        ...


class Supervisor:
    """All replicas of one service; lives in the door's event loop."""

    def __init__(
        self, *, graph: StageGraph, launches: Mapping[str, Launch], hooks: Hooks, door_arena: tuple[int, int]
    ) -> None:
        self._graph = graph
        self._launches = launches
        self._hooks = hooks
        self._door_arena = door_arena
        self._children: dict[int, Child] = {}
        self._next_node = 1
        self._failures: dict[tuple[str, int], int] = {}
        self._stopping = False
        self._waiters: list[asyncio.Future[None]] = []
        self._broken_start = ""
        self._tasks: set[asyncio.Task[None]] = set()
        self._watching = False
        self._traces: dict[int, tuple[list[Spans], asyncio.Future[None]]] = {}
        self._next_trace = 1
        self._pausing: Counter[str] = Counter()  # replicas of a stage that are about to be started again

    @property
    def children(self) -> tuple[Child, ...]:
        """Every replica that is not dead."""
        return tuple(self._children.values())

    async def start(self, progress: Callable[[Child], None] = lambda _: None) -> None:
        """Starts all replicas and waits until they serve; `progress` hears of each one.

        Raises BrokenEdge with the child's own words when one can't, after stopping the others.
        """
        for launch in self._launches.values():
            for ordinal in range(launch.replicas):
                self._spawn(launch, ordinal, restarts=0)
        told: set[int] = set()

        def settled() -> bool:
            for child in self.children:
                if child.health is Health.READY and child.node_id not in told:
                    told.add(child.node_id)
                    progress(child)
            return bool(self._broken_start) or all(child.health is Health.READY for child in self.children)

        try:
            await self._until(settled, LOAD_S_MAX)
        except TimeoutError:
            slow = sorted({child.stage for child in self.children if child.health is Health.STARTING})
            raise BrokenEdge(f"stages {', '.join(slow)} were not ready within {LOAD_S_MAX:.0f} s") from None
        if self._broken_start:
            raise BrokenEdge(self._broken_start)

    async def add(self, stage: str) -> int:
        """Adds a replica while traffic flows; returns its node id once it serves."""
        launch = self._launches[stage]
        used = {child.ordinal for child in self.children if child.stage == stage}
        ordinal = next(number for number in range(len(used) + 1) if number not in used)
        child = self._spawn(launch, ordinal, restarts=0)
        await self._loaded(child)
        if child.health is not Health.READY:
            raise BrokenEdge(child.last_words)
        return child.node_id

    def coming(self, stage: str) -> bool:
        """Whether a replica of the stage is being started, or soon will be."""
        starting = any(child.stage == stage and child.health is Health.STARTING for child in self.children)
        return starting or self._pausing[stage] > 0

    async def whole(self, stage: str) -> None:
        """Waits until no replica of the stage is coming, at most for as long as a load may take."""
        with contextlib.suppress(TimeoutError):
            await self._until(lambda: not self.coming(stage), LOAD_S_MAX)

    def drain(self, node_id: int) -> None:
        """The replica will be retired: should it die before, it isn't replaced."""
        if (child := self._children.get(node_id)) is not None:
            child.health = Health.DRAINING

    def retire(self, node_id: int) -> None:
        """Ends a drained replica: asked first, killed after `STOP_S_MAX`."""
        if (child := self._children.get(node_id)) is not None:
            self._say(child, Stop(), [])
            asyncio.get_running_loop().call_later(STOP_S_MAX, child.popen.kill)

    def forget(self, rid: int, nodes: Iterable[int]) -> None:
        """Tells replicas that a request is over."""
        for node_id in nodes:
            if (child := self._children.get(node_id)) is not None:
                self._say(child, Forget(rid=rid), [])

    async def stop(self) -> None:
        """Ends every replica: asked first, killed after `STOP_S_MAX`; at once if it holds no request yet."""
        self._stopping = True
        for task in list(self._tasks):
            task.cancel()
        for child in self.children:
            if child.health is Health.STARTING:
                child.popen.kill()
            else:
                self._say(child, Stop(), [])
        try:
            await self._until(lambda: not self._children, STOP_S_MAX)
        except TimeoutError:
            for child in self.children:
                child.popen.kill()
            await self._until(lambda: not self._children, STOP_S_MAX)

    def watch(self) -> None:
        """Looks for replicas that hang, once a second for as long as requests are active."""
        if not self._watching and not self._stopping:
            self._watching = True
            asyncio.get_running_loop().call_later(_WATCH_S, self._look)

    async def spans(self) -> dict[int, Spans]:
        """Each replica's spans so far, by node id; a replica that doesn't answer in time is left out."""
        children = [child for child in self.children if child.health is not Health.STARTING]
        asked: dict[int, int] = {}
        for child in children:
            ticket = asked[child.node_id] = self._next_trace
            self._next_trace += 1
            self._traces[ticket] = ([], asyncio.get_running_loop().create_future())
            self._say(child, Trace(ticket=ticket), [])
        try:
            if asked:
                await asyncio.wait([self._traces[ticket][1] for ticket in asked.values()], timeout=2.0)
        finally:
            taken = {node: self._traces.pop(ticket)[0] for node, ticket in asked.items()}
        return {
            node: Spans(ticket=asked[node], spans=[span for part in parts for span in part.spans], last=True)
            for node, parts in taken.items()
        }

    def _spawn(self, launch: Launch, ordinal: int, *, restarts: int) -> Child:
        node_id = self._next_node
        self._next_node += 1
        child = process.spawn(
            launch.spec,
            node_id=node_id,
            ordinal=ordinal,
            edges=self._graph.edges,
            arena_bytes=launch.arena_bytes,
            now_s=time.monotonic(),
        )
        child.restarts = restarts
        self._children[node_id] = child
        loop = asyncio.get_running_loop()
        loop.add_reader(child.control.fileno(), self._hear, child)
        loop.add_reader(child.pid_fd, self._ended, child)
        loop.add_reader(child.stderr_fd, self._overhear, child)
        return child

    def _hear(self, child: Child) -> None:
        for _ in range(16):
            received = child.control.receive()
            if received is None:
                asyncio.get_running_loop().remove_reader(child.control.fileno())
                return
            messages, _ = received
            if not messages:
                return
            for message in messages:
                self._act(child, message)

    def _act(self, child: Child, message: Up) -> None:
        match message:
            case Ready(load_s=load_s):
                child.load_s = load_s
                self._link(child)
                child.health = Health.READY
                self._hooks.ready(child)
                self._notify()
            case Broken():
                child.broken = message
            case Finished():
                self._hooks.finished(child, message)
            case Spans(ticket=ticket, last=last):
                parts, future = self._traces.get(ticket, ([], None))
                parts.append(message)
                if last and future is not None and not future.done():
                    future.set_result(None)

    def _overhear(self, child: Child) -> None:
        if not child.read_stderr():
            asyncio.get_running_loop().remove_reader(child.stderr_fd)

    def _ended(self, child: Child) -> None:
        loop = asyncio.get_running_loop()
        self._hear(child)
        child.popen.wait()
        child.last_words = child.words()
        loop.remove_writer(child.control.fileno())
        for fd in (child.control.fileno(), child.pid_fd, child.stderr_fd):
            loop.remove_reader(fd)
        asked = self._stopping or child.health is Health.DRAINING
        was_ready = child.health is Health.READY
        child.health = Health.DEAD
        del self._children[child.node_id]
        self._hooks.lost(child)
        child.close()
        if not asked:
            self._failed(child, was_ready)
        self._notify()

    def _failed(self, child: Child, was_ready: bool) -> None:
        if not was_ready and child.restarts == 0:
            self._broken_start = child.last_words
            return
        _LOG.warning("replica %d ended: %s", child.ordinal, child.last_words)
        if child.broken is not None and child.broken.final:
            return
        if was_ready and time.monotonic() - child.born_s > _SETTLED_S:
            self._failures.pop((child.stage, child.ordinal), None)
        self._pausing[child.stage] += 1
        task = asyncio.get_running_loop().create_task(self._replace(child))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _replace(self, dead: Child) -> None:
        child: Child | None = None
        while child is None:
            await asyncio.sleep(self._pause_s(dead))
            try:
                child = self._spawn(self._launches[dead.stage], dead.ordinal, restarts=dead.restarts + 1)
            except BrokenEdge as error:
                _LOG.warning("stages.%s: replica %d can't be started again yet: %s", dead.stage, dead.ordinal, error)
        self._pausing[dead.stage] -= 1
        await self._loaded(child)

    def _pause_s(self, dead: Child) -> float:
        slot = (dead.stage, dead.ordinal)
        failures = self._failures.get(slot, 0)
        self._failures[slot] = failures + 1
        return 0.0 if failures == 0 else min(_PAUSE_S_MAX, _PAUSE_S * 2 ** min(failures - 1, 16))

    async def _loaded(self, child: Child) -> None:
        """Waits until a child serves or has ended; one that loads for too long is ended."""
        try:
            await self._until(lambda: child.health is not Health.STARTING, LOAD_S_MAX)
        except TimeoutError:
            child.popen.kill()
            await self._until(lambda: child.health is not Health.STARTING, STOP_S_MAX)

    def _look(self) -> None:
        self._watching = False
        now = time.monotonic_ns()
        for child in self.children:
            if child.health is not Health.STARTING and _hangs(child, now):
                os.kill(child.popen.pid, signal.SIGKILL)
        if self._hooks.any_active():
            self.watch()

    def _link(self, child: Child) -> None:
        around = neighbours(self._graph, child.stage)
        peers = [peer for peer in self.children if peer.health is Health.READY and peer.stage in around]
        link_peers(child, peers, self._say)
        if touches_door(self._graph, child.stage):
            self._hooks.attach(child, link_door(child, self._say, door_arena=self._door_arena))

    def _say(self, child: Child, message: Down, fds: list[int]) -> None:
        child.control.send([message], fds)
        if child.control.congested:
            asyncio.get_running_loop().add_writer(child.control.fileno(), self._flush, child)

    def _flush(self, child: Child) -> None:
        child.control.flush()
        if not child.control.congested:
            asyncio.get_running_loop().remove_writer(child.control.fileno())

    async def _until(self, met: Callable[[], bool], limit_s: float) -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(limit_s):
            while not met():
                waiter = loop.create_future()
                self._waiters.append(waiter)
                await waiter

    def _notify(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


def _hangs(child: Child, now_ns: int) -> bool:
    """Whether a replica has been inside one step for too long; or, wherever it is, deaf for as long.

    Deaf: words to it lie unread, and nothing in it has changed since. Whoever leaves or is late is told so,
    so a replica that holds the places of such requests doesn't stay unnoticed.
    """
    reading = child.page.read()
    if reading.activity is Activity.BUSY:
        return now_ns - reading.since_ns > STEP_S_MAX * 1e9
    if not child.control.unread:
        child.deaf_ns = (0, 0)
    elif child.deaf_ns[0] != reading.since_ns:
        child.deaf_ns = (reading.since_ns, now_ns)
    return child.deaf_ns[1] > 0 and now_ns - child.deaf_ns[1] > STEP_S_MAX * 1e9
