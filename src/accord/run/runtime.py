"""The runtime: a plan, running. Implements the `Service` port.

In: a `Plan`, the folders of its weights, requests. Out: tickets, `ServiceStatus`, a time line.
Invariant: every accepted request ends once; its place is free again only when no replica and no arena
holds anything of it.
"""

import asyncio
import contextlib
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Mapping
from types import TracebackType

from accord.run import arena
from accord.run.admission import Admission
from accord.run.arena import Arena, ArenaReader
from accord.run.control import Finished
from accord.run.door import Door
from accord.run.gauges import Gauges
from accord.run.intake import check_graph, check_request, encode_params, engine_spec
from accord.run.process import Child
from accord.run.readings import replica_status, request_trace
from accord.run.routing import DOOR_NODE, Router
from accord.run.supervisor import Launch as StageLaunch
from accord.run.supervisor import Supervisor
from accord.run.ticket import Launch, LiveTicket
from accord.run.timeline import RequestTrace, chrome_trace
from accord.terms.errors import BadInput, Overloaded
from accord.terms.plan import Plan
from accord.terms.request import Done, ErrorCode, Failed, Request, Usage
from accord.terms.status import Health, ServiceStatus

ATTEMPTS_MAX = 2
DOOR_ARENA_BYTES = 64 << 20
DRAIN_S_MAX = 120.0
_TRACES_MAX = 2048
_DEATH_SEEN_S = 1.0


