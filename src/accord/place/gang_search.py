"""Which nodes a gang's replicas go to: the most constrained part first, nodes that lose least first, with backtracking.

In: a `Board`, its `Scores`, a `Gang`, the relations to be held. Out: `Found` or None (impossible); `Spent` when the
bound on work is reached before either is known. Invariant: the board stays as it is; without `Spent` the answer is
complete: replicas of a part are interchangeable, and so are untouched nodes that are alike, and nothing else is cut.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from accord.place.board import Board, Ints
from accord.place.gang_caps import demand_of, dense, enough, node_places
from accord.place.gang_fit import Setting, Spent, Work, extend, fill, near_rules
from accord.place.gang_node import Room, Spot, value
from accord.place.gang_wish import NEAR, Rule, Wish, extra_bytes, wishes_of
from accord.place.online import Scores
from accord.place.score import STEP
from accord.place.worth import Floats
from accord.terms.gang import Bandwidth, Gang, Relation, Scope

_FIRST = 16  # rows that are picked one by one, before it pays to sort them all


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Spots by row of the board, and what they lose, in thousandths of devices."""

    spots: tuple[tuple[int, tuple[Spot, ...]], ...]
    loss: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fill:
    """What stands on one node, what that leaves, and its worth."""

    counts: tuple[int, ...]
    spots: tuple[Spot, ...]
    room: Room
    value: float


@dataclass(slots=True, kw_only=True)
class _Frame:
    """One replica's turn. What was tried to the end isn't tried for the part's later replicas either."""

    wish: Wish
    rows: Iterator[int]
    done: set[int]
    alike: set[tuple[object, ...]]
    row: int | None = None
    before: _Fill | None = None
    touched: set[int] = field(default_factory=set)


