"""All staffings of all roles together, role after role, without those that can't become the best.

In: a `Shape`, a `Market`, the `Options` of its roles, the cost of a plan at hand. Out: picks (a row of each role).
Invariant: a partial plan is left out only if its cost or its objectives rule it out even where all other roles are at
their best, if another, whatever follows, ends up at most as dear, as slow and as large in the kinds told apart; or,
which `whole` then owns up to, if too many are left.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from accord.plan.fleet.front import Flags, Floats, Ints, front
from accord.plan.fleet.menu import EASE, Market, Shape, bill
from accord.plan.fleet.pools import Options

_ROWS = 200_000  # partial plans judged at once
_KEPT = 8_000  # over the square of the number of roles: partial plans, and staffings of a role, kept for what follows
_MET = 10  # times as many are looked at, before those that others beat are left out


# Asked with steps done, steps in all, and the cost of the best plan at hand: whether to go on.
Going = Callable[[int, int, float], bool]


def on(_: int, __: int, ___: float) -> bool:
    """Goes on to the end."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Partial:
    """Some roles picked, one partial plan a row: rows of the roles [rows, roles], and sums over those picked."""

    picks: Ints
    cards: Floats
    cost: Floats
    figures: Floats


def hopeful(
    shape: Shape, market: Market, roles: tuple[Options, ...], *, limit: float, rounds: int = 4
) -> tuple[Options, ...]:
    """The rows that cost, supply and objectives allow where all other roles are at their best."""
    for _ in range(rounds):
        before = [len(role) for role in roles]
        for number in range(len(roles)):
            if not all(len(role) for role in roles):
                return roles
            others = [role for one, role in enumerate(roles) if one != number]
            least = sum(float(role.cost.min()) for role in others)
            few = sum((role.cards.min(axis=0) for role in others), np.zeros(()))
            role = roles[number].at(np.flatnonzero(roles[number].cost + least <= limit))
            role = role.at(np.flatnonzero((np.ceil(role.cards + few - EASE) <= market.supply).all(axis=1)))
            low = sum((role.figures.min(axis=0) for role in others), np.zeros(()))
            role = role.at(np.flatnonzero(shape.judge.meets(role.figures + low)))
            roles = (*roles[:number], role, *roles[number + 1 :])
        if [len(role) for role in roles] == before:
            break
    return roles


def unbeaten(
    shape: Shape, roles: tuple[Options, ...], apart: Flags, market: Market
) -> tuple[tuple[Options, ...], bool]:
    """The rows of each role that no other row beats, and whether these are all of them.

    Cards of the kinds `apart` are compared one by one.
    """
    lows, found, whole = [role.figures.min(axis=0) for role in roles], [], True
    most = _kept(roles)
    for number, role in enumerate(roles):
        low = sum((least for other, least in enumerate(lows) if other != number), np.zeros(()))
        met = _fewer(shape, role, low, _MET * most)
        best = met.at(_front(met.cards, met.figures, apart, market))
        found.append(_fewer(shape, best, low, most))
        whole = whole and len(met) == len(role) and len(found[-1]) == len(best)
    return tuple(found), whole


def merge(
    shape: Shape, market: Market, roles: tuple[Options, ...], *, limit: float, apart: Flags, going: Going = on
) -> tuple[Ints, bool]:
    """Picks of all roles that meet the objectives within `limit`, the cheapest first; and whether all were looked at.

    The supply of the kinds `apart` is kept, that of others isn't looked at. `going` is asked before each step.
    """
    order = sorted(range(len(roles)), key=lambda number: len(roles[number]))
    partial, whole, most = _none(roles, market), True, _kept(roles)
    for place, number in enumerate(order):
        later = [roles[other] for other in order[place + 1 :]]
        rest = sum(float(role.cost.min()) for role in later)
        low = sum((role.figures.min(axis=0) for role in later), np.zeros(()))
        parts = []
        for chosen in _chunks(partial, roles[number], limit - rest):
            if not going(place, len(order), limit):
                return np.zeros((0, len(roles)), dtype=np.int64), False
            part = _joined(partial, roles[number], number, chosen)
            part = _rows(part, np.flatnonzero(bill(market, part.cards) <= limit))
            held = (np.ceil(part.cards[:, apart] - EASE) <= market.supply[apart]).all(axis=1)
            part = _rows(part, np.flatnonzero(held))
            part = _rows(part, np.flatnonzero(shape.judge.meets(part.figures + low)))
            if not later and len(part.cost):
                costs = bill(market, part.cards)
                limit = min(limit, float(costs.min()) * (1 + EASE))
                part = _rows(part, np.flatnonzero(costs <= limit))
            if len(part.cost) > _MET * most:
                part, whole = _rows(part, _likely(shape, part.cost, part.figures + low, _MET * most)), False
            parts.append(_rows(part, _front(part.cards, part.figures, apart, market)))
        partial = _all(parts, partial)
        if len(parts) > 1:
            partial = _rows(partial, _front(partial.cards, partial.figures, apart, market))
        if later and len(partial.cost) > most:
            partial, whole = _rows(partial, _likely(shape, partial.cost, partial.figures + low, most)), False
    costs = bill(market, partial.cards)
    return partial.picks[np.lexsort((*partial.picks.T[::-1], costs))], whole


