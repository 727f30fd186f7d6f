"""Room for a gang that doesn't fit: the fewest moves of gangs that run, the cheapest of so few, in an order that works.

In: a `Board` with all that runs, `Scores`, the gang, what runs. Out: `Defrag` or `Refusal`. Invariant: the board stays
as it is; each move can be applied when its turn comes, with no device given twice in between.

Sets of moves are tried by their number, then their cost. One is right if the board without it holds the gang and all
that moved, placed as one, and if its moves have an order. `proven`: nothing smaller or cheaper was left out.
"""

import heapq
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from accord.place.board import Board
from accord.place.gang import apply, best, decide, placed, release, seats_of
from accord.place.gang_wish import check
from accord.place.offline import join, split
from accord.place.online import Scores
from accord.terms.errors import BadInput
from accord.terms.gang import Gang, Placement
from accord.terms.refusal import Refusal

_ORDERS_MAX = 120  # of the moves of one set


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A gang that runs, and what it costs to move all of it."""

    gang: Gang
    placement: Placement
    cost_usd: float = 0.0
    movable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One gang from here to there."""

    gang: str
    before: Placement
    after: Placement
    cost_usd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Defrag:
    """Moves in their order, then the gang's own placement. `proven`: no fewer would do, and no cheaper as few."""

    moves: tuple[Move, ...]
    placement: Placement
    cost_usd: float
    proven: bool


def make_room(
    board: Board,
    scores: Scores,
    gang: Gang,
    running: tuple[Running, ...],
    *,
    moves_max: int = 3,
    tries_max: int = 2000,
) -> Defrag | Refusal:
    """At most `moves_max` moves, after which the gang fits. A move stops a gang, then starts it elsewhere."""
    check(gang)
    found, spent = best(board, scores, gang)
    if found is not None:
        return Defrag(moves=(), placement=placed(board, gang, found), cost_usd=0.0, proven=True)
    movable = sorted((its for its in running if its.movable), key=lambda its: (its.cost_usd, its.placement.gang))
    trial = board.copy()
    there = scores.on(trial)
    for its in movable:
        release(trial, its.placement)
    if best(trial, there, gang) == (None, False):
        return _nothing_helps(board, scores, gang, len(movable))
    for its in movable:
        apply(trial, its.placement)
    proven = not spent
    for tried, chosen in enumerate(_sets(movable, moves_max)):
        if tried == tries_max:
            proven = False
            break
        answer = _try(board, trial, there, gang, chosen=chosen)
        if isinstance(answer, bool):
            proven = proven and answer
            continue
        moves, placement = answer
        cost = sum(move.cost_usd for move in moves)
        return Defrag(moves=moves, placement=placement, cost_usd=cost, proven=proven)
    return _no_moves(gang, len(movable), moves_max=moves_max, tries_max=tries_max, proven=proven)


def _no_moves(gang: Gang, count: int, *, moves_max: int, tries_max: int, proven: bool) -> Refusal:
    fix: tuple[str, ...]
    if not proven:
        cause, fix = "no set of moves that was tried makes room in an order that works", ("allow more moves or tries",)
    elif moves_max < count:
        cause = f"no {moves_max} of {count} movable gangs can be moved so that there is room"
        fix = ("allow more moves", "stop a movable gang")
    else:
        cause = f"there is room without the movable gangs, {count} in all, and none for them elsewhere"
        fix = ("stop a movable gang",)
    return Refusal(
        field="defrag",
        value=gang.name,
        limit=f"at most {moves_max} moves, {tries_max} sets of them tried",
        causes=(cause,),
        fix=fix,
        may_retry=not proven,
    )


def _nothing_helps(board: Board, scores: Scores, gang: Gang, count: int) -> Refusal:
    refusal = decide(board, scores, gang)
    if not isinstance(refusal, Refusal):  # a search that gave up before, and had better luck with more steps
        raise BadInput(field="gang", value=gang.name, problem="fits as it is", fix="place it without moves")
    cause = f"it wouldn't fit without all {count} movable gangs either" if count else "nothing is movable"
    return replace(refusal, causes=(cause, *refusal.causes))


def _sets(movable: list[Running], moves_max: int) -> Iterator[tuple[Running, ...]]:
    """Sets of moves: the fewest first, among as few the cheapest."""
    for count in range(1, min(moves_max, len(movable)) + 1):
        yield from _cheapest(movable, count)


def _cheapest(movable: list[Running], count: int) -> Iterator[tuple[Running, ...]]:
    """Sets of `count`, by cost. `movable` is sorted by cost, so that the next dearer sets are one step away."""
    first = tuple(range(count))
    heap = [(sum(movable[number].cost_usd for number in first), first)]
    seen = {first}
    while heap:
        _, numbers = heapq.heappop(heap)
        yield tuple(movable[number] for number in numbers)
        for place, number in enumerate(numbers):
            limit = numbers[place + 1] if place + 1 < count else len(movable)
            if number + 1 < limit:
                other = (*numbers[:place], number + 1, *numbers[place + 1 :])
                if other not in seen:
                    seen.add(other)
                    heapq.heappush(heap, (sum(movable[its].cost_usd for its in other), other))


def _try(
    board: Board, trial: Board, there: Scores, gang: Gang, *, chosen: tuple[Running, ...]
) -> tuple[tuple[Move, ...], Placement] | bool:
    """The moves of a set and the gang's placement; else whether it is sure that the set doesn't help."""
    whole = join((gang, *(its.gang for its in chosen)))
    for its in chosen:
        release(trial, its.placement)
    found, spent = best(trial, there, gang)
    if found is not None:
        found, spent = best(trial, there, whole)
    seats = seats_of(trial, whole, found) if found else ()
    for its in chosen:
        apply(trial, its.placement)
    if found is None:
        return not spent
    placement = Placement(gang=gang.name, seats=split(gang, seats), snapshot=board.version)
    moves = [
        Move(
            gang=its.placement.gang,
            before=its.placement,
            after=Placement(gang=its.placement.gang, seats=split(its.gang, seats), snapshot=board.version),
            cost_usd=its.cost_usd,
        )
        for its in chosen
    ]
    for order in itertools.islice(itertools.permutations(moves), _ORDERS_MAX):
        if _applicable(board, order, placement):
            return order, placement
    return False


def _applicable(board: Board, order: tuple[Move, ...], placement: Placement) -> bool:
    """Whether each move fits when its turn comes, and the gang after them."""
    state = board.copy()
    try:
        for move in order:
            release(state, move.before)
            apply(state, move.after)
        apply(state, placement)
    except BadInput:
        return False
    return True
