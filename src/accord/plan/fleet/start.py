"""A good plan to begin a search with, so that what costs more needn't be looked at.

In: a `Shape`, a `Market`, the `Options` of its roles. Out: one row of each role that together meet everything, or None
(which doesn't mean that there is none). Invariant: what is returned is a plan.
"""

import numpy as np

from accord.plan.fleet.front import Floats
from accord.plan.fleet.menu import EASE, Market, Shape, bill
from accord.plan.fleet.pools import Options

_WEIGHTS = np.concatenate([[0.0], np.geomspace(1e-3, 1e3, 37)])  # of speed against cost
_ROUNDS = 5
_STARTS = 3
_FAR = 1e6  # above any miss of an objective or of the supply

Pick = tuple[int, ...]


def good_start(shape: Shape, market: Market, roles: tuple[Options, ...]) -> Pick | None:
    """Roles are picked one by one, by cost and speed weighed against each other, then improved one at a time."""
    low = [role.figures.min(axis=0) for role in roles]
    total = np.sum(low, axis=0)
    speed = [shape.judge.near(role.figures + (total - least)) for role, least in zip(roles, low, strict=True)]
    scale = sum(float(role.cost.min()) for role in roles) or 1.0
    starts = {
        tuple(int(np.argmin(role.cost / scale + weight * fast)) for role, fast in zip(roles, speed, strict=True))
        for weight in _WEIGHTS
    }
    ranked = sorted((*_standing(shape, market, roles, pick), pick) for pick in starts)
    improved = [_improved(shape, market, roles, pick) for _, _, pick in ranked[:_STARTS]]
    missed, _, best = min((*_standing(shape, market, roles, pick), pick) for pick in improved)
    return best if missed <= 0 else None


def _improved(shape: Shape, market: Market, roles: tuple[Options, ...], pick: Pick) -> Pick:
    for _ in range(_ROUNDS):
        before = pick
        for number in range(len(roles)):
            missed, cost = _standings(shape, market, roles, pick, number=number)
            best = int(np.lexsort((cost, missed))[0])
            pick = (*pick[:number], best, *pick[number + 1 :])
        if pick == before:
            break
    return pick


def _standing(shape: Shape, market: Market, roles: tuple[Options, ...], pick: Pick) -> tuple[float, float]:
    cards = np.sum([role.cards[row] for role, row in zip(roles, pick, strict=True)], axis=0)
    figures = np.sum([role.figures[row] for role, row in zip(roles, pick, strict=True)], axis=0)
    missed, cost = _missed(shape, market, cards[None], figures[None])
    return float(missed[0]), float(cost[0])


def _standings(
    shape: Shape, market: Market, roles: tuple[Options, ...], pick: Pick, *, number: int
) -> tuple[Floats, Floats]:
    """By how much each row of one role, the others as picked, misses objectives and supply, and what all costs."""
    others = [(role, row) for one, (role, row) in enumerate(zip(roles, pick, strict=True)) if one != number]
    cards = roles[number].cards + sum((role.cards[row] for role, row in others), np.zeros(()))
    figures = roles[number].figures + sum((role.figures[row] for role, row in others), np.zeros(()))
    return _missed(shape, market, cards, figures)


def _missed(shape: Shape, market: Market, cards: Floats, figures: Floats) -> tuple[Floats, Floats]:
    over = np.maximum(0.0, np.ceil(cards - EASE) - market.supply).sum(axis=1)
    late = np.where(shape.judge.meets(figures), 0.0, np.minimum(EASE + shape.judge.near(figures), _FAR))
    return over + late, bill(market, cards)
