"""The cheapest staffing of all roles that meets the objectives at a rate.

In: a `Problem`, a rate. Out: a `Found` with the best `Choice` and others near it. Invariant: while `Found.whole` holds,
nothing in the space of `pools.py` is cheaper.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from accord.plan.fleet.front import Ints
from accord.plan.fleet.menu import EASE, Market, Menu, Problem, Shape, bill
from accord.plan.fleet.merge import hopeful, merge, unbeaten
from accord.plan.fleet.pools import BUSY_MAX, NONE, Options, joined, pairs, singles
from accord.plan.fleet.start import good_start

_TIE = 1e-7  # of the highest price, for each card: of equally cheap plans, the one with fewer cards
_KEEP = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Staff:
    """What serves one role: rows of its menu with counts of replicas, equally busy."""

    role: str
    pools: tuple[tuple[int, int], ...]
    used: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One plan. `cards` are by kind of the market. `ratios` are the objectives' predictions over their bounds."""

    shape: int
    staff: tuple[Staff, ...]
    cost: float
    cards: tuple[float, ...]
    ratios: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """`choices` begins with the best; others follow by cost. `whole`: all of the space was looked at."""

    choices: tuple[Choice, ...]
    whole: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where a search is. `cost` is of the best plan so far (infinite: none yet)."""

    step: str
    done: int
    of: int
    cost: float


# Told how far a search is; False ends it with the best so far.
Watch = Callable[[Progress], bool]


def quiet(_: Progress) -> bool:
    """A watch that lets a search run."""
    return True


def cheapest(problem: Problem, rate_rps: float, *, mixed: bool = True, watch: Watch = quiet) -> Found:
    """The cheapest plans over all shapes; none if nothing meets the objectives, the supply and the budget.

    Not `mixed`: each role has one pool, which is found much faster.
    """
    return _search(problem, rate_rps, watch=watch, enough=False, mixed=mixed)


def any_plan(problem: Problem, rate_rps: float) -> Found:
    """The first plan that comes along, if there is any."""
    return _search(problem, rate_rps, watch=quiet, enough=True, mixed=True)


def _search(problem: Problem, rate_rps: float, *, watch: Watch, enough: bool, mixed: bool) -> Found:
    market = _even(problem.market)
    # The price that breaks ties must not push a plan over the budget.
    slack = float((market.price - problem.market.price) @ np.minimum(market.supply, 1e6))
    limit, whole = (problem.cost_max + slack) * (1 + EASE), True
    found: list[Choice] = []
    for number, shape in enumerate(problem.shapes):
        if not watch(Progress(step=shape.name, done=number, of=len(problem.shapes), cost=limit)):
            whole = False
            break
        hunt = _Hunt(
            number=number, shape=shape, market=market, rate_rps=rate_rps, enough=enough, mixed=mixed, watch=watch
        )
        choices, complete = _of_shape(hunt, limit)
        whole = whole and complete
        found += choices
        limit = min([limit, *(choice.cost * (1 + EASE) for choice in choices)])
        if enough and found:
            break
    exact = [_priced(choice, problem.market) for choice in sorted(found, key=_order)]
    return Found(
        choices=tuple(item for item in exact if item.cost <= problem.cost_max * (1 + EASE))[:_KEEP], whole=whole
    )


def _even(market: Market) -> Market:
    """With a price for every card that breaks ties, and that is far below any other difference."""
    top = float(market.price.max(initial=0.0)) or 1.0
    return Market(kinds=market.kinds, price=market.price + _TIE * top, supply=market.supply)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hunt:
    """The search of one shape. `enough`: the first plan will do. `mixed`: roles may have two pools."""

    number: int
    shape: Shape
    market: Market
    rate_rps: float
    enough: bool
    mixed: bool
    watch: Watch

    def going(self, done: int, of: int, limit: float) -> bool:
        """Whether to go on."""
        return self.watch(Progress(step=self.shape.name, done=done, of=of, cost=limit))


def _of_shape(hunt: _Hunt, limit: float) -> tuple[list[Choice], bool]:
    """The best plans of one shape that cost at most `limit`, and whether all of its space was looked at.

    Single pools come first: the best plan of theirs bounds what mixed ones may cost.
    """
    places = range(len(hunt.shape.menus))
    alone = tuple(singles(hunt.shape, place, hunt.market, hunt.rate_rps, cost_max=limit) for place in places)
    found, _ = _exact(hunt, alone, limit)
    if (hunt.enough and found) or not hunt.mixed:
        return found, True
    limit = min([limit, *(choice.cost * (1 + EASE) for choice in found)])
    if not hunt.going(0, len(places), limit):
        return found, False
    mixed = [_with_pairs(hunt, alone, place, limit) for place in places]
    more, whole = _exact(hunt, tuple(role for role, _ in mixed), limit)
    return list(dict.fromkeys([*found, *more])), whole and all(complete for _, complete in mixed)


def _with_pairs(hunt: _Hunt, alone: tuple[Options, ...], place: int, limit: float) -> tuple[Options, bool]:
    """A role's single pools and its mixed ones. Other roles cost at least what any mix of theirs costs."""
    others = (menu for other, menu in enumerate(hunt.shape.menus) if other != place)
    least = sum(_least_cost(menu, hunt.market, hunt.rate_rps) for menu in others)
    found, whole = pairs(hunt.shape, place, hunt.market, hunt.rate_rps, cost_max=limit - least)
    return joined(alone[place], found), whole


