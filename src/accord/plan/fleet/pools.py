"""The ways to staff one role at a rate: so many replicas of one type, or of two types side by side.

In: a `Shape`, the number of a role, a `Market`, a rate. Out: `Options`. Invariant: requests are routed in proportion to
capacity, so that all pools of a role are equally busy, and its times are those of the mixture of its pools.
"""

from dataclasses import dataclass

import numpy as np

from accord.plan.fleet.front import Floats, Ints, front
from accord.plan.fleet.menu import COLUMNS, LEVELS, Market, Menu, Shape, columns_at

NONE = -1
PAIRS_MAX = 100_000  # mixed pools looked at in one role
BUSY_MAX = float(LEVELS[-1]) * (1 - 1e-9)
_MEANS, _VARIANCES = slice(0, COLUMNS, 2), slice(1, COLUMNS, 2)
_TYPES_FIRST = 64  # types that mixes are made of where not all pairs can be looked at; halved until they can


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """One staffing a row. `types` and `counts` are [rows, 2] (NONE and 0: one pool); `cards` is [rows, kinds].

    `cost` is of the cards and parts of cards. `figures` are the judge's.
    """

    types: Ints
    counts: Ints
    cards: Floats
    cost: Floats
    used: Floats
    figures: Floats

    def __len__(self) -> int:
        return len(self.cost)

    def at(self, rows: Ints) -> "Options":
        """These rows alone."""
        return Options(
            types=self.types[rows], counts=self.counts[rows], cards=self.cards[rows], cost=self.cost[rows],
            used=self.used[rows], figures=self.figures[rows],
        )  # fmt: skip


def singles(shape: Shape, role: int, market: Market, rate_rps: float, *, cost_max: float = np.inf) -> Options:
    """One pool of one type, as many replicas as there could be."""
    menu = shape.menus[role]
    least = np.maximum(1, np.ceil(rate_rps / (menu.capacity * BUSY_MAX) - 1e-9)).astype(np.int64)
    most = np.minimum(menu.most, _floor(cost_max, menu.cards * market.price[menu.kind]))
    types, counts = _counted(least, most)
    return staffed(shape, role, market, rate_rps, types=_beside(types, NONE), counts=_beside(counts, 0))


def pairs(
    shape: Shape, role: int, market: Market, rate_rps: float, *, cost_max: float = np.inf
) -> tuple[Options, bool]:
    """Two pools of two types. False: they are too many, and only those of the best types were looked at."""
    menu = shape.menus[role]
    types = np.arange(len(menu.cards))
    spans = _spans(menu, market, rate_rps, types=types, cost_max=cost_max)
    best, whole = _TYPES_FIRST, spans is not None
    while spans is None:
        types = _best_types(menu, best)
        spans = _spans(menu, market, rate_rps, types=types, cost_max=cost_max, cut=best < len(market.kinds))
        best //= 2
    first, count, least, most = spans
    row, second = np.nonzero(most >= least)
    where, counts = _counted(least[row, second], most[row, second])
    row, second = row[where], types[second[where]]
    both = np.stack([first[row], second], axis=1), np.stack([count[row], counts], axis=1)
    return staffed(shape, role, market, rate_rps, types=both[0], counts=both[1]), whole


def joined(some: Options, others: Options) -> Options:
    """All rows of both."""
    return Options(
        types=np.concatenate([some.types, others.types]),
        counts=np.concatenate([some.counts, others.counts]),
        cards=np.concatenate([some.cards, others.cards]),
        cost=np.concatenate([some.cost, others.cost]),
        used=np.concatenate([some.used, others.used]),
        figures=np.concatenate([some.figures, others.figures]),
    )


def staffed(shape: Shape, role: int, market: Market, rate_rps: float, *, types: Ints, counts: Ints) -> Options:
    """These staffings, which must be able to carry the rate. `types` NONE stands beside a count of 0."""
    menu = shape.menus[role]
    power = menu.capacity[types] * counts
    total = power.sum(axis=1)
    used = np.minimum(rate_rps / total, BUSY_MAX)
    cards = np.zeros((len(types), len(market.kinds)))
    rows = np.arange(len(types))
    for side in range(types.shape[1]):
        np.add.at(cards, (rows, menu.kind[types[:, side]]), menu.cards[types[:, side]] * counts[:, side])
    columns = _mixture(menu, types, counts, shares=power / total[:, None], used=used)
    return Options(
        types=types, counts=counts, cards=cards, cost=cards @ market.price, used=used,
        figures=shape.judge.figures(role, columns),
    )  # fmt: skip


