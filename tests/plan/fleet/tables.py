"""Small problems for the search, made of a seed, and their answer by trying everything.

In: a seed. Out: `Problem`s; the least cost of any staffing. The brute force shares no code with the search save for
the curve between two levels: it tries every count of every type, and of every two types.
"""

import itertools
from dataclasses import dataclass

import numpy as np

from accord.plan.fleet.menu import (
    COLUMNS,
    FIRST,
    FIRST_VAR,
    LEVELS,
    PACE,
    PACE_VAR,
    SERVERS,
    Market,
    Menu,
    Problem,
    Shape,
    columns_at,
)

_TOP = float(LEVELS[-1]) * (1 - 1e-9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """A judge: the sum of first outputs at a high percentile, and the pace of the last role."""

    roles: int
    bounds: tuple[float, float]

    def figures(self, role, columns):
        found = np.zeros((len(columns), 4))
        found[:, :2] = columns[:, [FIRST, FIRST_VAR]]
        if role == self.roles - 1:
            found[:, 2:] = columns[:, [PACE, PACE_VAR]]
        return found

    def ratios(self, figures):
        first = figures[:, 0] + 2.3 * np.sqrt(figures[:, 1])
        pace = figures[:, 2] + 2.0 * np.sqrt(figures[:, 3])
        return np.stack([first / self.bounds[0], pace / self.bounds[1]], axis=1)

    def near(self, figures):
        return self.ratios(figures).max(axis=1)

    def meets(self, figures):
        return (self.ratios(figures) <= 1 + 1e-9).all(axis=1)


def small_problem(seed, *, shares=True):
    """(problem, rate): up to three roles, kinds and types, four devices of a kind."""
    random = np.random.default_rng(seed)
    roles, kinds = int(random.integers(1, 4)), int(random.integers(1, 4))
    market = Market(
        kinds=tuple("abc"[:kinds]),
        price=random.choice([1.0, 2.0, 3.5, 5.75], kinds),
        supply=random.integers(1, 5, kinds).astype(float),
    )
    menus = tuple(_menu(random, market, role, shares=shares) for role in range(roles))
    judge = Sums(roles=roles, bounds=(float(random.uniform(2, 14)), float(random.uniform(2, 14))))
    shape = Shape(name="whole", menus=menus, judge=judge)
    return Problem(shapes=(shape,), market=market), float(random.uniform(0.5, 5))


def _menu(random, market, role, *, shares):
    count = int(random.integers(1, 4))
    kind = random.integers(0, len(market.kinds), count)
    cards = random.choice([1.0, 2.0, 4.0, *([0.25, 0.5] if shares else [])], count)
    base = random.uniform(0.1, 1, (count, 1, 1, COLUMNS))
    grows = 0.5 + 0.2 / (1 - LEVELS)[None, :] / SERVERS[:, None]
    return Menu(
        role=f"role {role}",
        names=tuple(f"type {number}" for number in range(count)),
        kind=kind,
        cards=cards,
        capacity=cards * random.uniform(0.5, 3, count),
        most=np.floor(market.supply[kind] / cards + 1e-9).astype(np.int64),
        table=base * grows[None, :, :, None],
    )


def least_cost(problem, rate):
    """Of all staffings that meet everything; infinite where there is none."""
    return min((_least_cost(shape, problem, rate) for shape in problem.shapes), default=np.inf)


def _least_cost(shape, problem, rate):
    market, best = problem.market, np.inf
    options = [list(_staffings(shape, role, problem, rate)) for role in range(len(shape.menus))]
    for picks in itertools.product(*options):
        whole = np.ceil(sum(cards for cards, _ in picks) - 1e-9)
        cost = float(whole @ market.price)
        if cost >= best or cost > problem.cost_max or (whole > market.supply).any():
            continue
        if shape.judge.meets(sum(figures for _, figures in picks))[0]:
            best = cost
    return best


def _staffings(shape, role, problem, rate):
    menu = shape.menus[role]
    counted = [[(row, count) for count in range(1, most + 1)] for row, most in enumerate(menu.most.tolist())]
    alone = [(pool,) for pools in counted for pool in pools]
    mixed = [pair for one, other in itertools.combinations(counted, 2) for pair in itertools.product(one, other)]
    for pools in (*alone, *mixed):
        power = sum(menu.capacity[row] * count for row, count in pools)
        if rate > power * _TOP:
            continue
        cards = np.zeros(len(problem.market.kinds))
        mean, second = np.zeros(COLUMNS // 2), np.zeros(COLUMNS // 2)
        for row, count in pools:
            cards[menu.kind[row]] += menu.cards[row] * count
            share = menu.capacity[row] * count / power
            found = columns_at(menu, np.array([row]), np.array([count]), np.array([rate / power]))[0]
            mean += share * found[0::2]
            second += share * (found[1::2] + found[0::2] ** 2)
        columns = np.stack([mean, second - mean**2], axis=1).reshape(1, COLUMNS)
        yield cards, shape.judge.figures(role, columns)
