"""A whole plan at once: all gangs together, exact or with a proven gap.

In: a `Board`, its `Scores`, gangs, an `Aim`. Out: `Offline` or `Refusal`. Invariant: the board stays as it is; all
gangs have a place or none; whoever found the plan, it was judged again; the bound is proven.

OR-Tools CP-SAT (the extra `solve`) starts from the heuristic's plan. Without it, or when time runs out, the best plan
so far stands, with the gap to what is proven.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from accord.place.board import WHOLE, Board
from accord.place.gang import apply, decide, find, seats_of
from accord.place.gang_caps import demand_of
from accord.place.gang_holds import broken, holds, words
from accord.place.gang_node import Room, gap_milli
from accord.place.gang_refuse import NOTHING_SMALLER
from accord.place.gang_search import Found
from accord.place.gang_wish import check, wishes_of
from accord.place.offline_model import Aim, Program, Solved
from accord.place.online import Scores
from accord.terms.errors import BadInput
from accord.terms.gang import Bandwidth, Gang, Placement, Relation, Seat
from accord.terms.refusal import Refusal

_BOOLEANS_MAX = 300_000  # beyond, the program alone fills memory
_SLACK = 1e-6
_NAMES_MAX = 4  # in the name of what is joined
_ALONE = "the heuristic's plan, with a bound from sums of what is free"


@dataclass(frozen=True, slots=True, kw_only=True)
class Offline:
    """A plan. `cost` and `bound` count nodes, devices, or devices' worth that is lost, and preferences given up."""

    placements: tuple[Placement, ...]
    aim: Aim
    cost: float
    bound: float
    solver: bool  # the solver's plan, not the heuristic's
    note: str = ""

    @property
    def gap(self) -> float:
        """How much of the cost might be spared at most: 0 is proven best."""
        return max(0.0, self.cost - self.bound) / self.cost if self.cost > _SLACK else 0.0


def plan(
    board: Board,
    scores: Scores,
    gangs: tuple[Gang, ...],
    *,
    aim: Aim = Aim.NODES,
    seconds_max: float = 10.0,
    seed: int = 0,
) -> Offline | Refusal:
    """All gangs at once. The time is counted in the solver's steps, so that the same call gives the same plan."""
    joined = join(gangs)
    check(joined)
    first = _heuristic(board, scores, gangs, joined)
    bound, note = _least(board, joined, aim), ""
    solved = _solve(board, scores, joined, aim=aim, hint=first, seconds_max=seconds_max, seed=seed)
    if isinstance(solved, str):
        note = solved
    else:
        bound = max(bound, solved.bound / WHOLE)
        if solved.impossible:
            return _refusal(board, scores, gangs, joined, proven=True)
    best, by_solver = first, False
    if isinstance(solved, Solved) and solved.spots is not None:
        seats = seats_of(board, joined, Found(spots=solved.spots, loss=0.0))
        if (
            best is None
            or _cost(board, scores, joined, seats, aim=aim) < _cost(board, scores, joined, best, aim=aim) - _SLACK
        ):
            best, by_solver = seats, True
    if best is None:
        return _refusal(board, scores, gangs, joined, proven=False)
    _judge(board, joined, best)
    return Offline(
        placements=_split(board, gangs, best),
        aim=aim,
        cost=_cost(board, scores, joined, best, aim=aim),
        bound=bound,
        solver=by_solver,
        note=note,
    )


def join(gangs: tuple[Gang, ...]) -> Gang:
    """One gang of all parts, named GANG/PART. BadInput if two gangs share a name."""
    names = [gang.name for gang in gangs]
    if len(set(names)) < len(names):
        twice = next(name for number, name in enumerate(names) if name in names[:number])
        raise BadInput(field="gangs", value=twice, problem="named twice", fix="give each gang its own name")
    parts = tuple(replace(part, name=f"{gang.name}/{part.name}") for gang in gangs for part in gang.parts)
    relations = tuple(_renamed(gang.name, relation) for gang in gangs for relation in gang.relations)
    name = "+".join(names) if len(names) <= _NAMES_MAX else f"{len(names)} gangs"
    return Gang(name=name, parts=parts, relations=relations)


def _renamed(name: str, relation: Relation) -> Relation:
    if isinstance(relation, Bandwidth):
        return replace(relation, source=f"{name}/{relation.source}", target=f"{name}/{relation.target}")
    return replace(relation, parts=tuple(f"{name}/{part}" for part in relation.parts))


def split(gang: Gang, seats: tuple[Seat, ...]) -> tuple[Seat, ...]:
    """The seats of one of the joined gangs, with its own names."""
    names = {f"{gang.name}/{part.name}": part.name for part in gang.parts}
    return tuple(replace(seat, part=names[seat.part]) for seat in seats if seat.part in names)


def _split(board: Board, gangs: tuple[Gang, ...], seats: tuple[Seat, ...]) -> tuple[Placement, ...]:
    placements = []
    for gang in gangs:
        its = split(gang, seats)
        wished = (item for item in gang.relations if not isinstance(item, Bandwidth) and not item.required)
        unmet = tuple(words(item) for item in wished if not holds(board, item, its))
        placements.append(Placement(gang=gang.name, seats=its, snapshot=board.version, unmet=unmet))
    return tuple(placements)


