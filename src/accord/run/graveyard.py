"""Requests that are over at a node, so that their late frames are known as such.

In: request ids, and why they ended. Out: whether one is over, and why. Invariant: never more than
`GRAVES_MAX` are remembered; the oldest are forgotten first, long after their last frame can still come.
"""

from accord.run.frames import Error

GRAVES_MAX = 8192


class Graveyard:
    """Insertion order is age."""

    def __init__(self) -> None:
        self._graves: dict[int, Error | None] = {}

    def __contains__(self, rid: int) -> bool:
        """Whether the request is known to be over."""
        return rid in self._graves

    def why(self, rid: int) -> Error | None:
        """The error that ended it; None if it ended well or isn't known."""
        return self._graves.get(rid)

    def bury(self, rid: int, why: Error | None) -> None:
        """The request is over."""
        self._graves[rid] = why
        if len(self._graves) > GRAVES_MAX:
            del self._graves[next(iter(self._graves))]
