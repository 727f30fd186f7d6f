"""What the roles of a model's stages could be served by, as arrays that a search can run over.

In: nothing. Out: `Menu`, `Shape`, `Market`, `Problem`. Invariant: capacities are requests of the service a second,
however often a request visits a stage; a type's figures at a utilisation don't depend on the rate.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from accord.plan.fleet.front import Flags, Floats, Ints

# Mean and variance of: the time to a stage's first output, the time between its outputs, the whole of its work.
FIRST, FIRST_VAR, PACE, PACE_VAR, WHOLE, WHOLE_VAR = range(6)
COLUMNS = 6
# Waiting grows with 1 / (1 - utilisation), so levels stand at equal steps of its logarithm: between two of them a
# straight line is within 0.1% of it, and above it.
LEVEL_STEP = 0.08
LEVELS: Floats = 1.0 - np.exp(-LEVEL_STEP * np.arange(51))  # up to 98.2%
# How many replicas take their requests from one queue; between two of these the smaller counts.
SERVERS: Ints = np.array([1, 2, 4, 8, 16, 48], dtype=np.int64)
EASE = 1e-9  # what rounding may do to a sum


class Judge(Protocol):
    """Predicts the objectives from figures that add up over roles; a larger figure never makes a prediction smaller."""

    def figures(self, role: int, columns: Floats) -> Floats:
        """What staffings of one role add, [rows, figures]; `columns` are [rows, COLUMNS]."""

    def meets(self, figures: Floats) -> Flags:
        """Which rows meet all objectives; `figures` are the sums over all roles."""

    def near(self, figures: Floats) -> Floats:
        """Roughly how near the nearest objective is to its bound, by row: quick, to rank rows by."""

    def ratios(self, figures: Floats) -> Floats:
        """Each objective's prediction over its bound, [rows, objectives]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Menu:
    """Types of replicas that one role of one stage could be served by, one a row.

    `cards` are devices of a replica, or its share of one. `capacity` is at utilisation 1. `most` is how many replicas
    there could be. `table` is [types, SERVERS, LEVELS, COLUMNS]. `names` put equals in an order.
    """

    role: str
    names: tuple[str, ...]
    kind: Ints
    cards: Floats
    capacity: Floats
    most: Ints
    table: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One division of the model into roles (prefill and decode together, or apart)."""

    name: str
    menus: tuple[Menu, ...]
    judge: Judge


@dataclass(frozen=True, slots=True, kw_only=True)
class Market:
    """What there is of each kind, and what one costs an hour (1, where fewest devices are wanted)."""

    kinds: tuple[str, ...]
    price: Floats
    supply: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """All that a search needs. `cost_max` is a budget, in what `Market.price` counts."""

    shapes: tuple[Shape, ...]
    market: Market
    cost_max: float = np.inf


def bill(market: Market, cards: Floats) -> Floats:
    """What these cards cost, [rows]: whoever takes a part of one pays for all of it."""
    return np.asarray(np.ceil(cards - EASE) @ market.price)


def columns_at(menu: Menu, types: Ints, counts: Ints, used: Floats) -> Floats:
    """The columns of so many replicas of these types at these utilisations (below the last level), [rows, COLUMNS]."""
    place = -np.log1p(-used) / LEVEL_STEP
    low = np.minimum(place.astype(np.int64), len(LEVELS) - 2)
    queue = np.maximum(np.searchsorted(SERVERS, counts, side="right") - 1, 0)
    below, above = LEVELS[low], LEVELS[low + 1]
    part = ((used - below) / (above - below))[:, None]
    return np.asarray(menu.table[types, queue, low] * (1.0 - part) + menu.table[types, queue, low + 1] * part)
