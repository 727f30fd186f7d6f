"""What a sweep leaves behind: each point with its verdict, and what they come to for each operator.

In: nothing. Out: `Mark`, `OperatorFindings`, `Findings`. Invariant: a point that nobody could judge is counted as
such, and never as right.
"""

from dataclasses import dataclass
from enum import StrEnum

from accord.terms.quirk import Point, Quirk
from accord.verify.ports import Description
from accord.verify.space import Space


class Verdict(StrEnum):
    """What is known of a point."""

    RIGHT = "right"
    FAULT = "fault"
    PRECISION = "precision"  # drifts as low precision does; not a fault
    UNDECIDED = "undecided"  # the witnesses disagree
    UNSUPPORTED = "unsupported"  # the device said that it can't


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One point, and its verdict."""

    point: Point
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorFindings:
    """One operator: every point that was asked, the faults in it, and in words how far precision drifts."""

    space: Space
    marks: tuple[Mark, ...]
    quirks: tuple[Quirk, ...] = ()
    drift: str | None = None

    def count(self, verdict: Verdict) -> int:
        """How many points have this verdict."""
        return sum(mark.verdict is verdict for mark in self.marks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The whole sweep. `ended`: in words, why it stopped, if it didn't reach the end of its list."""

    device: Description
    witnesses: tuple[str, ...]
    operators: tuple[OperatorFindings, ...]
    found: str  # a date, YYYY-MM-DD
    took_s: float
    ended: str | None = None

    @property
    def quirks(self) -> tuple[Quirk, ...]:
        """The faults of all operators."""
        return tuple(quirk for operator in self.operators for quirk in operator.quirks)
