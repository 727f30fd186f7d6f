"""Why nothing meets an intent on a fleet, and the ways out that lead out.

In: a `Question` without a plan. Out: a `Refusal`. Invariant: the field that it names is the first of memory, rate,
objectives (in the intent's order) and budget that can't be met together with those before it; its limit was searched.
"""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from accord.plan.fleet.choose import Choice, any_plan, cheapest
from accord.plan.fleet.question import SECONDS_AN_HOUR, Question, cost_max, over_context, problem_of
from accord.plan.fleet.rate import fastest
from accord.plan.fleet.ways import (
    LOWEST_RPS,
    Way,
    bound_text,
    down,
    fewer_requests,
    laxer,
    more_cards,
    more_nodes,
    objective_name,
    raised,
    shorter_prompts,
    smaller_numbers,
    up,
    words_of,
)
from accord.terms import units
from accord.terms.gang import Placement
from accord.terms.intent import Objective
from accord.terms.refusal import Refusal

_HALVINGS = 9
_FAR = 1e4  # an objective that is missed by more than this can't be met at any price


def refuse(question: Question) -> Refusal:
    """The first of these that stands in the way: memory, the rate, an objective, the budget."""
    # Whatever can't be met at any rate can't be met at the lowest.
    rate = question.intent.workload.rate_rps or LOWEST_RPS
    if over_context(question):
        return _too_long(question)
    for role in question.shapes[0]:
        if not role.items:
            return _nothing_fits(question, rate, role.role.stage, role.refused)
    free = replace(problem_of(question, None, objectives=()), cost_max=np.inf)
    if not any_plan(free, rate).choices:
        return _rate(question, rate)
    met: tuple[Objective, ...] = ()
    for objective in question.intent.objectives:
        asked = replace(problem_of(question, None, objectives=(*met, objective)), cost_max=np.inf)
        if not any_plan(asked, rate).choices:
            return _objective(question, rate, met, objective)
        met = (*met, objective)
    return _budget(question, rate)


def unplaced(question: Question, said: Placement | Refusal | None) -> Refusal:
    """Plans exist, but none can be placed: counts suffice, topology doesn't. None: there was none to place yet."""
    if said is None:
        return Refusal(
            field="search", value="stopped", limit="no plan was found yet", causes=("it was ended early",),
            fix=("let it run",), may_retry=True,
        )  # fmt: skip
    told = said if isinstance(said, Refusal) else None
    return Refusal(
        field="fleet",
        value=question.intent.fleet,
        limit="no plan that meets everything can be placed" if told is None else told.limit,
        causes=("devices suffice by number", *(() if told is None else (f"{told.field}: {told.value}", *told.causes))),
        fix=("free whole nodes, or add some",) if told is None else told.fix,
        may_retry=True,
    )


def _nothing_fits(question: Question, rate: float, stage: str, refused: tuple[Refusal, ...]) -> Refusal:
    """The refusal of the build that comes nearest, with those of other kinds as causes."""
    if not refused:
        return Refusal(
            field="fleet", value=question.intent.fleet, limit=f"no device is free for {stage}",
            causes=("all devices of the fleet are taken",), fix=("free devices, or add some",), may_retry=True,
        )  # fmt: skip
    by_field: dict[str, Refusal] = {}
    for item in refused:
        kept = by_field.get(item.field)
        if kept is None or _lacks(item) < _lacks(kept):
            by_field[item.field] = item
    nearest = min(by_field.values(), key=lambda item: (_lacks(item), item.field))
    others = tuple(f"{item.field}: {item.value}, {item.limit}" for item in by_field.values() if item is not nearest)
    ways = [*smaller_numbers(question, rate), *more_nodes(question, rate)]
    return replace(
        nearest,
        causes=(f"nothing in this fleet can run {stage}", *nearest.causes, *others[:3]),
        fix=words_of(ways) if ways else nearest.fix,
    )


def _too_long(question: Question) -> Refusal:
    spread, most = question.intent.workload.input_tokens, question.architecture.context_max or 0
    p99 = 0.0 if spread is None else spread.p99
    return Refusal(
        field="workload.input_tokens",
        value=f"p99 of {p99:g}",
        limit=f"{question.architecture.name} reads {most:,} tokens at most",
        causes=("prompts and answers share the model's context",),
        fix=(f"workload.input_tokens.p99 < {most:g}", "use a model with a longer context"),
    )


def _lacks(refusal: Refusal) -> float:
    """How much larger the limit is than the value, where both begin with a figure."""
    try:
        return float(refusal.limit.split(" ")[0]) - float(refusal.value.split(" ")[0])
    except ValueError:
        return math.inf