class Runtime:
    """Use it as an async context manager: it serves inside the block, and leaves nothing behind."""

    def __init__(
        self,
        plan: Plan,
        *,
        assets: Mapping[str, str],
        options: Mapping[str, Mapping[str, str]] | None = None,
        progress: Callable[[str, float], None] = lambda _stage, _load_s: None,
        door_arena_bytes: int = DOOR_ARENA_BYTES,
    ) -> None:
        check_graph(plan.graph)
        self.plan = plan
        self._specs = {
            item.stage: engine_spec(item, assets, (options or {}).get(item.stage, {}), plan.deterministic)
            for item in plan.stages
        }
        self._progress = progress
        self._router = Router(plan.graph)
        self._admission = Admission(plan.admission, time.monotonic)
        self._gauges = Gauges(plan.objectives)
        self._launches: dict[int, tuple[Launch, LiveTicket]] = {}
        self._settled: deque[tuple[Launch, LiveTicket]] = deque(maxlen=_TRACES_MAX)
        self._replays: set[LiveTicket] = set()  # between a lost launch and the next one
        self._next_rid = 1
        self._started_ns = time.monotonic_ns()
        self._replica_came: list[asyncio.Future[None]] = []
        self._load_fell: list[asyncio.Future[None]] = []
        self._places: dict[int, tuple[str, int]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._door_arena_bytes = door_arena_bytes

    async def __aenter__(self) -> "Runtime":
        """Starts every replica. Raises BrokenEdge when one can't start; then nothing is left running."""
        fd = self._door_arena_fd = arena.create("door", self._door_arena_bytes)
        self._door = Door(edges=self.plan.graph.edges, arena=Arena(fd, self._door_arena_bytes), owner=self)
        self._supervisor = Supervisor(
            graph=self.plan.graph,
            launches={
                item.stage: StageLaunch(
                    spec=self._specs[item.stage], arena_bytes=item.arena_bytes, replicas=item.replicas
                )
                for item in self.plan.stages
            },
            hooks=self,
            door_arena=(fd, self._door_arena_bytes),
        )
        try:
            await self._supervisor.start(lambda child: self._progress(child.stage, child.load_s))
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cancels what runs and ends every replica."""
        await self._close()

    async def submit(self, request: Request) -> LiveTicket:
        """Accepts a request, or raises BadInput or Overloaded. See the port."""
        check_request(request, part_bytes_max=self._door_arena_bytes)
        inputs = frozenset(part.edge for part in request.parts)
        edges = self._router.edges(inputs, request.outputs)
        size = sum(len(part.data) for part in request.parts)
        ticket = LiveTicket(
            request,
            arrived_ns=time.monotonic_ns(),
            size_bytes=size,
            on_taken=self._door.flush,
            on_cancel=self._cancel,
        )
        ticket.edges = edges
        self._gauges.submitted += 1
        try:
            await self._admission.enter(size, within_s=request.deadline_s)
        except BaseException as error:
            self._gauges.turned_away(error)
            raise
        if self._router.missing(edges) is not None:
            try:
                await self._await_replicas(ticket)
            except BaseException as error:
                self._admission.leave(size, None)
                self._gauges.turned_away(error)
                raise
        self._launch(ticket)
        self._supervisor.watch()
        return ticket

    def status(self) -> ServiceStatus:
        """A snapshot."""
        graph = self.plan.graph
        children = sorted(self._supervisor.children, key=lambda c: (c.stage, c.ordinal))
        order = {stage.name: number for number, stage in enumerate(graph.stages)}
        replicas = tuple(replica_status(child) for child in sorted(children, key=lambda c: order[c.stage]))
        ready = all(any(r.stage == stage.name and r.health is Health.READY for r in replicas) for stage in graph.stages)
        return ServiceStatus(
            name=self.plan.name,
            graph=graph,
            uptime_s=(time.monotonic_ns() - self._started_ns) / 1e9,
            ready=ready,
            replicas=replicas,
            objectives=self._gauges.objectives(),
            totals=self._gauges.totals(queued=self._admission.queued),
        )

    async def scale(self, stage: str, replicas: int) -> None:
        """Adds or drains replicas of a stage while traffic flows; returns when that is done.

        BadInput for fewer than one: a stage without replicas serves nobody.
        """
        if replicas < 1:
            raise BadInput(field=f"stages.{stage}.replicas", value=replicas, problem="too few", fix="keep at least 1")
        await self._supervisor.whole(stage)
        while len(mine := self._serving(stage)) < replicas:
            await self._supervisor.add(stage)
        drains = [asyncio.get_running_loop().create_task(self._drain(child)) for child in mine[replicas:]]
        for task in drains:
            self._keep(task)
        if drains:
            await asyncio.wait(drains)  # they go on even if the caller leaves

    async def settled(self, limit_s: float = 2.0) -> None:
        """Waits until no request is under way, so that `recent` knows all of them; at most `limit_s`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                while self._launches:
                    waiter = asyncio.get_running_loop().create_future()
                    self._load_fell.append(waiter)
                    await waiter

    async def timeline(self) -> bytes:
        """A Chrome trace (JSON) of replicas and recent requests; opens in ui.perfetto.dev."""
        names = {c.node_id: f"{c.stage}/{c.ordinal}" for c in self._supervisor.children}
        return chrome_trace(names, await self._supervisor.spans(), self.recent)

    @property
    def recent(self) -> tuple[RequestTrace, ...]:
        """The last requests that have ended, with what each stage did for them."""
        return tuple(request_trace(launch, ticket, self._places) for launch, ticket in self._settled)

    def attach(self, child: Child, sock: socket.socket) -> None:
        """A link to a replica."""
        self._door.attach(child.node_id, sock, ArenaReader(child.arena_fd, child.arena_bytes))

    def ready(self, child: Child) -> None:
        """A replica serves: requests that waited for one go on."""
        self._places[child.node_id] = (child.stage, child.ordinal)
        self._router.add(child.stage, child.node_id)
        self._replica_came = _wake(self._replica_came)

    def lost(self, child: Child) -> None:
        """A replica is gone: its requests are replayed, or told."""
        node_id = child.node_id
        self._router.remove(node_id)
        self._door.detach(node_id)
        self._load_fell = _wake(self._load_fell)
        for launch, ticket in list(self._launches.values()):
            if node_id in launch.nodes:
                launch.nodes.discard(node_id)
                if not launch.over and not self._door.has_all(launch.rid):
                    self.broke(launch.rid, ErrorCode.REPLICA_LOST, f"the replica of stage {child.stage} died")
                self._settle(launch, ticket)

    def finished(self, child: Child, message: Finished) -> None:
        """Requests have left a replica."""
        for row in message.rows:
            found = self._launches.get(row.rid)
            if found is not None and child.node_id in found[0].nodes:
                launch, ticket = found
                self._router.left(child.node_id)
                launch.nodes.discard(child.node_id)
                launch.rows.append((child.node_id, row))
                self._settle(launch, ticket)
        self._load_fell = _wake(self._load_fell)

    def any_active(self) -> bool:
        """Whether any request is under way."""
        return bool(self._launches)

    @property
    def door_used_bytes(self) -> int:
        """What the door's own arena holds."""
        return self._door.arena.used_bytes

    def delivered(self, rid: int, usage: Usage | None) -> None:
        """The client has taken everything."""
        launch, ticket = self._launches[rid]
        launch.usage = usage or Usage()
        launch.over = True
        self._finish(ticket, Done(usage=launch.usage))

    def broke(self, rid: int, code: ErrorCode, text: str) -> None:
        """A launch has failed: replay it if the client has seen nothing, else tell the client."""
        found = self._launches.get(rid)
        if found is None or found[0].over:
            return
        launch, ticket = found
        self._abandon(launch)
        if code is ErrorCode.REPLICA_LOST and not ticket.visible and ticket.attempts < ATTEMPTS_MAX:
            ticket.start_over()
            self._gauges.replayed += 1
            self._keep(asyncio.get_running_loop().create_task(self._relaunch(ticket, launch)))
        elif code is ErrorCode.REPLICA_LOST:
            self._keep(asyncio.get_running_loop().create_task(self._tell_loss(ticket, launch)))
        else:
            self._finish(ticket, Failed(code=code, text=text))

    def left_door(self, rid: int) -> None:
        """Nothing is left at the door."""
        found = self._launches.get(rid)
        if found is not None:
            found[0].at_door = False
            self._settle(*found)

    def _launch(self, ticket: LiveTicket) -> None:
        request = ticket.request
        rid = self._next_rid
        self._next_rid += 1
        route = self._router.assign(ticket.edges, request.session)
        nodes = {node for hop in route for node in (hop.producer, hop.consumer)} - {DOOR_NODE}
        launch = Launch(rid=rid, route_nodes=frozenset(nodes), nodes=nodes, started_ns=time.monotonic_ns())
        ticket.launch = launch
        ticket.attempts += 1
        ticket.launches_open += 1
        self._launches[rid] = (launch, ticket)
        deadline_ns = ticket.arrived_ns + int(request.deadline_s * 1e9)
        self._door.begin(ticket, rid=rid, route=route, deadline_ns=deadline_ns, params=encode_params(request.params))

    async def _relaunch(self, ticket: LiveTicket, lost: Launch) -> None:
        self._replays.add(ticket)
        try:
            await self._await_launch(ticket, lost)
        finally:
            self._replays.discard(ticket)
        if not ticket.ended:
            self._launch(ticket)

    async def _await_launch(self, ticket: LiveTicket, lost: Launch) -> None:
        await self._dead_stages(lost)  # the next route must not lead there
        try:
            await self._await_replicas(ticket)
        except Overloaded as error:
            self._finish(ticket, Failed(code=ErrorCode.REPLICA_LOST, text=str(error)))

    async def _tell_loss(self, ticket: LiveTicket, lost: Launch) -> None:
        self._replays.add(ticket)  # so that closing ends it
        try:
            stages = ", ".join(await self._dead_stages(lost)) or "a stage"
        finally:
            self._replays.discard(ticket)
        text = f"the replica of {stages} that worked on this request died; it is being restarted: ask again"
        self._finish(ticket, Failed(code=ErrorCode.REPLICA_LOST, text=text))

    async def _dead_stages(self, lost: Launch) -> list[str]:
        # A peer may tell of a death before the supervisor has seen it.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DEATH_SEEN_S):
                while all(self._router.knows(node) for node in lost.route_nodes):
                    waiter = asyncio.get_running_loop().create_future()
                    self._load_fell.append(waiter)
                    await waiter
        return sorted({self._places[node][0] for node in lost.route_nodes if not self._router.knows(node)})

    async def _await_replicas(self, ticket: LiveTicket) -> None:
        passed_s = (time.monotonic_ns() - ticket.arrived_ns) / 1e9
        limit_s = min(self.plan.admission.queue_s_max, ticket.request.deadline_s - passed_s)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                while (stage := self._router.missing(ticket.edges)) is not None and self._supervisor.coming(stage):
                    waiter = asyncio.get_running_loop().create_future()
                    self._replica_came.append(waiter)
                    await waiter
        if (stage := self._router.missing(ticket.edges)) is not None:
            state = "is being restarted" if self._supervisor.coming(stage) else "can't be started; see the server's log"
            raise Overloaded(f"stage {stage} has no replica now, and {state}", retry_after_s=5.0, serving=False)

    def _cancel(self, ticket: LiveTicket) -> None:
        launch = ticket.launch
        self._finish(ticket, Failed(code=ErrorCode.CANCELLED, text="cancelled by the client"))
        if launch is not None:
            self._abandon(launch)

    def _abandon(self, launch: Launch) -> None:
        launch.over = True
        self._door.cancel(launch.rid)
        self._supervisor.forget(launch.rid, launch.nodes)

    def _finish(self, ticket: LiveTicket, end: Done | Failed) -> None:
        if ticket.ended:
            return
        ticket.end(end)
        self._gauges.ended(ticket, end)
        if ticket.launches_open == 0:
            self._leave(ticket)

    def _settle(self, launch: Launch, ticket: LiveTicket) -> None:
        if launch.nodes or launch.at_door or self._launches.pop(launch.rid, None) is None:
            return
        launch.ended_ns = time.monotonic_ns()
        self._settled.append((launch, ticket))
        ticket.launches_open -= 1
        if ticket.ended and ticket.launches_open == 0:
            self._leave(ticket)

    def _leave(self, ticket: LiveTicket) -> None:
        ticket.forget_inputs()
        self._admission.leave(ticket.size_bytes, (time.monotonic_ns() - ticket.arrived_ns) / 1e9)

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _serving(self, stage: str) -> list[Child]:
        return [c for c in self._supervisor.children if c.stage == stage and c.health is Health.READY]

    async def _drain(self, child: Child) -> None:
        """Lets a replica's requests end; those that take too long are told that it is gone."""
        self._supervisor.drain(child.node_id)
        self._router.close(child.node_id)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S_MAX):
                while self._router.load(child.node_id):
                    waiter = asyncio.get_running_loop().create_future()
                    self._load_fell.append(waiter)
                    await waiter
        self._supervisor.retire(child.node_id)

    async def _close(self) -> None:
        for _, ticket in list(self._launches.values()):
            ticket.cancel()
        for ticket in list(self._replays):
            ticket.cancel()
        for task in list(self._tasks):
            task.cancel()
        await self._supervisor.stop()
        self._door.close()
        os.close(self._door_arena_fd)


def _wake(waiters: list[asyncio.Future[None]]) -> list[asyncio.Future[None]]:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)
    return []