def _least_cost(menu: Menu, market: Market, rate_rps: float) -> float:
    """No staffing of a role costs less: it has a replica, and carries the rate."""
    each = menu.cards * market.price[menu.kind]
    if not len(each):
        return 0.0
    return max(float(each.min()), rate_rps / BUSY_MAX * float((each / menu.capacity).min()))


def _exact(hunt: _Hunt, roles: tuple[Options, ...], limit: float) -> tuple[list[Choice], bool]:
    """The best plans within the supply, and whether nothing was left out.

    First no kinds are told apart; where the best then takes more of a kind than there is, that kind is. Not telling
    kinds apart leaves out more, and is right as long as the supply doesn't bind.
    """
    shape, market = hunt.shape, hunt.market
    roles = hopeful(shape, market, roles, limit=limit)
    pick = good_start(shape, market, roles) if all(len(role) for role in roles) else None
    begun = [] if pick is None else _choices(hunt, roles, np.array([pick]))
    begun = [choice for choice in begun if choice.cost <= limit]
    if begun:
        if hunt.enough:
            return begun, True
        limit = min(limit, begun[0].cost * (1 + EASE))
        roles = hopeful(shape, market, roles, limit=limit)
    if not all(len(role) for role in roles):
        return begun, True
    apart = np.zeros(len(market.kinds), dtype=bool)
    while True:
        kept, whole = unbeaten(shape, roles, apart, market)
        picks, all_met = merge(shape, market, kept, limit=limit, apart=apart, going=hunt.going)
        if not len(picks):
            return begun, whole and all_met
        cards = sum((role.cards[picks[:, place]] for place, role in enumerate(kept)), np.zeros(()))
        over = np.asarray(np.ceil(cards - EASE) > market.supply)
        held = np.flatnonzero(~over.any(axis=1))
        if len(held) and held[0] == 0:
            return [*_choices(hunt, kept, picks[held]), *begun], whole and all_met
        apart = apart | over[0]


def _choices(hunt: _Hunt, roles: tuple[Options, ...], picks: Ints) -> list[Choice]:
    """The best of these picks."""
    cards = np.sum([role.cards[picks[:, at]] for at, role in enumerate(roles)], axis=0)
    figures = np.sum([role.figures[picks[:, at]] for at, role in enumerate(roles)], axis=0)
    costs, ratios = bill(hunt.market, cards), hunt.shape.judge.ratios(figures)
    near = np.round(ratios.max(axis=1, initial=0.0), 9)
    best = np.lexsort((near, np.round(costs, 9)))[:_KEEP]
    return [
        Choice(
            shape=hunt.number,
            staff=tuple(
                _staff(menu.role, role, int(picks[row, at]))
                for at, (menu, role) in enumerate(zip(hunt.shape.menus, roles, strict=True))
            ),
            cost=float(costs[row]),
            cards=tuple(cards[row].tolist()),
            ratios=tuple(ratios[row].tolist()),
        )
        for row in best.tolist()
    ]


def _staff(name: str, role: Options, row: int) -> Staff:
    pools = tuple((int(kind), int(count)) for kind, count in zip(role.types[row], role.counts[row], strict=True))
    return Staff(role=name, pools=tuple(pool for pool in pools if pool[0] != NONE), used=float(role.used[row]))


def _priced(choice: Choice, market: Market) -> Choice:
    """At the market's own prices."""
    return replace(choice, cost=float(bill(market, np.array([choice.cards]))[0]))


def _order(choice: Choice) -> tuple[float, float, int, tuple[tuple[tuple[int, int], ...], ...]]:
    """By cost; then the plan whose nearest objective is farthest; then by place in the menus, which are in an order."""
    near = round(max(choice.ratios, default=0.0), 9)
    return round(choice.cost, 9), near, choice.shape, tuple(staff.pools for staff in choice.staff)