_Spans = tuple[Ints, Ints, Ints, Ints]


def _spans(
    menu: Menu, market: Market, rate_rps: float, *, types: Ints, cost_max: float, cut: bool = False
) -> _Spans | None:
    """First types with counts, [rows]; least and most of each second type, [rows, types].

    None: too many, unless they are to be `cut` to those with the fewest replicas.
    """
    each = menu.cards * market.price[menu.kind]
    first, count = _counted(np.ones(len(types), dtype=np.int64), np.minimum(menu.most, _floor(cost_max, each))[types])
    first = types[first]
    if len(first) * len(types) > 10 * PAIRS_MAX and not cut:
        return None
    left = rate_rps / BUSY_MAX - menu.capacity[first] * count
    least = np.maximum(1, np.ceil(left[:, None] / menu.capacity[types] - 1e-9)).astype(np.int64)
    room = cost_max - (each[first] * count)[:, None]
    most = np.minimum(menu.most[types], _floor(room, each[types]))
    # Two pools on one kind share its devices.
    same = menu.kind[first][:, None] == menu.kind[types]
    free = market.supply[menu.kind[first]] - menu.cards[first] * count
    most = np.where(same, np.minimum(most, _floor(free[:, None], menu.cards[types])), most)
    most = np.where(types[None, :] > first[:, None], most, 0)
    if int(np.maximum(0, most - least + 1).sum()) > PAIRS_MAX:
        return (first, count, least, _fewer(least, most)) if cut else None
    return first, count, least, most


def _best_types(menu: Menu, most: int) -> Ints:
    """Of each kind the same number: those that no other beats in cards, capacity for them, and times half busy."""
    kinds = np.unique(menu.kind)
    kept: list[int] = []
    for kind in kinds:
        rows = np.flatnonzero(menu.kind == kind)
        worth = -menu.capacity[rows] / menu.cards[rows]
        times = menu.table[rows, 0, len(LEVELS) // 6]
        best = front(np.concatenate([worth[:, None], menu.cards[rows][:, None], times], axis=1))
        order = best[np.argsort(worth[best], kind="stable")]
        kept += rows[order[: max(1, most // len(kinds))]].tolist()
    return np.array(sorted(kept), dtype=np.int64)


def _mixture(menu: Menu, types: Ints, counts: Ints, *, shares: Floats, used: Floats) -> Floats:
    """Means are the shares' means; the variance is the mean variance and the variance of the means."""
    found = columns_at(menu, types[:, 0], counts[:, 0], used)
    mixed = np.flatnonzero(shares[:, 1] > 0)
    if not len(mixed):
        return found
    one, other = found[mixed], columns_at(menu, types[mixed, 1], counts[mixed, 1], used[mixed])
    share = shares[mixed, 1][:, None]
    blend = one * (1 - share) + other * share
    blend[:, _VARIANCES] += share * (1 - share) * (one[:, _MEANS] - other[:, _MEANS]) ** 2
    found[mixed] = blend
    return found


def _counted(least: Ints, most: Ints) -> tuple[Ints, Ints]:
    """Row numbers and counts: each row with every count from its least to its most."""
    spans = np.maximum(0, most - least + 1)
    rows = np.repeat(np.arange(len(least)), spans)
    offsets = np.arange(len(rows)) - np.repeat(np.cumsum(spans) - spans, spans)
    return rows, least[rows] + offsets


def _fewer(least: Ints, most: Ints) -> Ints:
    """The longest spans that are few enough together."""
    low, high = 0, int((most - least + 1).max())
    while low < high:
        middle = (low + high + 1) // 2
        total = int(np.clip(most - least + 1, 0, middle).sum())
        low, high = (middle, high) if total <= PAIRS_MAX else (low, middle - 1)
    return np.minimum(most, least + low - 1)


def _floor(room: Floats | float, each: Floats) -> Ints:
    """How often `each` goes into `room`; a billionth forgives rounding."""
    return np.clip(np.floor(room / each + 1e-9), 0, 1 << 40).astype(np.int64)


def _beside(column: Ints, other: int) -> Ints:
    return np.stack([column, np.full_like(column, other)], axis=1)
