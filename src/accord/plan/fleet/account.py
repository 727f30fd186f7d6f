"""What a choice promises, costs and stands on; what binds it, what comes second, what one more of something buys.

In: a `Question`, its `Candidates`, the choice that was placed. Out: `Account`. Invariant: predictions are those of the
search; margins come from searching again with one limit moved.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from accord.plan.fleet.build import PoolOf, pools_of
from accord.plan.fleet.candidates import Candidates
from accord.plan.fleet.choose import Choice, cheapest
from accord.plan.fleet.menu import LEVELS, Problem
from accord.plan.fleet.question import SECONDS_AN_HOUR, Question, cost_max, market_of, price_of, problem_of, with_cards
from accord.plan.fleet.rate import ProblemAt, carried, fastest, with_budget
from accord.plan.fleet.ways import bound_text, objective_name
from accord.terms import units
from accord.terms.account import (
    Account,
    Aim,
    Binding,
    Margin,
    MarginKind,
    PoolAccount,
    Predicted,
    QuirkNote,
    RunnerUp,
)
from accord.terms.estimate import Source

_NEAR = 0.97  # part of a limit that is used: at or above it, it binds
_WEAKEST_FIRST = (Source.ASSUMED, Source.MODELLED, Source.MEASURED)
_MILLISECOND_S = 1e-3
_RIVAL_ROLES = 2  # of the dearest roles, in which a runner-up must differ


def account_of(question: Question, found: Candidates, choice: Choice) -> Account:
    """The account. Margins and the runner-up take more searches, which nobody wants who has stopped the first."""
    more = not found.stopped
    pools, rate = pools_of(question, choice), found.rate_rps
    accounts = tuple(_pool(question, choice, item, rate) for item in pools)
    devices = sum(math.ceil(cards - 1e-9) for cards in choice.cards)
    unpriced = tuple(
        supply.kind.name
        for supply, cards in zip(question.supplies, choice.cards, strict=True)
        if cards > 0 and supply.kind.price_usd_per_hour is None
    )
    dollars = None if unpriced else _dollars(question, choice)
    weakest = min(accounts, key=lambda item: (_WEAKEST_FIRST.index(item.source), -item.uncertainty, item.pool))
    binds = tuple(_binds(question, choice, rate))
    return Account(
        aim=question.aim,
        pools=accounts,
        predicted=tuple(
            Predicted(objective=item, value=ratio * item.bound)
            for item, ratio in zip(question.intent.objectives, choice.ratios, strict=True)
        ),
        rate_rps=rate,
        rate_rps_max=_rate_max(question, found, choice),
        devices=devices,
        cost_usd_per_hour=dollars,
        cost_usd_per_request=None if dollars is None else dollars / (rate * SECONDS_AN_HOUR),
        source=weakest.source,
        uncertainty=weakest.uncertainty,
        weakest=weakest.weakest,
        unpriced=unpriced,
        binds=binds,
        runner_up=_runner_up(question, choice, rate) if more else None,
        margins=tuple(_margins(question, choice, rate, binds)) if more else (),
        quirks=tuple(dict.fromkeys((*_charged(pools), *_shunned(question, choice)))),
        remarks=tuple(_remarks(question, found)),
    )


def _pool(question: Question, choice: Choice, item: PoolOf, rate: float) -> PoolAccount:
    menu = question.shapes[choice.shape][item.staff].menu
    staff = choice.staff[item.staff]
    power = sum(float(menu.capacity[row]) * count for row, count in staff.pools)
    row = question.shapes[choice.shape][item.staff].items.index(item.offer)
    mine = float(menu.capacity[row]) * item.replicas
    share = question.demand.of(item.offer.replica.stage).share
    level = int(np.argmin(np.abs(LEVELS - item.used)))
    devices = item.offer.replica.cards * item.replicas
    price = item.offer.supply.kind.price_usd_per_hour
    speeds = item.offer.replica.performance
    memory = item.offer.replica.memory
    whole = item.offer.supply.kind.memory_bytes
    return PoolAccount(
        pool=item.name,
        rate_rps=rate * share * mine / power,
        capacity_rps=mine * share,
        utilisation=item.used,
        batch=float(np.broadcast_to(item.offer.curve.batch, LEVELS.shape)[level]),
        memory_bytes=memory.taken_bytes,
        memory_bytes_max=memory.device_bytes if whole is None else int(whole.value),
        devices=devices,
        cost_usd_per_hour=None if price is None else devices * price.value,
        source=speeds.source,
        uncertainty=speeds.uncertainty,
        weakest=f"{speeds.kind} with {speeds.engine}",
    )


def _rate_max(question: Question, found: Candidates, choice: Choice) -> float:
    """The highest rate at which this plan still meets everything."""
    return max(found.rate_rps, carried(partial(problem_of, question), choice, found.rate_rps))


def _dollars(question: Question, choice: Choice) -> float:
    return sum(
        math.ceil(cards - 1e-9) * price_of(supply)
        for cards, supply in zip(choice.cards, question.supplies, strict=True)
    )


def _binds(question: Question, choice: Choice, rate: float) -> Iterator[Binding]:
    for objective, ratio in zip(question.intent.objectives, choice.ratios, strict=True):
        if ratio >= _NEAR:
            yield Binding(
                field=f"objectives.{objective_name(objective)}",
                value=bound_text(objective, ratio * objective.bound),
                limit=bound_text(objective, objective.bound),
                used=min(1.0, ratio),
            )
    limit = cost_max(question, rate)
    if math.isfinite(limit) and choice.cost >= _NEAR * limit:
        hour = question.intent.budget.cost_usd_per_hour_max
        field = "budget.per_hour" if hour is not None and hour <= limit * (1 + 1e-9) else "budget.per_request"
        yield Binding(
            field=field, value=units.format_usd(choice.cost, digits=3), limit=units.format_usd(limit, digits=3),
            used=min(1.0, choice.cost / limit),
        )  # fmt: skip
    for supply, cards in zip(question.supplies, choice.cards, strict=True):
        whole = math.ceil(cards - 1e-9)
        if whole == supply.cards:
            yield Binding(field=f"fleet.{supply.kind.name}", value=str(whole), limit=str(supply.cards), used=1.0)
    for staff in choice.staff:
        if staff.used >= _NEAR * LEVELS[-1]:
            text = units.format_share(staff.used, digits=2)
            yield Binding(field=f"capacity.{staff.role}", value=text, limit="100%", used=staff.used)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Make:
    """What tells makes of plans apart: for each role, kinds and parallelism."""

    shape: int
    roles: tuple[tuple[str, ...], ...]


def _make(question: Question, choice: Choice) -> _Make:
    return _Make(
        shape=choice.shape,
        roles=tuple(
            tuple(sorted(_word(offers.items[row].name) for row, _ in staff.pools))
            for offers, staff in zip(question.shapes[choice.shape], choice.staff, strict=True)
        ),
    )


def _word(name: str) -> str:
    """Kind and parallelism of an offer's name."""
    return " ".join(name.split(" ")[:5])


