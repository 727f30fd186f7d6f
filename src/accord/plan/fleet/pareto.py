"""Plans that no other beats in both cost and something else.

In: a `Question`. Out: `FrontPoint`s by field: the rate that is carried, and each objective's bound. Invariant: along a
field, whoever pays more gets more.
"""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from accord.plan.fleet.account import plan_words
from accord.plan.fleet.choose import Choice, Watch, cheapest, quiet
from accord.plan.fleet.question import Question, problem_of
from accord.plan.fleet.rate import fastest
from accord.plan.fleet.ways import objective_name
from accord.terms.account import FrontPoint

_RATES = 12
_BOUNDS = 10
_SPAN = 4.0  # objectives are moved by this factor both ways


def pareto(question: Question, *, watch: Watch = quiet) -> tuple[FrontPoint, ...]:
    """Fronts of cost against the rate, and against each objective at the rate of the intent (or the highest)."""
    rate = question.intent.workload.rate_rps
    most = fastest(lambda _: replace(problem_of(question, None), cost_max=np.inf), watch=watch)
    if most is None:
        return ()
    points = [*_rates(question, most.rate_rps)]
    for number in range(len(question.intent.objectives)):
        points += _bounds(question, most.rate_rps if rate is None else rate, number)
    return tuple(points)


def _rates(question: Question, most: float) -> Iterator[FrontPoint]:
    problem = replace(problem_of(question, None), cost_max=np.inf)
    least = (
        most / 2**8 if question.intent.workload.rate_rps is None else min(most, question.intent.workload.rate_rps / 4)
    )
    best = math.inf
    kept: list[FrontPoint] = []
    for rate in np.geomspace(most, least, _RATES):
        found = cheapest(problem, float(rate)).choices
        if found and found[0].cost < best:
            best = found[0].cost
            kept.append(_point(question, found[0], field="workload.rate_rps", value=float(rate)))
    yield from reversed(kept)


def _bounds(question: Question, rate: float, number: int) -> Iterator[FrontPoint]:
    objective = question.intent.objectives[number]
    best = math.inf
    for factor in np.geomspace(1 / _SPAN, _SPAN, _BOUNDS):
        moved = tuple(
            replace(item, bound=item.bound * float(factor)) if item == objective else item
            for item in question.intent.objectives
        )
        found = cheapest(replace(problem_of(question, None, objectives=moved), cost_max=np.inf), rate).choices
        if found and found[0].cost < best:
            best = found[0].cost
            value = found[0].ratios[number] * moved[number].bound
            yield _point(question, found[0], field=f"objectives.{objective_name(objective)}", value=value)


def _point(question: Question, choice: Choice, *, field: str, value: float) -> FrontPoint:
    return FrontPoint(
        field=field,
        value=value,
        cost_usd_per_hour=choice.cost if question.priced else None,
        devices=float(sum(math.ceil(cards - 1e-9) for cards in choice.cards)),
        words=plan_words(question, choice),
    )