def _rate(question: Question, rate: float) -> Refusal:
    # Objectives aside: they are judged after the rate.
    most = fastest(lambda _: replace(problem_of(question, None, objectives=()), cost_max=np.inf), most=rate)
    ways = [*fewer_requests(question, rate), *more_cards(question, rate), *smaller_numbers(question, rate)]
    return Refusal(
        field="workload.rate_rps",
        value=f"{rate:g}",
        limit="nothing at all is carried" if most is None else f"all devices carry {down(most.rate_rps):g} requests/s",
        causes=tuple(f"{supply.kind.name}: {supply.cards} free" for supply in question.supplies),
        fix=words_of(ways),
    )


def _objective(question: Question, rate: float, met: tuple[Objective, ...], objective: Objective) -> Refusal:
    """`met` can be met; `objective` can't on top of them, whatever it costs."""
    reached = _reached(question, rate, met, objective)
    limit, ways = "no plan on this fleet comes near", list[Way]()
    if reached is not None:
        best, choice = reached
        limit = f"reachable is {bound_text(objective, best)} with {_cards_words(question, choice)}"
        ways += raised(question, rate, objective, up(best))
    ways += [*fewer_requests(question, rate), *more_cards(question, rate)]
    ways += [*smaller_numbers(question, rate), *shorter_prompts(question, rate)]
    return Refusal(
        field=f"objectives.{objective_name(objective)}",
        value=bound_text(objective, objective.bound),
        limit=limit,
        causes=tuple(_alone(question)),
        fix=words_of(ways),
    )


def _budget(question: Question, rate: float) -> Refusal:
    budget = question.intent.budget
    if question.intent.workload.rate_rps is None and budget.cost_usd_per_hour_max is None:
        # A request is cheapest where devices are full.
        most = fastest(lambda _: replace(problem_of(question, None), cost_max=np.inf))
        rate = rate if most is None else most.rate_rps
    limit = cost_max(question, rate)
    found = cheapest(replace(problem_of(question, rate), cost_max=np.inf), rate).choices[0]
    by_hour = budget.cost_usd_per_hour_max is not None and budget.cost_usd_per_hour_max <= limit * (1 + 1e-9)
    per = 1.0 if by_hour else SECONDS_AN_HOUR * rate
    field = "per_hour" if by_hour else "per_request"
    value = budget.cost_usd_per_hour_max if by_hour else budget.cost_usd_per_request_max
    ways = [Way(asks=found.cost / limit, words=f"budget.{field} >= {units.format_usd(up(found.cost / per))}")]
    ways += [*fewer_requests(question, rate), *laxer(question, rate), *smaller_numbers(question, rate)]
    return Refusal(
        field=f"budget.{field}",
        value=units.format_usd(value or 0.0),
        limit=f"the cheapest plan costs {units.format_usd(found.cost / per, digits=3)}",
        causes=(f"it takes {_cards_words(question, found)}",),
        fix=words_of(ways),
    )


def _reached(
    question: Question, rate: float, met: tuple[Objective, ...], objective: Objective
) -> tuple[float, Choice] | None:
    """The best value that any plan reaches with the others met, and that plan."""

    def plan(bound: float) -> Choice | None:
        asked = problem_of(question, None, objectives=(*met, replace(objective, bound=bound)))
        found = any_plan(replace(asked, cost_max=np.inf), rate).choices
        return found[0] if found else None

    low, high, best = objective.bound, objective.bound, None
    while best is None and high < objective.bound * _FAR:
        low, high = high, high * 4
        best = plan(high)
    if best is None:
        return None
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        found = plan(middle)
        low, high, best = (middle, high, best) if found is None else (low, middle, found)
    least = cheapest(
        replace(problem_of(question, None, objectives=(*met, replace(objective, bound=high))), cost_max=np.inf), rate
    ).choices
    return high, least[0] if least else best


def _alone(question: Question) -> Iterator[str]:
    """What each role of the first shape needs at its fastest, without any load."""
    for role in question.shapes[0]:
        quickest = min(role.items, key=lambda item: (float(item.curve.first.mean.flat[0]), item.name))
        text = units.format_duration_s(float(quickest.curve.first.mean.flat[0]), digits=3)
        yield f"{role.role.stage}: {text} to its first output, alone on {quickest.supply.kind.name} at its fastest"


def _cards_words(question: Question, choice: Choice) -> str:
    counts = [
        f"{math.ceil(cards - 1e-9)} x {supply.kind.name}"
        for cards, supply in zip(choice.cards, question.supplies, strict=True)
        if cards > 0
    ]
    return " + ".join(counts)
