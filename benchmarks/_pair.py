"""Two processes joined by one real link: the nodes, wires and arenas of replicas, without engines.

In: payloads at the sender. Out: what the receiver made of each, with its clock and its processor time.
Invariant: the receiver reads every byte of a payload in place, and ends when the sender is gone.
"""

import multiprocessing
import os
import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
import numpy as np
from numpy.typing import NDArray

from accord.run import arena
from accord.run.arena import Arena, ArenaReader
from accord.run.frames import Data, Frame, Hop, link_wire
from accord.run.jobs import NodeJob
from accord.run.node import Node
from accord.run.wire import Wire
from accord.terms.errors import BrokenEdge
from accord.terms.graph import Edge, Payload
from accord.terms.request import ErrorCode

SENDER, RECEIVER = 1, 2
BACK_ARENA_BYTES = 1 << 20
LIMIT_S = 60.0
_WINDOW_BYTES = 1 << 18
_RID = 1
_ROUTE = (Hop(0, SENDER, RECEIVER), Hop(1, RECEIVER, SENDER))
_EDGES = (
    Edge(name="there", source="sender", target="receiver", payload=Payload.PCM, window_bytes=_WINDOW_BYTES),
    Edge(name="back", source="receiver", target="sender", payload=Payload.TEXT, window_bytes=_WINDOW_BYTES),
)


class Read(msgspec.Struct, frozen=True, array_like=True):
    """What the receiver says of one payload: its sum, when the last byte was read, its processor time so far."""

    total: int
    read_ns: int
    cpu_ns: int


class _End:
    """One end: a node in a loop that sleeps in a poller, as a replica's does."""

    def __init__(self, node_id: int, sock: socket.socket, *, own: Arena, peers: ArenaReader) -> None:
        self.node = Node(node_id=node_id, edges=_EDGES, memory=own, owner=self, clock=time.monotonic_ns)
        self._peer = SENDER + RECEIVER - node_id
        self._wire: Wire[Frame, Frame] = link_wire(sock)
        self.node.connect(self._peer, peers)
        self._poll = select.epoll()
        self._poll.register(self._wire.fileno(), select.EPOLLIN)

    def flush(self) -> None:
        """Sends what the node has made."""
        for _, queued in self.node.take_frames():
            self._wire.send(queued)

    def turn(self) -> bool:
        """Waits for the peer and acts on what it sent; False when it is gone."""
        if not self._poll.poll(LIMIT_S):
            raise BrokenEdge(f"link: nothing came for {LIMIT_S:.0f} s")
        while packet := self._wire.receive_plain():
            self.node.receive(self._peer, packet)
        if packet is not None:
            self.flush()
        return packet is not None

    def opened(self, job: NodeJob) -> None:
        """Nothing to prepare."""

    def chunk(self, job: NodeJob, frame: Data, edge: int, release: Callable[[], None]) -> None:
        """A payload is here."""
        raise NotImplementedError

    def input_ended(self, job: NodeJob, edge: int, usage: bytes) -> None:
        """The streams stay open for the whole run."""

    def dropped(self, job: NodeJob, code: ErrorCode, text: str) -> None:
        """Only when the peer is gone, which ends the loop."""

    def closed(self, job: NodeJob) -> None:
        """Nothing to give back."""

    def reach(self, peer: int) -> None:
        """Both ends are linked from the start."""


class Pair(_End):
    """The sender, and the owner of the receiver's process."""

    def __init__(self, sock: socket.socket, *, own: Arena, peers: ArenaReader) -> None:
        super().__init__(SENDER, sock, own=own, peers=peers)
        self._memory = own
        self._answer: Read | None = None
        self.peer_cpu_ns = 0  # what the receiver had spent when it last answered
        self.node.begin(_RID, _ROUTE, b"", time.monotonic_ns() + 10**15)

    def chunk(self, job: NodeJob, frame: Data, edge: int, release: Callable[[], None]) -> None:
        """The receiver has read a payload."""
        self._answer = msgspec.msgpack.decode(self.node.view(RECEIVER, frame), type=Read)
        release()

    def pass_on(self, payload: memoryview) -> Read:
        """Sends one payload; returns once it was read and its place in the arena is free again."""
        self._answer = None
        self.node.send(_RID, Payload.PCM, (payload,))
        self.flush()
        while self._answer is None or self._memory.used_bytes:
            if not self.turn():
                raise BrokenEdge("link: the receiver is gone")
        return self._answer


class _Receiver(_End):
    """Reads each payload in place and tells its sum."""

    def chunk(self, job: NodeJob, frame: Data, edge: int, release: Callable[[], None]) -> None:
        """A payload is here: read it, give it back, answer."""
        total = read(np.frombuffer(self.node.view(SENDER, frame), np.uint64))
        read_ns = time.monotonic_ns()
        release()
        answer = Read(total=total, read_ns=read_ns, cpu_ns=time.process_time_ns())
        self.node.send(job.rid, Payload.TEXT, (msgspec.msgpack.encode(answer),))


def read(words: NDArray[np.uint64]) -> int:
    """Reads every byte, once."""
    return int(words.sum())


@contextmanager
def pair(arena_bytes: int) -> Iterator[Pair]:
    """A sender in this process and a receiver in another. The receiver is gone when the block ends."""
    there, back = arena.create("there", arena_bytes), arena.create("back", BACK_ARENA_BYTES)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    child = multiprocessing.get_context("fork").Process(
        target=_receive, args=(ours, theirs, there, back, arena_bytes), daemon=True
    )
    child.start()
    theirs.close()
    try:
        yield Pair(ours, own=Arena(there, arena_bytes), peers=ArenaReader(back, BACK_ARENA_BYTES))
    finally:
        ours.close()
        child.join(timeout=5)
        child.kill()
        child.join()
        os.close(there)
        os.close(back)


def _receive(other: socket.socket, sock: socket.socket, *fds_and_size: int) -> None:
    other.close()  # else this process would keep the sender's end open, and never see it go
    there, back, arena_bytes = fds_and_size
    end = _Receiver(RECEIVER, sock, own=Arena(back, BACK_ARENA_BYTES), peers=ArenaReader(there, arena_bytes))
    while end.turn():
        pass
