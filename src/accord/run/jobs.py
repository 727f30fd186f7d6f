"""A request at one node, and what a node tells its owner of it.

In: nothing. Out: `NodeJob`, and the Protocols `Owner` and `Reader`.
Invariant: a job that was opened is told `closed` once, and before that `dropped` at most once.
"""

from collections.abc import Callable
from typing import Protocol

from accord.run.frames import Data, Error, decode_route
from accord.run.protocol import RecvEvent, SendEvent
from accord.run.receiver import Receiver
from accord.run.sender import Sender
from accord.terms.graph import Edge
from accord.terms.request import ErrorCode

# Of one node in a route: its input streams and its output streams, each as (edge number, peer, window in bytes).
Layout = tuple[tuple[tuple[int, int, int], ...], tuple[tuple[int, int, int], ...]]


def layout_of(route: bytes, node_id: int, edges: tuple[Edge, ...]) -> Layout:
    """What a node has to do with a route."""
    inputs: list[tuple[int, int, int]] = []
    outputs: list[tuple[int, int, int]] = []
    for hop in decode_route(route):
        window = edges[hop.edge].window_bytes
        if hop.consumer == node_id:
            inputs.append((hop.edge, hop.producer, window))
        elif hop.producer == node_id:
            outputs.append((hop.edge, hop.consumer, window))
    return tuple(inputs), tuple(outputs)


class NodeJob:
    """One request at this node. Times are in nanoseconds of the node's clock, 0 for not yet."""

    __slots__ = (
        "deadline_ns", "ended_ns", "expected", "first_input_ns", "first_output_ns", "inputs", "opened_ns", "outputs",
        "over", "params", "rid", "why", "worked_ns",
    )  # fmt: skip

    def __init__(self, rid: int, params: bytes, deadline_ns: int) -> None:
        self.rid = rid
        self.params = params
        self.deadline_ns = deadline_ns
        self.inputs: dict[int, Receiver] = {}
        self.outputs: dict[int, Sender] = {}
        self.expected = 0  # input streams that have not ended
        self.over = False  # the owner has been told, or has said, that the job is over
        self.why: Error | None = None  # what failed; None while nothing has, and when the client has left
        self.opened_ns = self.first_input_ns = self.first_output_ns = self.ended_ns = self.worked_ns = 0

    def lose(self, peer: int) -> None:
        """The peer is gone: tells every stream that was joined to it."""
        for sender in [s for s in self.outputs.values() if s.peer == peer]:
            sender.apply(SendEvent.LOST)
        for receiver in [r for r in self.inputs.values() if r.peer == peer]:
            receiver.apply(RecvEvent.LOST)


class Owner(Protocol):
    """What a node tells its owner."""

    def opened(self, job: NodeJob) -> None:
        """A request has reached this node."""
        ...

    def chunk(self, job: NodeJob, frame: Data, edge: int, release: Callable[[], None]) -> None:
        """A chunk came on edge number `edge`; `Node.view` gives its bytes until `release`."""
        ...

    def input_ended(self, job: NodeJob, edge: int, usage: bytes) -> None:
        """One input has ended; `job.expected` says how many have not."""
        ...

    def dropped(self, job: NodeJob, code: ErrorCode, text: str) -> None:
        """The job is over before its time: forget it, and release its chunks before returning."""
        ...

    def closed(self, job: NodeJob) -> None:
        """Nothing of the job is left at this node."""
        ...

    def reach(self, peer: int) -> None:
        """A route names a peer without a link: a last chance to connect it."""
        ...


class Reader(Protocol):
    """A peer's arena as this node sees it."""

    def view(self, offset: int, size_bytes: int) -> memoryview:
        """A view of a payload."""
        ...
