"""Where a replica's time goes: one page of shared memory that it writes and the supervisor reads.

In: changes of activity. Out: `Reading`, and spans for the time line. Invariant: a replica is in exactly one
activity at any moment. The page is readable at any time, even while the replica is inside a long step.
"""

import mmap
import time
from collections import deque
from dataclasses import dataclass

from accord.run.control import Span
from accord.terms.status import Activity

ACTIVITIES = tuple(Activity)
NUMBER = {activity: number for number, activity in enumerate(ACTIVITIES)}
BUSY, STARVED, BLOCKED, TRANSFERRING, IDLE = range(5)
SPANS_MAX = 32_768
_SPAN_NS_MIN = 50_000
_READS_MAX = 100
_WORDS = 12
_ACTIVITY, _SINCE, _TIMES, _ACTIVE, _SERVED, _ARENA_USED, _VERSION = 0, 1, 2, 7, 8, 9, 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One reading of a page. `time_ns` follows `Activity`; the present activity is counted up to now."""

    activity: Activity
    since_ns: int
    time_ns: tuple[int, ...]
    active: int
    served: int
    arena_used_bytes: int


class Meter:
    """The replica's side."""

    def __init__(self, fd: int) -> None:
        self._page = memoryview(mmap.mmap(fd, mmap.PAGESIZE)).cast("Q")
        self._now = IDLE
        self._version = 0
        self._since = time.monotonic_ns()
        self._times = [0] * len(ACTIVITIES)
        self.spans: deque[Span] = deque(maxlen=SPANS_MAX)
        self._page[_ACTIVITY], self._page[_SINCE] = IDLE, self._since

    def enter(self, activity: int) -> int:
        """Changes the activity (a number); returns the time of the change in ns."""
        now = time.monotonic_ns()
        before = self._now
        if activity == before:
            return now
        length = now - self._since
        self._times[before] += length
        if length >= _SPAN_NS_MIN and before != IDLE:
            self.spans.append(Span(before, self._since, length))
        page = self._page
        page[_VERSION] = self._version + 1  # odd: the page is being changed, and whoever reads it reads it again
        page[_TIMES + before] = self._times[before]
        page[_SINCE] = now
        page[_ACTIVITY] = activity
        self._version += 2
        page[_VERSION] = self._version
        self._now, self._since = activity, now
        return now

    def count(self, *, active: int, served: int, arena_used_bytes: int) -> None:
        """Publishes the counts."""
        page = self._page
        page[_ACTIVE], page[_SERVED], page[_ARENA_USED] = active, served, arena_used_bytes


class Page:
    """The supervisor's side; read-only."""

    def __init__(self, fd: int) -> None:
        self._page = memoryview(mmap.mmap(fd, mmap.PAGESIZE, prot=mmap.PROT_READ)).cast("Q")

    def read(self) -> Reading:
        """A reading of one moment. If the replica is stopped in the middle of a change, one stretch may be off."""
        for _ in range(_READS_MAX):
            version = self._page[_VERSION]
            words = self._page[:_WORDS].tolist()
            if version % 2 == 0 and self._page[_VERSION] == version:
                break
        activity, since = words[_ACTIVITY], words[_SINCE]
        times = words[_TIMES : _TIMES + len(ACTIVITIES)]
        if since:
            times[activity] += max(0, time.monotonic_ns() - since)
        return Reading(
            activity=ACTIVITIES[activity],
            since_ns=since,
            time_ns=tuple(times),
            active=words[_ACTIVE],
            served=words[_SERVED],
            arena_used_bytes=words[_ARENA_USED],
        )
