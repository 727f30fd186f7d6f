"""A replica: one process, one engine, one thread, one loop that sleeps until something happens.

In: a control socket (its descriptor is the only argument). Out: nothing but frames and control messages.
Invariant: the loop waits in the poller or works in a step, and is accounted for in exactly one activity.
"""

import ctypes
import gc
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from functools import lru_cache

import msgspec

from accord.run import attribution, engines
from accord.run.arena import Arena, ArenaReader
from accord.run.control import (
    Attach,
    Broken,
    Down,
    Finished,
    Forget,
    Ready,
    Row,
    Spans,
    Start,
    Stop,
    Trace,
    Up,
    replica_wire,
)
from accord.run.frames import TEXT_CHARS_MAX, Data, Frame, link_wire
from accord.run.jobs import NodeJob
from accord.run.node import Node
from accord.run.ports import Chunk, Emission, Engine, Job, JobDone, Waking
from accord.run.wire import Wire
from accord.terms.errors import AccordError, BadInput
from accord.terms.request import ErrorCode, Params

PACKETS_A_TURN = 16
# After a small packet there is seldom a second one: asking costs more than the poller's telling.
PACKET_FULL = 24
# Departures are told together: each telling wakes the door.
ROWS_WAIT_NS = 3_000_000
ROWS_MAX = 128
_PR_SET_PDEATHSIG = 1
_encode_usage = msgspec.msgpack.Encoder().encode
_params_decoder = msgspec.msgpack.Decoder(Params)


@lru_cache(maxsize=4096)
def _params(data: bytes) -> Params:
    return _params_decoder.decode(data)


