"""Asks whether a point fails: each point once, within a budget of questions and a deadline.

In: a judge of points (a device, or a rule in tests), what is known already. Out: answers, and the labelled points.
Invariant: the judge is never asked twice for one point, nor after the budget is spent; a spent budget and a verdict
that is undecided are both answered by None, never by a guess.
"""

import time
from collections.abc import Callable, Mapping

from accord.terms.quirk import Point

_PACE_MIN = 8  # questions after which the pace is known

Fails = Callable[[Point], bool | None]


class Oracle:
    """`fails` says True, False, or None where it can't tell."""

    def __init__(
        self,
        fails: Fails,
        *,
        budget: int,
        known: Mapping[Point, bool] | None = None,
        deadline_s: float | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fails = fails
        self._left = self._budget = budget
        self._deadline_s = deadline_s
        self._now_s = now_s
        self._started_s = now_s()
        self._answers: dict[Point, bool | None] = dict(known or {})
        self.asked = 0

    @property
    def spent(self) -> bool:
        """Whether new points are no longer answered."""
        return self._left <= 0 or (self._deadline_s is not None and self._now_s() >= self._deadline_s)

    @property
    def left(self) -> int:
        """How many more new points will be answered, by the budget, and by the deadline at the pace so far."""
        if self.spent:
            return 0
        if self._deadline_s is None or self.asked < _PACE_MIN:
            return self._left
        now_s = self._now_s()
        pace_s = (now_s - self._started_s) / self.asked
        return min(self._left, int((self._deadline_s - now_s) / pace_s)) if pace_s > 0 else self._left

    @property
    def gone(self) -> float:
        """The part of the budget or of the time that is gone, whichever is more."""
        asked = self.asked / max(1, self._budget)
        if self._deadline_s is None:
            return asked
        return max(asked, (self._now_s() - self._started_s) / max(1e-9, self._deadline_s - self._started_s))

    def ask(self, point: Point) -> bool | None:
        """Whether the point fails; None where nobody knows."""
        if point in self._answers:
            return self._answers[point]
        if self.spent:
            return None
        self._left -= 1
        self.asked += 1
        self._answers[point] = answer = self._fails(point)
        return answer

    def knows(self, point: Point) -> bool:
        """Whether the point was asked or given before."""
        return point in self._answers

    def labelled(self) -> tuple[tuple[Point, bool], ...]:
        """All points with an answer, in the order in which they were asked."""
        return tuple((point, answer) for point, answer in self._answers.items() if answer is not None)
