"""When requests are due: a heap that forgets lazily.

In: (time, request id). Out: the ids whose time has passed. Invariant: an id comes out at most once.
Requests that end early stay in the heap until `rebuild`, which the node calls when they outnumber the others.
"""

import heapq
from collections.abc import Iterable, Iterator


class Deadlines:
    """Times are in nanoseconds of whichever clock the caller uses throughout."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int]] = []

    def __len__(self) -> int:
        """How many are remembered, ended requests included."""
        return len(self._heap)

    def add(self, due_ns: int, rid: int) -> None:
        """Remembers one."""
        heapq.heappush(self._heap, (due_ns, rid))

    def passed(self, now_ns: int) -> Iterator[int]:
        """Takes out those whose time has come, earliest first."""
        while self._heap and self._heap[0][0] <= now_ns:
            yield heapq.heappop(self._heap)[1]

    def first_ns(self) -> int | None:
        """The earliest time; None when nothing is remembered."""
        return self._heap[0][0] if self._heap else None

    def rebuild(self, living: Iterable[tuple[int, int]]) -> None:
        """Keeps only these."""
        self._heap = list(living)
        heapq.heapify(self._heap)