class Replica:
    """The loop, and the owner of its node."""

    def __init__(self, control: Wire[Up, Down], start: Start, fds: list[int]) -> None:
        self._control = control
        self._edges = start.edges
        self._arena = Arena(fds[0], start.arena_bytes)
        self._meter = attribution.Meter(fds[1])
        self._node = Node(
            node_id=start.node_id, edges=start.edges, memory=self._arena, owner=self, clock=time.monotonic_ns
        )
        self._links: dict[int, tuple[int, Wire[Frame, Frame]]] = {}
        self._wires: dict[int, Wire[Frame, Frame]] = {}
        self._sources: dict[tuple[int, ...], frozenset[str]] = {}
        self._jobs: dict[int, Job] = {}
        self._rows: list[Row] = []
        self._served = 0
        self._running = True
        self._more = False
        self._poll = select.epoll()
        self._poll.register(control.fileno(), select.EPOLLIN)
        self._engine: Engine = engines.load(start.spec)
        self._wake_fd = self._engine.wake_fd() if isinstance(self._engine, Waking) else None
        if self._wake_fd is not None:
            self._poll.register(self._wake_fd, select.EPOLLIN)

    def run(self) -> None:
        """Serves until the supervisor says Stop or goes away."""
        while self._running:
            self._meter.enter(self._waiting())
            events = self._poll.poll(self._timeout_s())
            self._meter.enter(attribution.TRANSFERRING)
            self._take(events)
            self._node.expire()
            if events or self._more:
                self._step()
                for peer, frames in self._node.take_urgent():
                    self._send(peer, frames)
            self._flush()

    def opened(self, job: NodeJob) -> None:
        """A request has reached this replica."""
        edges = tuple(job.inputs)
        sources = self._sources.get(edges)
        if sources is None:
            sources = self._sources[edges] = frozenset(self._edges[edge].source for edge in edges)
        self._jobs[job.rid] = Job(request_id=job.rid, params=_params(job.params), inputs=sources)

    def chunk(self, job: NodeJob, frame: Data, edge: int, release: Callable[[], None]) -> None:
        """An input chunk goes to the engine."""
        terms = self._edges[edge]
        view = self._node.view(job.inputs[edge].peer, frame)
        chunk = Chunk(
            source=terms.source, payload=terms.payload, index=frame.index, data=view, meta=frame.meta, release=release
        )
        self._engine.feed(self._jobs[job.rid], chunk)

    def input_ended(self, job: NodeJob, edge: int, usage: bytes) -> None:
        """The engine learns that all inputs have ended."""
        if job.expected == 0:
            self._engine.feed(self._jobs[job.rid], None)

    def dropped(self, job: NodeJob, code: ErrorCode, text: str) -> None:
        """The engine forgets the job, which may make room in it for one that waits."""
        self._engine.cancel(job.rid)
        self._more = True
        self._jobs.pop(job.rid, None)

    def closed(self, job: NodeJob) -> None:
        """The supervisor learns that the job has left."""
        self._jobs.pop(job.rid, None)
        self._served += bool(job.opened_ns)
        self._rows.append(
            Row(job.rid, job.opened_ns, job.first_input_ns, job.first_output_ns, job.ended_ns, job.worked_ns)
        )

    def reach(self, peer: int) -> None:
        """A route names a peer whose link is not up: its Attach must be waiting on the control socket."""
        self._take_control()

    def _waiting(self) -> int:
        if self._more:
            return attribution.TRANSFERRING
        node = self._node
        if not node.jobs:
            return attribution.IDLE
        return attribution.BLOCKED if node.blocked else attribution.STARVED

    def _timeout_s(self) -> float | None:
        if self._more:
            return 0
        due = self._node.next_deadline_ns()
        if self._rows:
            rows_due = self._rows[0].ended_ns + ROWS_WAIT_NS
            due = rows_due if due is None else min(due, rows_due)
        return None if due is None else max(0.0, (due - time.monotonic_ns()) / 1e9)

    def _take(self, events: list[tuple[int, int]]) -> None:
        # Control first: a route may name a peer whose Attach was sent before the request was.
        control = self._control.fileno()
        for fd, mask in events:
            if fd == control:
                if mask & select.EPOLLOUT:
                    self._control.flush()
                    if not self._control.congested:
                        self._poll.modify(control, select.EPOLLIN)
                self._take_control()
        for fd, mask in events:
            if fd in self._links:
                self._take_link(fd, mask)

    def _take_control(self) -> None:
        while True:
            received = self._control.receive()
            if received is None:
                self._running = False
                return
            messages, fds = received
            if not messages:
                return
            for message in messages:
                self._obey(message, fds)

    def _obey(self, message: Down, fds: list[int]) -> None:
        match message:
            case Attach(peer=peer, arena_bytes=size):
                sock_fd, arena_fd = fds
                wire = link_wire(socket.socket(fileno=sock_fd))
                self._links[sock_fd] = (peer, wire)
                self._wires[peer] = wire
                self._node.connect(peer, ArenaReader(arena_fd, size))
                os.close(arena_fd)
                self._poll.register(sock_fd, select.EPOLLIN)
            case Forget(rid=rid):
                self._node.forget(rid)
            case Trace(ticket=ticket):
                spans = list(self._meter.spans)
                for start in range(0, max(1, len(spans)), 1000):
                    part = spans[start : start + 1000]
                    self._control.send([Spans(ticket=ticket, spans=part, last=start + 1000 >= len(spans))])
            case Stop():
                self._running = False
            case Start():
                raise RuntimeError("a replica is started once")

    def _take_link(self, fd: int, mask: int) -> None:
        peer, wire = self._links[fd]
        if mask & select.EPOLLOUT:
            wire.flush()
            if not wire.congested:
                self._poll.modify(fd, select.EPOLLIN)
        for _ in range(PACKETS_A_TURN):
            packet = wire.receive_plain()
            if packet is None:
                self._poll.unregister(fd)
                wire.close()
                del self._links[fd], self._wires[peer]
                self._node.disconnect(peer)
                return
            self._node.receive(peer, packet)
            if len(packet) < PACKET_FULL:
                return

    def _step(self) -> None:
        began = self._meter.enter(attribution.BUSY)
        step = self._engine.step(self._node.blocked)
        ended = self._meter.enter(attribution.TRANSFERRING)
        self._more = step.more
        if step.worked:
            share = (ended - began) // len(step.worked)
            for rid in step.worked:
                if (job := self._node.jobs.get(rid)) is not None:
                    job.worked_ns += share
        node = self._node
        for output in step.outputs:
            rid = output.request_id
            if isinstance(output, Emission):
                node.send(rid, output.payload, output.buffers, index=output.index, meta=output.meta)
            elif isinstance(output, JobDone):
                node.finish(rid, _encode_usage(output.usage) if output.usage is not None else b"")
            else:
                node.fail(rid, output.code, output.text)

    def _flush(self) -> None:
        node = self._node
        if node.blocked:
            before = len(node.blocked)
            node.room_freed()
            self._more = self._more or len(node.blocked) < before
        for peer, frames in node.take_frames():
            self._send(peer, frames)
        rows = self._rows
        if rows and (len(rows) >= ROWS_MAX or time.monotonic_ns() - rows[0].ended_ns >= ROWS_WAIT_NS):
            self._rows = []
            for start in range(0, len(rows), 500):
                self._control.send([Finished(rows=rows[start : start + 500])])
        self._watch_control()
        self._meter.count(active=len(node.jobs), served=self._served, arena_used_bytes=self._arena.used_bytes)

    def _send(self, peer: int, frames: list[Frame]) -> None:
        wire = self._wires.get(peer)
        if wire is not None:
            wire.send(frames)
            if wire.congested:
                self._poll.modify(wire.fileno(), select.EPOLLIN | select.EPOLLOUT)

    def _watch_control(self) -> None:
        if self._control.congested:
            self._poll.modify(self._control.fileno(), select.EPOLLIN | select.EPOLLOUT)


def main(control_fd: int, parent_pid: int) -> int:
    """The process's life: take Start, load, serve. Returns the exit status."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the supervisor ends its replicas itself, in order
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:  # it has gone already: no death of it will be told
        return 3
    control = replica_wire(socket.socket(fileno=control_fd))
    select.select([control.fileno()], [], [], 60)
    received = control.receive()
    if not received or not isinstance(received[0][0], Start):
        return 3
    began = time.monotonic()
    try:
        replica = Replica(control, received[0][0], received[1])
    except AccordError as error:
        control.send([Broken(text=str(error)[:TEXT_CHARS_MAX], final=isinstance(error, BadInput))])
        return error.exit_status
    gc.collect()
    gc.freeze()  # what loading made stays; looking through it again and again would cost each request
    control.send([Ready(load_s=time.monotonic() - began)])
    replica.run()
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
