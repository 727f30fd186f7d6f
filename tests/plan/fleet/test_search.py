"""The search against trying everything, and its laws on random problems."""

import functools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.plan.fleet.choose import any_plan, cheapest
from accord.plan.fleet.front import front
from accord.plan.fleet.menu import bill
from accord.plan.fleet.rate import carried, fastest, holds
from tests.plan.fleet.tables import least_cost, small_problem

SEEDS = st.integers(0, 1 << 32)


def cost_of(problem, rate):
    found = cheapest(problem, rate)
    assert found.whole
    return found.choices[0].cost if found.choices else np.inf


def _as_it_is(problem, _):
    return problem


@pytest.mark.parametrize("shares", [True, False])
def test_nothing_is_cheaper_than_what_is_found(shares):
    """On small problems the search equals trying every staffing, feasible or not."""
    met = 0
    for seed in range(120):
        problem, rate = small_problem(seed, shares=shares)
        wanted = least_cost(problem, rate)
        met += np.isfinite(wanted)
        assert cost_of(problem, rate) == pytest.approx(wanted, abs=1e-6), seed
    assert met > 30


@given(SEEDS, st.floats(0.0, 30.0))
def test_a_budget_is_kept_and_a_larger_one_never_makes_the_plan_dearer(seed, budget):
    problem, rate = small_problem(seed)
    free, held = cost_of(problem, rate), cost_of(replace(problem, cost_max=budget), rate)
    assert held == (pytest.approx(free) if free <= budget * (1 + 1e-9) else np.inf)


@given(SEEDS, st.integers(0, 2), st.integers(1, 3))
def test_more_devices_never_make_the_plan_dearer(seed, kind, more):
    problem, rate = small_problem(seed)
    kind %= len(problem.market.kinds)
    supply = problem.market.supply.copy()
    supply[kind] += more
    menus = tuple(
        replace(menu, most=np.floor(supply[menu.kind] / menu.cards + 1e-9).astype(np.int64))
        for menu in problem.shapes[0].menus
    )
    shape = replace(problem.shapes[0], menus=menus)
    larger = replace(problem, shapes=(shape,), market=replace(problem.market, supply=supply))
    assert cost_of(larger, rate) <= cost_of(problem, rate) + 1e-6


@given(SEEDS, st.floats(1.0, 5.0), st.floats(1.0, 5.0))
def test_laxer_objectives_never_make_the_plan_dearer(seed, first, pace):
    problem, rate = small_problem(seed)
    judge = problem.shapes[0].judge
    laxer = replace(judge, bounds=(judge.bounds[0] * first, judge.bounds[1] * pace))
    eased = replace(problem, shapes=(replace(problem.shapes[0], judge=laxer),))
    assert cost_of(eased, rate) <= cost_of(problem, rate) + 1e-6


@given(SEEDS, st.floats(0.01, 100.0))
def test_scaling_prices_scales_cost(seed, factor):
    problem, rate = small_problem(seed)
    scaled = replace(problem, market=replace(problem.market, price=problem.market.price * factor))
    assert cost_of(scaled, rate) == pytest.approx(cost_of(problem, rate) * factor, rel=1e-6)


@given(SEEDS, st.randoms(use_true_random=False))
def test_the_order_of_types_changes_nothing(seed, random):
    problem, rate = small_problem(seed)
    menus = []
    for menu in problem.shapes[0].menus:
        order = list(range(len(menu.names)))
        random.shuffle(order)
        menus.append(
            replace(
                menu,
                names=tuple(menu.names[row] for row in order),
                kind=menu.kind[order],
                cards=menu.cards[order],
                capacity=menu.capacity[order],
                most=menu.most[order],
                table=menu.table[order],
            )
        )
    shuffled = replace(problem, shapes=(replace(problem.shapes[0], menus=tuple(menus)),))
    assert cost_of(shuffled, rate) == pytest.approx(cost_of(problem, rate))


@given(SEEDS)
def test_every_choice_keeps_supply_and_objectives(seed):
    problem, rate = small_problem(seed)
    found = cheapest(problem, rate)
    assert bool(found.choices) == bool(any_plan(problem, rate).choices)
    for choice in found.choices:
        assert (np.ceil(np.array(choice.cards) - 1e-9) <= problem.market.supply).all()
        assert choice.cost == pytest.approx(float(bill(problem.market, np.array([choice.cards]))[0]))
        assert max(choice.ratios) <= 1 + 1e-6
        assert holds(functools.partial(_as_it_is, problem), choice, rate)


@given(SEEDS)
def test_the_highest_rate_is_carried_and_no_higher_one_is(seed):
    problem, _ = small_problem(seed)
    most = fastest(lambda _: problem)
    if most is None:
        assert not cheapest(problem, 1e-3).choices
        return
    assert cheapest(problem, most.rate_rps).choices
    assert not cheapest(problem, most.rate_rps * 1.002).choices
    lifted = carried(lambda _: problem, most.found.choices[0], most.rate_rps)
    assert lifted <= most.rate_rps * 1.0011


@given(st.integers(0, 1 << 32), st.integers(1, 400), st.integers(1, 5))
def test_a_front_leaves_out_what_is_beaten_and_nothing_else(seed, rows, columns):
    random = np.random.default_rng(seed)
    table = random.integers(0, 6, (rows, columns)).astype(float)
    kept = front(table)
    for row in range(rows):
        beaten = [other for other in kept.tolist() if other != row and (table[other] <= table[row]).all()]
        assert (row in kept.tolist()) != bool(beaten)
