"""The sweep: every operator gets its share of the time, and each point is asked once.

In: an examiner, rows, a model's points, what an earlier sweep has asked. Out: examined points, one after the other.
Invariant: whoever takes them may stop at any point, and go on later with what was yielded as `known`.
"""

import heapq
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from accord.terms.quirk import Point
from accord.verify.examine import Examined, Examiner
from accord.verify.findings import Verdict
from accord.verify.operators.row import OperatorRow
from accord.verify.points import series

_LACKING_MAX = 12  # so many answers that it lacks the operator, and no other, and the sweep believes it


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What to sweep: rows by name, a model's calls, for how long. `seed` decides the random points."""

    rows: Mapping[str, OperatorRow]
    model: Sequence[Point] = ()
    budget_s: float = 300.0
    seed: int = 0


class _Turn:
    """One operator's series, and what it has cost."""

    def __init__(self, row: OperatorRow, order: Order) -> None:
        self.points = series(row, order.model, random.Random(f"{order.seed} {row.name}"))
        self.lacking = 0
        self.answered = False

    def take(self, examined: Examined) -> None:
        if examined.verdict is Verdict.UNSUPPORTED:
            self.lacking += 1
        else:
            self.answered = True

    @property
    def hopeless(self) -> bool:
        """Whether the device lacks the operator."""
        return not self.answered and self.lacking >= _LACKING_MAX


def sweep(
    examiner: Examiner, order: Order, *, known: Mapping[Point, Examined], now_s: Callable[[], float]
) -> Iterator[Examined]:
    """Yields points with their verdicts until the budget or all series end; the known ones aren't asked again."""
    ends_s = now_s() + order.budget_s
    turns = {name: _Turn(row, order) for name, row in order.rows.items()}
    # The operator that has cost least comes next; the place in the table decides between equals.
    queue = [(0.0, place, name) for place, name in enumerate(turns)]
    while queue and now_s() < ends_s:
        cost_s, place, name = heapq.heappop(queue)
        turn, started_s = turns[name], now_s()
        point = next((point for point in turn.points if point not in known), None)
        if point is None or turn.hopeless:
            continue
        examined = examiner.examine(point)
        turn.take(examined)
        heapq.heappush(queue, (cost_s + now_s() - started_s, place, name))
        yield examined
