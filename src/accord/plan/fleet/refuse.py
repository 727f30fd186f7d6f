"""Why nothing meets an intent on a fleet, and the ways out that were tried and lead out.

In: a `Question` without a plan. Out: a `Refusal`. Invariant: every way out that is named was searched with, and gives
a plan; they are ordered by how much they ask.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from accord.plan.fleet.choose import Found, cheapest
from accord.plan.fleet.menu import Problem
from accord.plan.fleet.question import Question, cost_max, problem_of, with_cards
from accord.plan.fleet.rate import fastest
from accord.terms import units
from accord.terms.gang import Placement
from accord.terms.intent import Metric, Objective
from accord.terms.refusal import Refusal

_WAYS_MAX = 4
_HALVINGS = 9
_MORE_CARDS = (1, 2, 4, 8, 16, 32, 64)
_FAR = 1e4  # an objective that is missed by more than this can't be met at any price


def refuse(question: Question) -> Refusal:
    """The first of these that stands in the way: memory, the rate, an objective, the budget."""
    for roles in question.shapes[:1]:
        for role in roles:
            if not role.items:
                return _nothing_fits(question, role.role.stage, role.refused)
    rate = question.intent.workload.rate_rps
    if rate is None:
        # Whatever can't be met at any rate can't be met at the lowest.
        rate = 1e-3
        question = replace(
            question, intent=replace(question.intent, workload=replace(question.intent.workload, rate_rps=rate))
        )
    free = problem_of(question, None, objectives=())
    if not cheapest(replace(free, cost_max=np.inf), rate).choices:
        return _rate(question, rate)
    met: tuple[Objective, ...] = ()
    for objective in question.intent.objectives:
        asked = problem_of(question, None, objectives=(*met, objective))
        if not cheapest(replace(asked, cost_max=np.inf), rate).choices:
            return _objective(question, rate, met, objective)
        met = (*met, objective)
    return _budget(question, rate)


def unplaced(question: Question, said: Placement | Refusal | None) -> Refusal:
    """Plans exist, but none can be placed: counts suffice, topology doesn't."""
    told = said if isinstance(said, Refusal) else None
    return Refusal(
        field="fleet",
        value=question.intent.fleet,
        limit="no plan that meets everything can be placed" if told is None else told.limit,
        causes=("devices suffice by number", *(() if told is None else (f"{told.field}: {told.value}", *told.causes))),
        fix=("free whole nodes, or add some",) if told is None else told.fix,
        may_retry=True,
    )


def objective_name(objective: Objective) -> str:
    """`ttft_p99`: how the intent writes it."""
    return f"{objective.metric}_{units.format_percentile(objective.percentile)}"


def bound_text(objective: Objective, value: float) -> str:
    """A figure of this objective with its unit."""
    return f"{value:.3g}" if objective.metric is Metric.RTF else units.format_duration_s(value, digits=3)


def _nothing_fits(question: Question, stage: str, refused: tuple[Refusal, ...]) -> Refusal:
    """The refusal of the build that comes nearest, with those of other kinds as causes."""
    if not refused:
        return Refusal(
            field="fleet", value=question.intent.fleet, limit=f"no kind can run {stage}", causes=("nothing is free",),
            fix=("free devices, or add some",), may_retry=True,
        )  # fmt: skip
    by_field: dict[str, Refusal] = {}
    for item in refused:
        kept = by_field.get(item.field)
        if kept is None or _gib(item.limit) < _gib(kept.limit):
            by_field[item.field] = item
    nearest = min(by_field.values(), key=lambda item: (_gib(item.limit) - _gib(item.value), item.field))
    causes = tuple(f"{item.field}: {item.value}, {item.limit}" for item in by_field.values() if item is not nearest)
    return replace(nearest, causes=(f"nothing in this fleet can run {stage}", *nearest.causes, *causes[:3]))


def _gib(text: str) -> float:
    word = text.split(" ", maxsplit=1)[0]
    try:
        return float(word)
    except ValueError:
        return math.inf


def _rate(question: Question, rate: float) -> Refusal:
    most = fastest(lambda _: replace(problem_of(question, None), cost_max=np.inf), most=rate)
    ways = [*_fewer_requests(question, rate), *_more_cards(question, rate)]
    return Refusal(
        field="workload.rate_rps",
        value=f"{rate:g}",
        limit="nothing at all is carried" if most is None else f"the fleet carries {_down(most.rate_rps):g} requests/s",
        causes=tuple(f"{supply.kind.name}: {supply.cards} free" for supply in question.supplies),
        fix=_words(ways),
    )


def _objective(question: Question, rate: float, met: tuple[Objective, ...], objective: Objective) -> Refusal:
    """`met` can be met; `objective` can't on top of them, whatever it costs."""
    name, reached = objective_name(objective), _reached(question, rate, met, objective)
    if reached is None:
        limit = "no plan on this fleet comes near"
    else:
        limit = f"reachable is {bound_text(objective, reached[0])} with {_cards_words(question, reached[1])}"
    ways: list[tuple[float, str]] = []
    if reached is not None:
        bound = _up(reached[0])
        others = tuple(replace(item, bound=bound) if item == objective else item for item in question.intent.objectives)
        if _plan(question, rate, objectives=others):
            ways.append((bound / objective.bound, f"objectives.{name} >= {bound_text(objective, bound)}"))
    ways += [*_fewer_requests(question, rate), *_more_cards(question, rate)]
    return Refusal(
        field=f"objectives.{name}",
        value=bound_text(objective, objective.bound),
        limit=limit,
        causes=tuple(_alone(question)),
        fix=_words(ways),
    )


