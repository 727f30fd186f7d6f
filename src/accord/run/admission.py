"""Who may come in: a bound on active requests, a bounded queue, and a refusal that says when to return.

In: arrivals and departures. Out: admission, or Overloaded. Invariant: nobody waits longer than the plan's
bound, and nobody is let into the queue whose turn is not expected within it.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable

from accord.terms.errors import BadInput, Overloaded
from accord.terms.plan import AdmissionLimits

_MEMORY = 0.1  # the weight of the newest service time in their running mean


class Admission:
    """First come, first served."""

    def __init__(self, limits: AdmissionLimits, clock: Callable[[], float]) -> None:
        self._limits = limits
        self._clock = clock
        self.active = 0
        self.inflight_bytes = 0
        self._queue: deque[tuple[asyncio.Future[None], int]] = deque()
        self._service_s = 0.0

    @property
    def queued(self) -> int:
        """How many wait."""
        return len(self._queue)

    def expected_wait_s(self) -> float:
        """How long a newcomer would wait, from the mean service time; 0 when there is room."""
        if self.active < self._limits.active_max and not self._queue:
            return 0.0
        return (len(self._queue) + 1) * self._service_s / self._limits.active_max

    async def enter(self, size_bytes: int, *, within_s: float = math.inf) -> None:
        """Returns once the request may start. Every `enter` that returns needs one `leave`.

        `within_s`: a start after that would be of no use to the request. Raises Overloaded when the queue is
        full or the wait would be too long, BadInput when the inputs alone exceed the memory set aside for inputs.
        """
        limits = self._limits
        if size_bytes > limits.inflight_bytes_max:
            raise BadInput(
                field="body",
                value=f"{size_bytes} bytes of input",
                problem=f"the service holds at most {limits.inflight_bytes_max} bytes",
                fix="send less at once",
            )
        if not self._queue and self._has_room(size_bytes):
            self._take(size_bytes)
            return
        wait_s, wait_s_max = self.expected_wait_s(), min(limits.queue_s_max, within_s)
        if len(self._queue) >= limits.queue_max or wait_s > wait_s_max:
            raise Overloaded(
                f"the service is full: {self.active} requests are active and {len(self._queue)} wait; "
                f"the expected wait is {wait_s:.1f} s (limit {wait_s_max:.1f} s); try again later",
                retry_after_s=max(1.0, wait_s),
            )
        await self._wait(size_bytes, wait_s_max)

    def leave(self, size_bytes: int, service_s: float | None) -> None:
        """A request is over, everywhere. `service_s` None: it was never served, so it says nothing of service times."""
        self.active -= 1
        self.inflight_bytes -= size_bytes
        if service_s is not None:
            mean = self._service_s or service_s
            self._service_s = (1 - _MEMORY) * mean + _MEMORY * service_s
        self._admit()

    async def _wait(self, size_bytes: int, wait_s_max: float) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (turn, size_bytes)
        self._queue.append(entry)
        try:
            async with asyncio.timeout(wait_s_max):
                await turn
        except TimeoutError:
            self._leave_queue(entry)
            raise Overloaded(
                f"waited {wait_s_max:.1f} s for a place; {self.active} requests are active; try again later",
                retry_after_s=max(1.0, self.expected_wait_s()),
            ) from None
        except asyncio.CancelledError:
            self._leave_queue(entry)
            raise

    def _leave_queue(self, entry: tuple[asyncio.Future[None], int]) -> None:
        if entry in self._queue:
            self._queue.remove(entry)
        elif not entry[0].cancelled():
            # The turn came in the same moment in which the wait was given up: pass it on.
            self.active -= 1
            self.inflight_bytes -= entry[1]
        self._admit()

    def _has_room(self, size_bytes: int) -> bool:
        limits = self._limits
        return self.active < limits.active_max and self.inflight_bytes + size_bytes <= limits.inflight_bytes_max

    def _take(self, size_bytes: int) -> None:
        self.active += 1
        self.inflight_bytes += size_bytes

    def _admit(self) -> None:
        while self._queue and self._has_room(self._queue[0][1]):
            turn, size_bytes = self._queue.popleft()
            if not turn.done():
                self._take(size_bytes)
                turn.set_result(None)