def _heuristic(board: Board, scores: Scores, gangs: tuple[Gang, ...], joined: Gang) -> tuple[Seat, ...] | None:
    """Gangs one by one, the largest first; if that fails, all as one."""
    trial = board.copy()
    there = scores.on(trial)
    seats: list[Seat] = []
    for gang in sorted(gangs, key=lambda gang: (-_size(gang), gang.name)):
        placement = find(trial, there, gang)
        if placement is None:
            whole = find(board, scores, joined)
            return whole.seats if whole else None
        apply(trial, placement)
        seats += [replace(seat, part=f"{gang.name}/{seat.part}") for seat in placement.seats]
    order = {part.name: number for number, part in enumerate(joined.parts)}
    return tuple(sorted(seats, key=lambda seat: (order[seat.part], seat.replica)))


def _size(gang: Gang) -> float:
    return sum(part.replicas * (part.need.cards or part.need.share) for part in gang.parts)


def _solve(
    board: Board,
    scores: Scores,
    joined: Gang,
    *,
    aim: Aim,
    hint: tuple[Seat, ...] | None,
    seconds_max: float,
    seed: int,
) -> Solved | str:
    """What the solver found; in words why it wasn't asked."""
    try:
        import ortools.sat.python.cp_model  # noqa: F401
    except ImportError:
        return f"ortools isn't installed (accord-ai[solve]): {_ALONE}"
    booleans = sum(
        part.replicas * int(np.isfinite(scores.of(part)[1]).sum()) * (2 + board.kind.shape[1]) for part in joined.parts
    )
    if booleans > _BOOLEANS_MAX:
        return f"{booleans} booleans are too many for the solver: {_ALONE}"
    program = Program(board, scores, joined, aim=aim)
    return program.solve(hint=hint, seconds_max=seconds_max, seed=seed)


def _refusal(board: Board, scores: Scores, gangs: tuple[Gang, ...], joined: Gang, *, proven: bool) -> Refusal:
    """Why there is no plan, and which gangs to leave out so that there is one."""
    answer = decide(board, scores, joined)
    if not isinstance(answer, Refusal):  # the search had a place all along, and `proven` is wrong
        raise RuntimeError("the solver and the search disagree on what is possible")
    if proven and answer.may_retry:
        answer = Refusal(
            field="gangs",
            value=joined.name,
            limit="the fleet as it is",
            causes=("the solver proved that the gangs don't fit together",),
            fix=("free or add nodes",),
        )
    trial = board.copy()
    there = scores.on(trial)
    out = []
    for gang in sorted(gangs, key=_size):
        placement = find(trial, there, gang)
        if placement is None:
            out.append(gang.name)
        else:
            apply(trial, placement)
    if not out or len(out) == len(gangs):
        return answer
    named = ", ".join(out[:_NAMES_MAX]) + (f" and {len(out) - _NAMES_MAX} more" if len(out) > _NAMES_MAX else "")
    fix = f"leave out {named}: the other {len(gangs) - len(out)} have a place together"
    return replace(answer, fix=(fix, *(text for text in answer.fix if text != NOTHING_SMALLER)))


def _judge(board: Board, joined: Gang, seats: tuple[Seat, ...]) -> None:
    """A plan that doesn't hold is a fault of this program, not of the request."""
    apply(board.copy(), Placement(gang=joined.name, seats=seats, snapshot=board.version))
    faults = broken(board, joined, seats)
    if faults:
        raise RuntimeError(f"the plan breaks {'; '.join(faults)}")


def _cost(board: Board, scores: Scores, joined: Gang, seats: tuple[Seat, ...], *, aim: Aim) -> float:
    """What the aim counts, and what preferences that are given up weigh."""
    given_up = sum(
        item.weight
        for item in joined.relations
        if not isinstance(item, Bandwidth) and not item.required and not holds(board, item, seats)
    )
    if aim is Aim.NODES:
        return given_up + len({seat.node for seat in seats})
    touched = sorted({(board.row[seat.node], device) for seat in seats for device in seat.devices})
    if aim is Aim.DEVICES:
        return given_up + len(touched)
    after = board.copy()
    for seat in seats:
        after.take(seat)
    lost = [_worth(board, scores, row, device) - _worth(after, scores, row, device) for row, device in touched]
    return given_up + sum(lost) / WHOLE


def _worth(board: Board, scores: Scores, row: int, device: int) -> int:
    layout = board.layouts.of(row)
    return round(float(scores.worth.gaps[layout.kinds[device], gap_milli(Room(board, row), layout, device)]))


def _least(board: Board, joined: Gang, aim: Aim) -> float:
    """What any plan costs, by sums: so many of the emptiest nodes, or devices' worth of compute."""
    demand = demand_of(board, wishes_of(board, joined, ())[0])
    if aim is Aim.LOSS:
        return 0.0
    if aim is Aim.DEVICES:
        fractions = demand.share - WHOLE * demand.whole
        return demand.whole + math.ceil(fractions / WHOLE)
    free = np.where(demand.kinds[board.kind], np.maximum(board.share, 0), 0)
    rows = [
        (demand.share, free.sum(axis=1)), (demand.whole, (free == WHOLE).sum(axis=1)), (demand.cpu, board.cpu_sum),
        (demand.host, board.host_sum), (demand.nvme, board.nvme),
    ]  # fmt: skip
    return float(max(_fewest(want, left.tolist()) for want, left in rows) or 1)


def _fewest(want: int, left: list[int]) -> int:
    """How many of the largest it takes to hold what is wanted."""
    count, total = 0, 0
    for amount in sorted(left, reverse=True):
        if total >= want:
            break
        count, total = count + 1, total + amount
    return count