class Search:
    """One search. `steps_more` bounds what is tried for a better answer after the first."""

    def __init__(self, board: Board, scores: Scores, gang: Gang, *, held: tuple[Relation, ...], work: Work) -> None:
        self.board, self.scores, self.work = board, scores, work
        self.wishes, self.rules = wishes_of(board, gang, held)
        self.near = near_rules(self.rules)
        self.flows = tuple(item for item in held if isinstance(item, Bandwidth))
        self.gang = gang
        self.at: dict[int, _Fill] = {}
        self.settings: dict[int, tuple[Setting, _Fill]] = {}
        self.memo: dict[tuple[int, tuple[int, ...]], _Fill | None] = {}
        self.best: Found | None = None

    def run(self, steps_more: int, *, careful: bool) -> Found | None:
        """The best that is found; None if there is none. `careful`: what places have is added up first."""
        if not self._bounds(careful):
            return None
        order = self._order()
        least = [float(self.losses[wish.number].min()) for wish in order]
        rest = [sum(least[index:]) for index in range(len(order) + 1)]
        stack = [self._frame(order[0], None)]
        try:
            while stack:
                frame = stack[-1]
                self._undo(frame)
                if not self._next(frame, rest[len(stack)]):
                    stack.pop()
                elif len(stack) < len(order):
                    wish = order[len(stack)]
                    stack.append(self._frame(wish, frame if frame.wish is wish else None))
                elif self._finish():
                    if not steps_more or (self.best and self.best.loss < rest[0] + STEP):
                        break
                    self.work.left = min(self.work.left, steps_more)
        except Spent:
            if self.best is None:
                raise
        return self.best

    def _bounds(self, careful: bool) -> bool:
        """Losses, bounds and places of each part; False if they show that there is no way."""
        wide = len(self.board.nodes)
        self.caps: list[Ints] = []
        self.losses: list[Floats] = []
        for wish, part in zip(self.wishes, self.gang.parts, strict=True):
            loss = self.scores.of(part)[1] * STEP
            cap = self.scores.caps.of(wish, np.isfinite(loss))
            for rule in self.rules:
                if rule.most is not None and rule.scope is Scope.HOST and wish.number in rule.parts:
                    np.minimum(cap, rule.most, out=cap)
            if cap.sum() < wish.replicas:
                return False
            self.caps.append(cap)
            self.losses.append(np.where(cap > 0, loss, math.inf))
        if careful and not enough(self.board, demand_of(self.board, self.wishes), np.zeros(wide, np.int64), 1).all():
            return False
        self.scored = [loss.copy() for loss in self.losses]
        return all(self._place(rule, careful) for rule in self.rules if rule.most is None)

    def _place(self, rule: Rule, careful: bool) -> bool:
        """Rules out places that can't hold all parts of a Together, and ranks the others by what they lose."""
        ids, count = dense(node_places(self.board, rule.scope))
        members = tuple(self.wishes[number] for number in sorted(rule.parts))
        good = np.ones(count, bool)
        if careful:
            good = enough(self.board, demand_of(self.board, members), ids, count)
        ranks = np.zeros(count)
        for wish in members:
            good &= np.bincount(ids, weights=self.caps[wish.number], minlength=count) >= wish.replicas
            lowest = np.full(count, math.inf)
            np.minimum.at(lowest, ids, self.losses[wish.number])
            ranks += wish.replicas * lowest
        ranks[~good] = math.inf
        for wish in members:
            self.scored[wish.number] += ranks[ids]
        return bool(good.any())

    def _order(self) -> list[Wish]:
        """Replicas in the order of their turns: the part with least room first, then those that stand with it."""
        slack = [
            (float(np.minimum(cap, wish.replicas)[np.isfinite(self.scored[wish.number])].sum()) / wish.replicas)
            for wish, cap in zip(self.wishes, self.caps, strict=True)
        ]
        left = set(range(len(self.wishes)))
        order: list[Wish] = []
        near: set[int] = set()
        while left:
            number = min(left, key=lambda n: (n not in near, slack[n], n))
            left.remove(number)
            for rule in self.rules:
                if rule.most is None and number in rule.parts:
                    near |= rule.parts
            order += [self.wishes[number]] * self.wishes[number].replicas
        return order

    def _frame(self, wish: Wish, earlier: _Frame | None) -> _Frame:
        done = set(earlier.done) if earlier else set()
        alike = set(earlier.alike) if earlier else set()
        frame = _Frame(wish=wish, rows=iter(()), done=done, alike=alike, touched=set(self.at))
        frame.rows = self._rows(wish)
        return frame

    def _rows(self, wish: Wish) -> Iterator[int]:
        """Rows that the rules allow, those that lose least first."""
        ranked = np.where(self._allowed(wish), self.scored[wish.number], math.inf)
        for row in self.at:
            if np.isfinite(ranked[row]):
                filled = self._filled(row, wish)
                gain = self.at[row].value - filled.value if filled else math.inf
                ranked[row] += math.floor(gain / STEP + 0.5) * STEP - self.losses[wish.number][row] if filled else gain
        if not len(ranked):
            return
        first = int(ranked.argmin())
        if not np.isfinite(ranked[first]):
            return
        for _ in range(_FIRST):
            yield first
            ranked[first] = math.inf
            first = int(ranked.argmin())
            if not np.isfinite(ranked[first]):
                return
        for row in np.argsort(ranked, kind="stable").tolist():
            if not np.isfinite(ranked[row]):
                return
            yield row

    def _allowed(self, wish: Wish) -> NDArray[np.bool_]:
        good = np.ones(len(self.board.nodes), bool)
        for rule in self.rules:
            if wish.number not in rule.parts or (rule.most is not None and rule.scope in NEAR):
                continue
            places = node_places(self.board, rule.scope)
            there: dict[int, int] = {}
            for row, filled in self.at.items():
                count = sum(filled.counts[number] for number in rule.parts)
                if count:
                    there[int(places[row])] = there.get(int(places[row]), 0) + count
            if rule.most is None:
                for place in list(there)[:1]:
                    good &= places == place
            else:
                self._keep_apart(good, places, there, rule.most)
        return good

    def _keep_apart(self, good: NDArray[np.bool_], places: Ints, there: dict[int, int], most: int) -> None:
        """Rules out places that are full; a node whose place isn't known may stand in any."""
        unknown = sum(count for place, count in there.items() if place < 0)
        if unknown >= most:
            good[:] = False
        if unknown + max((count for place, count in there.items() if place >= 0), default=0) >= most:
            good &= places >= 0
        for place, count in there.items():
            if place >= 0 and count + unknown >= most:
                good &= places != place

    def _next(self, frame: _Frame, rest: float) -> bool:
        """Puts the frame's replica on its next row; False if there is none left."""
        loss = self._loss()
        for row in frame.rows:
            untouched = row not in frame.touched
            if self.best is not None:
                self.work.step()
                if untouched and loss + self.losses[frame.wish.number][row] + rest > self.best.loss - STEP:
                    continue
            if row in frame.done or (frame.alike and untouched and self._signature(row) in frame.alike):
                continue
            filled = self._filled(row, frame.wish)
            frame.row, frame.before = row, self.at.get(row)
            if filled is None:
                self._mark(frame)
                continue
            self.at[row] = filled
            if self.best is not None and self._loss() + rest > self.best.loss - STEP:
                self._undo(frame)
                continue
            return True
        return False

    def _undo(self, frame: _Frame) -> None:
        if frame.row is None:
            return
        if frame.before is None:
            self.at.pop(frame.row, None)
        else:
            self.at[frame.row] = frame.before
        self._mark(frame)

    def _mark(self, frame: _Frame) -> None:
        """The frame's row is done with, and so are untouched rows that are alike."""
        if frame.row is not None:
            frame.done.add(frame.row)
            if frame.row not in frame.touched:
                frame.alike.add(self._signature(frame.row))
        frame.row = None

    def _signature(self, row: int) -> tuple[object, ...]:
        """Equal for rows where a replica fares alike: what is left, what stands where, and what stands around."""
        wide = [rule.scope for rule in self.rules if rule.scope in (Scope.LEAF, Scope.SPINE)]
        around = tuple(int(node_places(self.board, scope)[row]) for scope in wide)
        return (id(self.board.layouts.of(row)), self.board.state(row), around)

    def _setting(self, row: int) -> tuple[Setting, _Fill]:
        known = self.settings.get(row)
        if known is None:
            layout = self.board.layouts.of(row)
            setting = Setting(layout=layout, worth=self.scores.worth, rules=self.near, work=self.work)
            room = Room(self.board, row)
            empty = _Fill(
                counts=(0,) * len(self.wishes), spots=(), room=room, value=value(room, layout, self.scores.worth)
            )
            known = self.settings[row] = (setting, empty)
        return known

    def _filled(self, row: int, wish: Wish) -> _Fill | None:
        """The row with one more replica; None if it can't hold it."""
        setting, empty = self._setting(row)
        now = self.at.get(row, empty)
        counts = tuple(count + (number == wish.number) for number, count in enumerate(now.counts))
        if (row, counts) in self.memo:
            return self.memo[row, counts]
        self.work.step()
        filled: _Fill | None = None
        spot = extend(setting, now.room, now.spots, wish=wish)
        spots: tuple[Spot, ...] | None = None
        if spot is not None:
            room = now.room.copy()
            room.put(spot)
            spots = (*now.spots, spot)
        elif now.spots:
            room = empty.room.copy()
            wishes = tuple((self.wishes[number], 0) for number, count in enumerate(counts) for _ in range(count))
            spots = fill(setting, room, wishes)
        if spots is not None:
            filled = _Fill(counts=counts, spots=spots, room=room, value=value(room, setting.layout, self.scores.worth))
        self.memo[row, counts] = filled
        return filled

    def _loss(self) -> float:
        return sum(self._setting(row)[1].value - filled.value for row, filled in self.at.items())

    def _finish(self) -> bool:
        """Remembers what stands now if it is the best; False if bandwidth between parts can't be had."""
        spots = []
        for row in sorted(self.at):
            filled = self.at[row]
            extras = [extra_bytes(self.flows, self.wishes, number, filled.counts) for number in range(len(self.wishes))]
            its: tuple[Spot, ...] | None = filled.spots
            if any(extra and count for extra, count in zip(extras, filled.counts, strict=True)):
                setting, empty = self._setting(row)
                wishes = tuple(
                    (self.wishes[number], extras[number])
                    for number, count in enumerate(filled.counts)
                    for _ in range(count)
                )
                its = fill(setting, empty.room.copy(), wishes)
            if its is None:
                return False
            spots.append((row, its))
        loss = self._loss()
        if self.best is None or loss <= self.best.loss - STEP:  # less than a step is no gain: names break ties
            self.best = Found(spots=tuple(spots), loss=loss)
        return True