def _runner_up(question: Question, choice: Choice, rate: float) -> RunnerUp | None:
    """The cheapest plan without the types (kind and parallelism) of one of the roles that cost most."""
    rivals = [
        rival
        for role in _dearest(question, choice)
        for rival in _rivals(question, choice, role, rate)
        if _make(question, rival[1]) != _make(question, choice)
    ]
    if not rivals:
        return None
    carried_rps, best = min(rivals, key=lambda item: (-item[0], item[1].cost, sum(item[1].cards)))
    dollars = _dollars(question, best) if question.priced else None
    devices = sum(math.ceil(cards - 1e-9) for cards in best.cards)
    own = sum(math.ceil(cards - 1e-9) for cards in choice.cards)
    return RunnerUp(
        words=plan_words(question, best),
        cost_usd_per_hour=dollars,
        devices=devices,
        more_usd_per_hour=None if dollars is None else max(0.0, dollars - _dollars(question, choice)),
        more_devices=max(0.0, devices - own),
        fewer_rps=max(0.0, rate - carried_rps),
    )


def _rivals(question: Question, choice: Choice, role: int, rate: float) -> list[tuple[float, Choice]]:
    """The best plan without the choice's types in one role, with the rate that it carries."""
    if question.aim is Aim.RATE:
        most = fastest(lambda tried: _banned(question, choice, role, tried), most=rate)
        return [] if most is None else [(most.rate_rps, most.found.choices[0])]
    banned = _banned(question, choice, role, rate)
    found = cheapest(banned, rate, mixed=False).choices or cheapest(banned, rate).choices
    return [(rate, rival) for rival in found[:1]]


def _banned(question: Question, choice: Choice, role: int, rate: float) -> Problem:
    """The problem without what the choice has in one of its roles."""
    problem, offers = problem_of(question, rate), question.shapes[choice.shape][role]
    shape = problem.shapes[choice.shape]
    words = {_word(offers.items[row].name) for row, _ in choice.staff[role].pools}
    most = [0 if _word(item.name) in words else item.most for item in offers.items]
    menu = replace(offers.menu, most=np.array(most, dtype=np.int64))
    menus = (*shape.menus[:role], menu, *shape.menus[role + 1 :])
    shapes = (*problem.shapes[: choice.shape], replace(shape, menus=menus), *problem.shapes[choice.shape + 1 :])
    return replace(problem, shapes=shapes)


def _dearest(question: Question, choice: Choice) -> list[int]:
    """The roles that cost most."""
    market = market_of(question)
    costs = [
        sum(count * float((role.menu.cards * market.price[role.menu.kind])[row]) for row, count in staff.pools)
        for role, staff in zip(question.shapes[choice.shape], choice.staff, strict=True)
    ]
    return sorted(range(len(costs)), key=lambda number: -costs[number])[:_RIVAL_ROLES]


