"""The door's node, inside an event loop.

In: launches of requests, frames from replicas. Out: chunks for tickets, and the ends of requests.
Invariant: frames made in one turn of the loop leave in one flush at its end.
"""

import asyncio
import socket
import time
from collections.abc import Callable
from typing import Protocol

import msgspec

from accord.run.arena import Arena, ArenaReader
from accord.run.frames import Data, Frame, Route, link_wire
from accord.run.jobs import NodeJob
from accord.run.node import Node
from accord.run.payloads import PCM_RATE_HZ
from accord.run.routing import DOOR_NODE
from accord.run.ticket import Held, LiveTicket
from accord.run.wire import Wire
from accord.terms.graph import Edge, Payload
from accord.terms.request import ErrorCode, Part, Usage

PACKETS_A_TURN = 16
FEW = 4  # with so few requests under way, haste serves better than company
TRANSCRIPT = "transcript"  # what was heard; the first text of the answer is what people wait for
PACKET_FULL = 24  # after a small packet there is seldom a second one
_usage_decoder = msgspec.msgpack.Decoder(Usage)


class DoorOwner(Protocol):
    """What the door tells the runtime."""

    def delivered(self, rid: int, usage: Usage | None) -> None:
        """The client has taken all that it wanted, to the end."""
        ...

    def broke(self, rid: int, code: ErrorCode, text: str) -> None:
        """The request has failed in a stage, or its deadline has passed."""
        ...

    def left_door(self, rid: int) -> None:
        """Nothing of the request is left at the door."""
        ...


