"""One accepted request at the door.

In: chunks and the end, from the runtime. Out: events, to whoever iterates. Invariant: a chunk keeps its
credit until it is taken, so a client that stops reading stops the stages; one Done or Failed ends it.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace

from accord.run.control import Row
from accord.terms.graph import Payload
from accord.terms.request import Done, Event, Failed, Output, Request, Usage

_KEPT_BYTES_MAX = 4096


@dataclass(slots=True)
class Held:
    """A chunk that the client has not taken."""

    edge: str
    payload: Payload
    index: int
    meta: bytes
    view: memoryview
    release: Callable[[], None]


@dataclass(slots=True)
class Launch:
    """One attempt at a request: a replayed request has more than one. `nodes` have not let go of it yet."""

    rid: int
    route_nodes: frozenset[int]
    nodes: set[int]
    started_ns: int
    at_door: bool = True
    over: bool = False
    ended_ns: int = 0
    usage: Usage | None = None
    rows: list[tuple[int, Row]] = field(default_factory=list)


class LiveTicket:
    """Implements the `Ticket` port. `taken` is called when credit has been given back."""

    __slots__ = (
        "_end", "_held", "_on_cancel", "_on_taken", "_told", "_waiter", "arrived_ns", "attempts", "audio_out_s",
        "edges", "first_audio_ns", "first_text_ns", "last_text_ns", "launch", "launches_open", "request", "size_bytes",
        "visible",
    )  # fmt: skip

    def __init__(
        self,
        request: Request,
        *,
        arrived_ns: int,
        size_bytes: int,
        on_taken: Callable[[], None],
        on_cancel: Callable[["LiveTicket"], None],
    ) -> None:
        self.request = request
        self.edges: tuple[int, ...] = ()
        self.arrived_ns = arrived_ns
        self.size_bytes = size_bytes
        self.launch: Launch | None = None
        self.launches_open = 0
        self.attempts = 0
        self.visible = False
        self.first_text_ns = 0
        self.last_text_ns = 0
        self.first_audio_ns = 0
        self.audio_out_s = 0.0
        self._held: deque[Held] = deque()
        self._end: Done | Failed | None = None
        self._told = False
        self._waiter: asyncio.Future[None] | None = None
        self._on_taken = on_taken
        self._on_cancel = on_cancel

    @property
    def ended(self) -> bool:
        """Whether the end is known, taken or not."""
        return self._end is not None

    def cancel(self) -> None:
        """Stops the request everywhere; does nothing once it has ended."""
        if self._end is None:
            self._on_cancel(self)

    def hold(self, held: Held) -> None:
        """A chunk has come."""
        self._held.append(held)
        self._wake()

    def end(self, end: Done | Failed) -> None:
        """The request is over. A failure overtakes chunks that were not taken, and gives them back."""
        if self._end is not None:
            return
        self._end = end
        if isinstance(end, Failed):
            self.forget_held()
        self._wake()

    def start_over(self) -> None:
        """Another launch will answer: what came of the last one is given back, and nobody has seen it."""
        self.forget_held()
        self.first_text_ns = self.last_text_ns = self.first_audio_ns = 0
        self.audio_out_s = 0.0

    def forget_inputs(self) -> None:
        """No launch needs them any more: tickets are kept for the time line, and inputs may be large."""
        if self.size_bytes > _KEPT_BYTES_MAX:
            self.request = replace(self.request, parts=())

    def forget_held(self) -> None:
        """Gives back what was not taken."""
        while self._held:
            self._held.popleft().release()

    def __aiter__(self) -> AsyncIterator[Event]:
        """The events, one iterator for all callers."""
        return self

    async def __anext__(self) -> Event:
        """The next event; waits for as long as the request lives, which its deadline bounds."""
        while not self._held:
            if self._end is not None:
                if self._told:
                    raise StopAsyncIteration
                self._told = True
                return self._end
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        held = self._held.popleft()
        data = bytes(held.view)
        held.release()
        self.visible = True
        self._on_taken()
        return Output(edge=held.edge, payload=held.payload, index=held.index, data=data, meta=held.meta)

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
