"""The sweep: every operator gets its share of the time, and each point is asked once.

In: an examiner, rows, a model's points, what an earlier sweep has asked. Out: examined points, one after the other.
Invariant: whoever takes them may stop at any point, and go on later with what was yielded as `known`.
"""

import heapq
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from accord.terms.quirk import Point, Trait
from accord.verify.examine import Examined, Examiner
from accord.verify.findings import Verdict
from accord.verify.operators.row import OperatorRow
from accord.verify.points import series

_TURN_S_MAX = 2.0  # what one point may count as: a single large call doesn't cost an operator all its turns
_LACKING_MAX = 4  # so many answers that it lacks a word (a dtype), and no other, and the sweep believes it
_SKIPPED_MAX = 2_000  # points in a row that needn't be asked: then the device has no other words


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
        self._points = series(row, order.model, random.Random(f"{order.seed} {row.name}"))
        self._lacking: Counter[Trait] = Counter()
        self._answered: set[Trait] = set()

    def next(self, known: Mapping[Point, Examined]) -> Point | None:
        """The next point that isn't known, and has no word that the device lacks; None at the end."""
        for _ in range(_SKIPPED_MAX):
            point = next(self._points, None)
            if point is None:
                return None
            if point in known:
                self.take(known[point])
            elif not any(self._lacks(trait) for trait in point.traits):
                return point
        return None

    def take(self, examined: Examined) -> None:
        """Learns which words the device lacks."""
        if examined.verdict is Verdict.UNSUPPORTED:
            self._lacking.update(examined.point.traits)
        else:
            self._answered.update(examined.point.traits)

    def _lacks(self, trait: Trait) -> bool:
        return trait not in self._answered and self._lacking[trait] >= _LACKING_MAX


def sweep(
    examiner: Examiner, order: Order, *, known: Mapping[Point, Examined], now_s: Callable[[], float]
) -> Iterator[Examined]:
    """Yields points with their verdicts until the budget or all series end; the known ones aren't asked again."""
    ends_s = now_s() + order.budget_s
    turns = {name: _Turn(row, order) for name, row in order.rows.items()}
    # The operator whose cost times its points is least comes next, so that one with dear points gets fewer of them and
    # yet more time; the place in the table decides between equals.
    costs = dict.fromkeys(turns, 0.0)
    counts = dict.fromkeys(turns, 0)
    queue = [(0.0, place, name) for place, name in enumerate(turns)]
    while queue and now_s() < ends_s:
        _, place, name = heapq.heappop(queue)
        turn, started_s = turns[name], now_s()
        point = turn.next(known)
        if point is None:
            continue
        examined = examiner.examine(point)
        turn.take(examined)
        costs[name] += min(now_s() - started_s, _TURN_S_MAX)
        counts[name] += 1
        heapq.heappush(queue, (costs[name] * counts[name], place, name))
        yield examined