class Door:
    """Owns the door's node, arena and links."""

    def __init__(self, *, edges: tuple[Edge, ...], arena: Arena, owner: DoorOwner) -> None:
        self.arena = arena
        self._edges = edges
        self._owner = owner
        self._node = Node(
            node_id=DOOR_NODE, edges=edges, memory=arena, owner=self, clock=time.monotonic_ns, accepts=False
        )
        self._wires: dict[int, Wire[Frame, Frame]] = {}
        self._tickets: dict[int, LiveTicket] = {}
        self._usage: dict[int, Usage] = {}
        self._complete: set[int] = set()
        self._numbers = {edge.name: number for number, edge in enumerate(edges)}
        self._flush_due = False
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_ns = 0
        self._loop = asyncio.get_running_loop()

    def attach(self, peer: int, sock: socket.socket, reader: ArenaReader) -> None:
        """A link to a replica is up."""
        wire = link_wire(sock)
        self._wires[peer] = wire
        self._node.connect(peer, reader)
        self._loop.add_reader(wire.fileno(), self._readable, peer, wire)

    def detach(self, peer: int) -> None:
        """The replica is gone."""
        wire = self._wires.pop(peer, None)
        if wire is not None:
            self._loop.remove_reader(wire.fileno())
            self._loop.remove_writer(wire.fileno())
            wire.close()
            self._node.disconnect(peer)
            self.flush_soon()

    def begin(self, ticket: LiveTicket, *, rid: int, route: Route, deadline_ns: int, params: bytes) -> None:
        """Sends a request's inputs on their way."""
        self._tickets[rid] = ticket
        node = self._node
        node.begin(rid, route, params, deadline_ns)
        self._send_parts(rid, ticket.request.parts)
        node.end_outputs(rid)
        self._set_alarm()
        self.flush()

    def cancel(self, rid: int) -> None:
        """The client, or a replay, wants no more of this."""
        self._complete.discard(rid)
        self._tickets.pop(rid, None)
        self._node.cancel(rid)
        self.flush_soon()

    def has_all(self, rid: int) -> bool:
        """Whether all outputs of a request are here, so that it needs no stage any more."""
        return rid in self._complete

    def flush(self) -> None:
        """Sends what is queued: at once while few requests are under way, else together with the others'.

        Not to be called from what the node tells.
        """
        if len(self._tickets) <= FEW:
            self._flush()
        else:
            self.flush_soon()

    def flush_soon(self) -> None:
        """Sends what is queued, at the end of this turn of the loop."""
        if not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self._flush_now)

    def close(self) -> None:
        """Closes all links."""
        for peer in list(self._wires):
            self.detach(peer)
        if self._alarm is not None:
            self._alarm.cancel()
        self.arena.close()

    def opened(self, job: NodeJob) -> None:
        """Requests begin here: nothing to learn."""

    def chunk(self, job: NodeJob, frame: Data, edge: int, release: Callable[[], None]) -> None:
        """An output chunk goes to its ticket, which gives it back when it is taken."""
        ticket = self._tickets.get(job.rid)
        if ticket is None:
            release()
            return
        terms = self._edges[edge]
        now = time.monotonic_ns()
        if terms.payload is Payload.TEXT and terms.name != TRANSCRIPT:
            ticket.first_text_ns = ticket.first_text_ns or now
            ticket.last_text_ns = now
        elif terms.payload is Payload.PCM:
            ticket.first_audio_ns = ticket.first_audio_ns or now
            ticket.audio_out_s += frame.size / 2 / PCM_RATE_HZ
        view = self._node.view(job.inputs[edge].peer, frame)
        ticket.hold(
            Held(
                edge=terms.name,
                payload=terms.payload,
                index=frame.index,
                meta=frame.meta,
                view=view,
                release=release,
            )
        )

    def input_ended(self, job: NodeJob, edge: int, usage: bytes) -> None:
        """One wanted output is complete; its stage's usage comes with it."""
        if usage:
            said = _usage_decoder.decode(usage)
            before = self._usage.get(job.rid)
            self._usage[job.rid] = said if before is None else _merge(before, said)
        if job.expected == 0:
            self._complete.add(job.rid)

    def dropped(self, job: NodeJob, code: ErrorCode, text: str) -> None:
        """A stage has failed the request, or its deadline has passed."""
        self._complete.discard(job.rid)
        ticket = self._tickets.pop(job.rid, None)
        if ticket is not None:
            ticket.forget_held()
        self._owner.broke(job.rid, code, text)

    def closed(self, job: NodeJob) -> None:
        """Nothing is left here: if all outputs had ended, the client has taken them all."""
        rid = job.rid
        self._tickets.pop(rid, None)
        usage = self._usage.pop(rid, None)
        if rid in self._complete:
            self._complete.discard(rid)
            self._owner.delivered(rid, usage)
        self._owner.left_door(rid)

    def reach(self, peer: int) -> None:
        """The door links before it routes: there is nothing to wait for."""

    def _send_parts(self, rid: int, parts: tuple[Part, ...]) -> None:
        counts: dict[str, int] = {}
        for part in parts:
            index = counts.get(part.edge, 0)
            counts[part.edge] = index + 1
            self._node.send_on(rid, self._numbers[part.edge], part.data, index)

    def _readable(self, peer: int, wire: Wire[Frame, Frame]) -> None:
        for _ in range(PACKETS_A_TURN):
            packet = wire.receive_plain()
            if packet is None:
                self.detach(peer)
                break
            self._node.receive(peer, packet)
            if len(packet) < PACKET_FULL:
                break
        self.flush_soon()

    def _flush_now(self) -> None:
        self._flush_due = False
        self._flush()

    def _flush(self) -> None:
        if self._node.blocked:
            self._node.room_freed()
        for peer, frames in self._node.take_frames():
            wire = self._wires.get(peer)
            if wire is not None:
                wire.send(frames)
                if wire.congested:
                    self._loop.add_writer(wire.fileno(), self._writable, wire)

    def _writable(self, wire: Wire[Frame, Frame]) -> None:
        wire.flush()
        if not wire.congested:
            self._loop.remove_writer(wire.fileno())

    def _set_alarm(self) -> None:
        due = self._node.next_deadline_ns()
        if due is None or (self._alarm is not None and self._alarm_ns <= due):
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_ns = due
        self._alarm = self._loop.call_later(max(0.0, (due - time.monotonic_ns()) / 1e9), self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self._node.expire()
        self._set_alarm()
        self.flush_soon()


def _merge(first: Usage, second: Usage) -> Usage:
    """Stages count different things: tokens come from one, seconds of audio from another."""
    tokens = first if first.completion_tokens else second
    return Usage(
        prompt_tokens=max(first.prompt_tokens, second.prompt_tokens),
        completion_tokens=tokens.completion_tokens,
        audio_s=max(first.audio_s, second.audio_s),
        finish_reason=tokens.finish_reason,
    )