def _budget(question: Question, rate: float) -> Refusal:
    budget = question.intent.budget
    hour = budget.cost_usd_per_hour_max
    each = budget.cost_usd_per_request_max
    found = cheapest(replace(problem_of(question, rate), cost_max=np.inf), rate)
    needed = found.choices[0].cost
    by_hour = hour is not None and hour <= cost_max(question, rate) * (1 + 1e-9)
    per = 1.0 if by_hour else 3600.0 * rate
    field, value = ("per_hour", hour) if by_hour else ("per_request", each)
    raised = _up(needed / per)
    ways = [(needed / cost_max(question, rate), f"budget.{field} >= {units.format_usd(raised)}")]
    ways += _fewer_requests(question, rate)
    for objective in question.intent.objectives:
        ways += _loosened(question, rate, objective)
    return Refusal(
        field=f"budget.{field}",
        value=units.format_usd(value or 0.0),
        limit=f"the cheapest plan costs {units.format_usd(needed / per, digits=3)}",
        causes=(f"it takes {_cards_words(question, found)}",),
        fix=_words(ways),
    )


def _reached(
    question: Question, rate: float, met: tuple[Objective, ...], objective: Objective
) -> tuple[float, Found] | None:
    """The best value that any plan reaches with the others met, and that plan."""

    def plans(bound: float) -> Found | None:
        asked = problem_of(question, None, objectives=(*met, replace(objective, bound=bound)))
        found = cheapest(replace(asked, cost_max=np.inf), rate)
        return found if found.choices else None

    low, high, best = objective.bound, objective.bound, None
    while best is None and high < objective.bound * _FAR:
        low, high = high, high * 4
        best = plans(high)
    if best is None:
        return None
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        found = plans(middle)
        low, high, best = (middle, high, best) if found is None else (low, middle, found)
    return high, best


def _plan(
    question: Question, rate: float, *, objectives: tuple[Objective, ...] | None = None,
    change: Callable[[Problem], Problem] = lambda problem: problem,
) -> Found | None:  # fmt: skip
    found = cheapest(change(problem_of(question, rate, objectives=objectives)), rate)
    return found if found.choices else None


def _fewer_requests(question: Question, rate: float) -> Iterator[tuple[float, str]]:
    """A lower rate, where one helps."""
    if question.intent.workload.rate_rps is None or rate <= 1e-3:
        return
    most = fastest(lambda tried: problem_of(question, tried), most=rate)
    if most is not None and _down(most.rate_rps) > 0:
        yield rate / most.rate_rps, f"workload.rate_rps <= {_down(most.rate_rps):g}"


def _more_cards(question: Question, rate: float) -> Iterator[tuple[float, str]]:
    """More devices of the one kind of which the fewest help."""
    total = sum(supply.cards for supply in question.supplies)
    for more in _MORE_CARDS:
        for number, supply in enumerate(question.supplies):
            if _plan(question, rate, change=partial(with_cards, kind=number, cards=more)):
                yield 1.0 + more / total, f"add {more} x {supply.kind.name}"
                return


def _loosened(question: Question, rate: float, objective: Objective) -> Iterator[tuple[float, str]]:
    """A laxer objective, where one brings the plan into the budget."""
    for factor in (1.25, 1.5, 2.0, 3.0, 5.0):
        bound = _up(objective.bound * factor)
        others = tuple(replace(item, bound=bound) if item == objective else item for item in question.intent.objectives)
        if _plan(question, rate, objectives=others):
            yield factor, f"objectives.{objective_name(objective)} >= {bound_text(objective, bound)}"
            return


def _alone(question: Question) -> Iterator[str]:
    """What each role of the first shape needs at its fastest, without any load."""
    for role in question.shapes[0]:
        fastest_one = min(role.items, key=lambda item: (float(item.curve.first.mean.flat[0]), item.name))
        seconds = float(fastest_one.curve.first.mean.flat[0])
        text = units.format_duration_s(seconds, digits=3)
        yield f"{role.role.stage}: {text} at the fastest, alone on {fastest_one.supply.kind.name}"


def _cards_words(question: Question, found: Found) -> str:
    choice = found.choices[0]
    counts = [
        f"{math.ceil(cards - 1e-9)} x {supply.kind.name}"
        for cards, supply in zip(choice.cards, question.supplies, strict=True)
        if cards > 0
    ]
    return " + ".join(counts)


def _words(ways: list[tuple[float, str]]) -> tuple[str, ...]:
    words = [words for _, words in sorted(ways)][:_WAYS_MAX]
    return tuple(words) or ("use faster devices, or a smaller model",)


def _up(value: float) -> float:
    """The next figure of two digits, so that people can write it."""
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / step - 1e-9) * step:.12g}")


def _down(value: float) -> float:
    if value <= 0:
        return 0.0
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.floor(value / step + 1e-9) * step:.12g}")
