"""The highest rate that can be carried under the objectives, the supply and a budget.

In: a problem for each rate. Out: the rate with the cheapest plan for it. Invariant: the plan carries the rate; no plan
in the space carries more than `STEP` above it, as long as whoever carries a rate carries lower ones, too.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from accord.plan.fleet.choose import Choice, Found, Progress, Watch, any_plan, cheapest, quiet
from accord.plan.fleet.front import Floats
from accord.plan.fleet.menu import EASE, Problem, bill
from accord.plan.fleet.pools import BUSY_MAX, NONE, staffed

STEP = 1e-3  # relative: what a higher rate must be more by
_LOWEST = 1e-6  # of what the supply could carry without objectives: below it there is nothing to find
_HALVINGS = 40

ProblemAt = Callable[[float], Problem]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fastest:
    """The highest rate, and the plans for it, the cheapest first."""

    rate_rps: float
    found: Found


def fastest(
    problem_at: ProblemAt, *, most: float = np.inf, known: tuple[float, Choice] | None = None, watch: Watch = quiet
) -> Fastest | None:
    """None: no rate can be carried.

    `most`: a rate above which nobody asks. `known`: a rate that a plan is known to carry.
    """
    high = min(most, _without_objectives(problem_at(1.0)))
    if high <= 0:
        return None
    going, rate = _Going(problem_at, watch), high
    best = known[1] if known is not None else going.plan(high)
    while best is None and rate > high * _LOWEST and not going.stopped:
        # Most budgets that carry anything carry a good part of what the supply does.
        high, rate = rate, rate / 4
        best = going.plan(rate)
    if best is None:
        return None
    low = min(most, carried(problem_at, best, rate if known is None else known[0]))
    while low * (1 + STEP) < high and not going.stopped:
        middle = low * (1 + STEP) if high < low * 1.05 else math.sqrt(low * high)
        better = going.plan(middle)
        if better is None:
            high = middle
        else:
            best, low = better, min(most, carried(problem_at, better, middle))
    found = cheapest(problem_at(low), low)
    return Fastest(rate_rps=low, found=found if found.choices else Found(choices=(best,), whole=False))


class _Going:
    """Searches that somebody watches; once stopped, none begins."""

    def __init__(self, problem_at: ProblemAt, watch: Watch) -> None:
        self.problem_at, self.watch, self.stopped, self.done = problem_at, watch, False, 0

    def plan(self, rate_rps: float) -> Choice | None:
        """A plan for a rate, None if there is none."""
        self.done += 1
        progress = Progress(step=f"{rate_rps:.3g} requests/s", done=self.done, of=self.done + 1, cost=np.inf)
        if self.stopped or not self.watch(progress):
            self.stopped = True
            return None
        found = any_plan(self.problem_at(rate_rps), rate_rps)
        return found.choices[0] if found.choices else None


def carried(problem_at: ProblemAt, choice: Choice, at_least: float) -> float:
    """The highest rate at which this very plan meets everything."""
    low, high = at_least, _capacity(problem_at(at_least), choice)
    if high > low and holds(problem_at, choice, high):
        return high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(problem_at, choice, middle) else (low, middle)
        if high - low <= EASE * low:
            break
    return low


def holds(problem_at: ProblemAt, choice: Choice, rate_rps: float) -> bool:
    """Whether a plan meets objectives and budget at another rate."""
    problem = problem_at(rate_rps)
    if rate_rps > _capacity(problem, choice) * (1 + EASE):
        return False
    figures = figures_at(problem, choice, rate_rps)
    cost = float(bill(problem.market, np.array([choice.cards]))[0])
    return cost <= problem.cost_max * (1 + EASE) and bool(problem.shapes[choice.shape].judge.meets(figures)[0])


def figures_at(problem: Problem, choice: Choice, rate_rps: float) -> Floats:
    """The judge's figures of a plan at a rate that it can carry, [1, figures]."""
    shape = problem.shapes[choice.shape]
    parts = []
    for role, staff in enumerate(choice.staff):
        pools = (*staff.pools, (NONE, 0))[:2]
        types, counts = np.array([[pool[0] for pool in pools]]), np.array([[pool[1] for pool in pools]])
        parts.append(staffed(shape, role, problem.market, rate_rps, types=types, counts=counts).figures)
    return np.asarray(np.sum(parts, axis=0))


def _capacity(problem: Problem, choice: Choice) -> float:
    menus = problem.shapes[choice.shape].menus
    return BUSY_MAX * min(
        sum(float(menu.capacity[row]) * count for row, count in staff.pools)
        for menu, staff in zip(menus, choice.staff, strict=True)
    )


def _without_objectives(problem: Problem) -> float:
    """What the supply carries at most: for each role as if it had all of it."""
    market, most = problem.market, 0.0
    for shape in problem.shapes:
        rates = []
        for menu in shape.menus:
            each = [
                market.supply[kind] * float((menu.capacity / menu.cards)[menu.kind == kind].max(initial=0.0))
                for kind in range(len(market.kinds))
            ]
            rates.append(sum(each))
        most = max([most, min(rates, default=0.0)])
    return float(BUSY_MAX * most)


def with_budget(problem_at: ProblemAt, more: float) -> ProblemAt:
    """With so much more to spend an hour."""
    return lambda rate: replace(problem_at(rate), cost_max=problem_at(rate).cost_max + more)
