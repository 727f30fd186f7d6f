"""One streamed answer between the thread that reads it and the thread that wants it.

In: pieces of text and an ending. Out: the same, joined. Invariant: once `FLOW_BYTES_MAX` are held, `room` is
cleared, so it holds that much plus what one read of the socket brings.
"""

import asyncio
import threading
from dataclasses import dataclass

from accord.terms.request import ErrorCode, Usage

FLOW_BYTES_MAX = 16 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """The request can't go on."""

    code: ErrorCode
    text: str


class Flow:
    """One request's pipe from the lane's thread to the engine's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pieces: list[bytes] = []
        self._size_bytes = 0
        self._ending: Usage | Broken | None = None
        self.room = asyncio.Event()
        self.room.set()
        self.task: asyncio.Task[None] | None = None
        self.cancelled = False

    def put(self, data: bytes) -> None:
        """The lane's side: one piece of text."""
        with self._lock:
            self._pieces.append(data)
            self._size_bytes += len(data)
            if self._size_bytes >= FLOW_BYTES_MAX:
                self.room.clear()

    def reopen(self) -> None:
        """The lane's side: reading may go on, if the flow isn't full again by now."""
        with self._lock:
            if self._size_bytes < FLOW_BYTES_MAX:
                self.room.set()

    def end(self, ending: Usage | Broken) -> None:
        """The lane's side: the last word."""
        with self._lock:
            self._ending = ending

    def take(self) -> tuple[bytes, Usage | Broken | None, bool]:
        """The engine's side: the text so far, the ending if there is one, and whether the lane waits for room."""
        with self._lock:
            data = b"".join(self._pieces)
            was_full = self._size_bytes >= FLOW_BYTES_MAX
            self._pieces.clear()
            self._size_bytes = 0
            return data, self._ending, was_full

    def has_news(self) -> bool:
        """Whether `take` would give something."""
        with self._lock:
            return bool(self._pieces) or self._ending is not None