def plan_words(question: Question, choice: Choice) -> str:
    """ "2 x h200 tp4 (thinker-prefill), ...": pools in few words."""
    words = []
    for item in pools_of(question, choice):
        parallel = item.offer.replica.build.parallel
        form = f" tp{parallel.tensor}" if parallel.tensor > 1 else ""
        form += f" pp{parallel.pipeline}" if parallel.pipeline > 1 else ""
        form += f" dp{parallel.data}" if parallel.data > 1 else ""
        form += f" ep{parallel.expert}" if parallel.expert > 1 else ""
        share = item.offer.replica.build.share
        part = f" of {units.format_share(share, digits=2)}" if share < 1 else ""
        words.append(f"{item.name}: {item.replicas} x {item.offer.supply.kind.name}{form}{part}")
    return ", ".join(words)


def _margins(question: Question, choice: Choice, rate: float, binds: tuple[Binding, ...]) -> Iterator[Margin]:
    """Only of what binds: more of anything else buys nothing."""
    limits = {item.field for item in binds}
    for field, kind, problem_at in _moved(question):
        if field in limits:
            yield _margin(question, choice, rate, Margin(kind=kind, field=field, added=1.0), problem_at=problem_at)


def _moved(question: Question) -> Iterator[tuple[str, MarginKind, ProblemAt]]:
    """Each limit with the problem in which there is one more of it."""
    at: ProblemAt = partial(problem_of, question)
    yield "budget.per_hour", MarginKind.DOLLAR, with_budget(at, 1.0)
    for objective in question.intent.objectives:
        more = replace(objective, bound=objective.bound + _MILLISECOND_S)
        laxer = tuple(more if item == objective else item for item in question.intent.objectives)
        name = f"objectives.{objective_name(objective)}"
        yield name, MarginKind.MILLISECOND, partial(problem_of, question, objectives=laxer)
    for number, supply in enumerate(question.supplies):
        yield f"fleet.{supply.kind.name}", MarginKind.CARD, partial(_one_card_more, at, number)


def _one_card_more(at: ProblemAt, kind: int, rate: float) -> Problem:
    return with_cards(at(rate), kind, 1)


def _margin(question: Question, choice: Choice, rate: float, margin: Margin, *, problem_at: ProblemAt) -> Margin:
    if question.aim is Aim.RATE:
        most = fastest(problem_at, known=(rate, choice))
        return replace(margin, gained_rps=max(0.0, (most.rate_rps if most else rate) - rate))
    # Only what is cheaper counts, which makes this search a short one.
    problem = problem_at(rate)
    found = cheapest(replace(problem, cost_max=min(problem.cost_max, choice.cost)), rate).choices
    saved = max(0.0, choice.cost - found[0].cost) if found else 0.0
    if question.priced:
        return replace(margin, saved_usd_per_hour=saved)
    return replace(margin, saved_devices=saved)


def _charged(pools: tuple[PoolOf, ...]) -> Iterator[QuirkNote]:
    """Faults of the kinds that the plan uses, which are gone round or may not touch it."""
    for item in pools:
        for hit in item.offer.hits:
            ratio = hit.cost_ratio
            way = "it may touch this model" if ratio is None else f"gone round, at most {ratio:.3g} times as long"
            yield QuirkNote(
                quirk=hit.quirk.name, kind=item.offer.supply.kind.name, stage=item.offer.replica.stage,
                cost_ratio=ratio, words=f"{hit.quirk.fault} in {hit.quirk.operator}: {way}",
            )  # fmt: skip


def _shunned(question: Question, choice: Choice) -> Iterator[QuirkNote]:
    """Faults that kept kinds away from stages."""
    for role in question.shapes[choice.shape]:
        for kind, quirk in dict.fromkeys((kind, hit.quirk) for kind, hit in role.shunned):
            words = f"{quirk.fault} in {quirk.operator}, and no way round it is known: left out"
            yield QuirkNote(quirk=quirk.name, kind=kind, stage=role.role.stage, cost_ratio=None, words=words)


def _remarks(question: Question, found: Candidates) -> Iterator[str]:
    if found.stopped:
        yield "the search was stopped: this is the best so far"
    elif not found.whole:
        yield "mixed pools were looked for among the likeliest types of each role alone"
    if question.unpriced:
        yield f"no price is known of {', '.join(question.unpriced)}: plans are compared by the devices they take"
    agents = question.intent.agents
    if agents is not None and (agents.sandbox or agents.state_retention_s or agents.wakes):
        yield "agents: their sandboxes, states and wakes are not counted in this plan"
    budget = question.intent.budget
    if question.unpriced and (budget.cost_usd_per_hour_max, budget.cost_usd_per_request_max) != (None, None):
        yield "the budget could not be held against plans without prices"
    left_out = {
        (item.field, item.value) for role in question.shapes[0] for item in role.refused if item.value == "unknown"
    }
    for field, _ in sorted(left_out):
        yield f"{field} is unknown: the kind was left out"