def _kept(roles: tuple[Options, ...]) -> int:
    return _KEPT // len(roles) ** 2


def _none(roles: tuple[Options, ...], market: Market) -> _Partial:
    """The partial plan in which nothing is picked."""
    return _Partial(
        picks=np.zeros((1, len(roles)), dtype=np.int64), cards=np.zeros((1, len(market.kinds))), cost=np.zeros(1),
        figures=np.zeros((1, roles[0].figures.shape[1])),
    )  # fmt: skip


def _likely(shape: Shape, cost: Floats, figures: Floats, most: int) -> Ints:
    """So many rows: those that none beats in both cost and the nearest objective, then those near them."""
    late = shape.judge.near(figures)
    order = np.lexsort((late, cost))
    # How far each row is above the best lateness that any at most as dear one has, in places of their ranking.
    place = np.empty(len(order))
    place[np.argsort(late, kind="stable")] = np.arange(len(order))
    above = place[order] - np.minimum.accumulate(place[order])
    return np.sort(order[np.argsort(above, kind="stable")[:most]])


def _fewer(shape: Shape, role: Options, low: Floats, most: int) -> Options:
    return role if len(role) <= most else role.at(_likely(shape, role.cost, role.figures + low, most))


def _chunks(partial: _Partial, role: Options, limit: float) -> list[tuple[Ints, Ints]]:
    """Rows of the partial plans and rows of the role that may come together, a bounded number at a time."""
    cheap = np.argsort(role.cost, kind="stable")
    spans = np.searchsorted(role.cost[cheap], limit - partial.cost, side="right")
    ends = np.cumsum(spans)
    chunks, start = [], 0
    while start < len(spans):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + _ROWS, side="right")))
        rows = np.repeat(np.arange(start, stop), spans[start:stop])
        offsets = np.arange(len(rows)) - np.repeat(ends[start:stop] - spans[start:stop] - before, spans[start:stop])
        if len(rows):
            chunks.append((rows, cheap[offsets]))
        start = stop
    return chunks


def _joined(partial: _Partial, role: Options, number: int, chosen: tuple[Ints, Ints]) -> _Partial:
    rows, options = chosen
    picks = partial.picks[rows]
    picks[:, number] = options
    return _Partial(
        picks=picks, cards=partial.cards[rows] + role.cards[options], cost=partial.cost[rows] + role.cost[options],
        figures=partial.figures[rows] + role.figures[options],
    )  # fmt: skip


def _front(cards: Floats, figures: Floats, apart: Flags, market: Market) -> Ints:
    """Rows that no other row beats in figures, in cards of the kinds `apart`, and in what the others cost.

    Parts of cards are bought as whole ones in the end, and which parts make up whole ones depends on what follows: of
    two rows that leave different parts of a card over, neither beats the other.
    """
    rest = np.round(cards[:, ~apart], 6)
    # Sums differ in their last digits by the order of adding: equal ones are made equal.
    cost = np.round(cards[:, ~apart] @ market.price[~apart], 9)
    table = np.concatenate([cost[:, None], np.round(cards[:, apart], 6), np.round(figures, 15)], axis=1)
    parts = np.mod(rest, 1.0)
    if not parts.any():
        return front(table)
    _, group = np.unique(np.round(parts, 6), axis=0, return_inverse=True)
    group = group.reshape(-1)
    order = np.argsort(group, kind="stable")
    cuts = np.flatnonzero(np.diff(group[order])) + 1
    return np.sort(np.concatenate([rows[front(table[rows])] for rows in np.split(order, cuts)]))


def _rows(part: _Partial, rows: Ints) -> _Partial:
    return _Partial(picks=part.picks[rows], cards=part.cards[rows], cost=part.cost[rows], figures=part.figures[rows])


def _all(parts: list[_Partial], like: _Partial) -> _Partial:
    if not parts:
        return _rows(like, np.zeros(0, dtype=np.int64))
    return _Partial(
        picks=np.concatenate([part.picks for part in parts]),
        cards=np.concatenate([part.cards for part in parts]),
        cost=np.concatenate([part.cost for part in parts]),
        figures=np.concatenate([part.figures for part in parts]),
    )
