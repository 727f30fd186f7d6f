"""A question about a fleet, made ready for the search.

In: an intent, an `Architecture`, a `Fleet`, how fast kinds are, quirks. Out: `Question`. Invariant: the order of nodes
and kinds in the fleet changes nothing; where a kind that could be used has no price, devices are counted instead.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from accord.estimate.quirks import Hit, hits, points
from accord.plan.fleet.demand import Demand, Pace, demand_of
from accord.plan.fleet.menu import Market, Problem, Shape
from accord.plan.fleet.path import RoleOf, path_of
from accord.plan.fleet.perform import Tunings, assumed, perform_of
from accord.plan.fleet.replica import ReplicaType
from accord.plan.fleet.supply import Supply, supplies
from accord.plan.fleet.types import Ground, Offer, Offers, offers, only
from accord.terms.account import Aim
from accord.terms.architecture import Architecture
from accord.terms.calibration import Calibration
from accord.terms.fleet import Fleet
from accord.terms.fleet_plan import Role
from accord.terms.intent import Intent, Objective
from accord.terms.quirk import Quirk
from accord.terms.tensors import Dtype, Quantization
from accord.terms.work import Load

SECONDS_AN_HOUR = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What is known beyond the catalog: tunings of engines on kinds, what was measured of kinds, quirks of devices."""

    tunings: Tunings = assumed
    calibrations: tuple[Calibration, ...] = ()
    quirks: tuple[Quirk, ...] = ()


NOTHING_GIVEN = Given()


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """`shapes` has the offers of each role of each shape, as the problem has their menus.

    `priced` says whether the market counts dollars; else it counts devices.
    """

    intent: Intent
    architecture: Architecture
    fleet: Fleet
    given: Given
    demand: Demand
    supplies: tuple[Supply, ...]
    shapes: tuple[tuple[Offers, ...], ...]
    priced: bool
    unpriced: tuple[str, ...]

    @property
    def aim(self) -> Aim:
        """What plans are compared by."""
        if self.intent.workload.rate_rps is None:
            return Aim.RATE
        return Aim.COST if self.priced else Aim.DEVICES


def question_of(intent: Intent, architecture: Architecture, fleet: Fleet, *, given: Given = NOTHING_GIVEN) -> Question:
    """Offers for every role of every shape."""
    demand = demand_of(architecture, intent)
    found = supplies(fleet)
    ground = Ground(
        architecture=architecture, demand=demand, supplies=found, allow=intent.allow,
        perform=perform_of(architecture, given.tunings, given.calibrations),
        hits=_hits_of(architecture, given.quirks),
    )  # fmt: skip
    roles = {role: offers(ground, role) for shape in _shapes(demand) for role in shape}
    shapes = tuple(
        one for shape in _shapes(demand) for one in _in_one_format(tuple(roles[role] for role in shape), architecture)
    )
    used = {item.supply.kind.name for offer in roles.values() for item in offer.items}
    unpriced = tuple(
        supply.kind.name for supply in found if supply.kind.name in used and supply.kind.price_usd_per_hour is None
    )
    return Question(
        intent=intent, architecture=architecture, fleet=fleet, given=given, demand=demand, supplies=found,
        shapes=shapes, priced=not unpriced, unpriced=unpriced,
    )  # fmt: skip


def asked_anew(question: Question, *, intent: Intent | None = None, fleet: Fleet | None = None) -> Question:
    """The same question with another intent or another fleet."""
    return question_of(intent or question.intent, question.architecture, fleet or question.fleet, given=question.given)


def over_context(question: Question) -> bool:
    """Whether prompts of the intent are longer than the model can read."""
    spread, most = question.intent.workload.input_tokens, question.architecture.context_max
    return spread is not None and most is not None and spread.p99 >= most


def problem_of(
    question: Question, rate_rps: float | None, *, objectives: tuple[Objective, ...] | None = None
) -> Problem:
    """What is searched. `rate_rps` turns a budget for a request into one for an hour."""
    asked = question.intent.objectives if objectives is None else objectives
    shapes = tuple(
        Shape(
            name=_shape_name(roles),
            menus=tuple(role.menu for role in roles),
            judge=path_of(question.architecture, question.demand, tuple(role.role for role in roles), asked),
        )
        for roles in question.shapes
    )
    return Problem(shapes=shapes, market=market_of(question), cost_max=cost_max(question, rate_rps))


def market_of(question: Question) -> Market:
    """Kinds by name, with what is free of them."""
    prices = [price_of(supply) if question.priced else 1.0 for supply in question.supplies]
    return Market(
        kinds=tuple(supply.kind.name for supply in question.supplies),
        price=np.array(prices, dtype=float),
        supply=np.array([supply.cards for supply in question.supplies], dtype=float),
    )


def price_of(supply: Supply) -> float:
    """Dollars an hour; 0 where a kind has no price (and no offer)."""
    price = supply.kind.price_usd_per_hour
    return 0.0 if price is None else price.value


def cost_max(question: Question, rate_rps: float | None) -> float:
    """The budget for an hour, without end where there is none. Without prices nobody can say what is too dear."""
    budget, limit = question.intent.budget, np.inf
    if not question.priced:
        return limit
    if budget.cost_usd_per_hour_max is not None:
        limit = min(limit, budget.cost_usd_per_hour_max)
    if budget.cost_usd_per_request_max is not None and rate_rps is not None:
        limit = min(limit, budget.cost_usd_per_request_max * rate_rps * SECONDS_AN_HOUR)
    return limit


def with_cards(problem: Problem, kind: int, cards: int) -> Problem:
    """With so many more devices of a kind (by its number in the market)."""
    supply = problem.market.supply.copy()
    supply[kind] += cards
    shapes = tuple(
        replace(
            shape,
            menus=tuple(
                replace(menu, most=menu.most + np.where(menu.kind == kind, cards // menu.cards, 0).astype(np.int64))
                for menu in shape.menus
            ),
        )
        for shape in problem.shapes
    )
    return replace(problem, shapes=shapes, market=replace(problem.market, supply=supply))


def _shapes(demand: Demand) -> tuple[tuple[RoleOf, ...], ...]:
    """Stages as wholes, and the one that writes the answer divided into prefill and decode."""
    whole = tuple(RoleOf(stage=item.stage, role=Role.WHOLE) for item in demand.stages)
    writes = [item for item in demand.stages if item.stage == demand.writer and item.pace is Pace.WRITES]
    if not writes or writes[0].outputs.mean <= 1.0:
        return (whole,)
    apart: list[RoleOf] = []
    for role in whole:
        if role.stage == demand.writer:
            apart += [RoleOf(stage=role.stage, role=Role.PREFILL), RoleOf(stage=role.stage, role=Role.DECODE)]
        else:
            apart.append(role)
    return whole, tuple(apart)


def _in_one_format(roles: tuple[Offers, ...], architecture: Architecture) -> Iterator[tuple[Offers, ...]]:
    """The shape once for each format of weights and caches that all its roles can have.

    Prefill hands its cache to decode, and the same question must not get another answer from another pool: formats
    are those of the service, not of a pool.
    """
    published = {stage.name: stored for stage, _, stored in architecture.rows()}

    def formats(offer: Offer) -> _Formats:
        build = offer.replica.build
        weights = None if build.stored == published[offer.replica.stage] else build.stored.quantization
        return _Formats(weights=weights, cache=build.cache_dtype if offer.replica.form.cache else None)

    all_formats = [[formats(item) for item in role.items] for role in roles]
    weights = sorted({item.weights for found in all_formats for item in found}, key=lambda item: item or "")
    caches: list[Dtype | None] = [*sorted({item.cache for found in all_formats for item in found if item.cache})]
    caches = caches or [None]
    found_all = False
    for one, dtype in itertools.product(weights, caches):
        kept = tuple(
            only(role, [item.weights == one and item.cache in (None, dtype) for item in found])
            for role, found in zip(roles, all_formats, strict=True)
        )
        if all(role.items for role in kept):
            found_all = True
            yield kept
    if not found_all:
        yield roles if not all(role.items for role in roles) else tuple(only(role, []) for role in roles)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Formats:
    """Of weights (None: the published one) and of a cache (None: there is none)."""

    weights: Quantization | None
    cache: Dtype | None


def _shape_name(roles: tuple[Offers, ...]) -> str:
    apart = any(role.role.role is Role.DECODE for role in roles)
    formats = dict.fromkeys(f"{item.replica.build.stored.quantization}" for role in roles for item in role.items)
    words = "prefill and decode apart" if apart else "whole stages"
    return f"{words}, weights {' and '.join(formats)}" if formats else words


def _hits_of(architecture: Architecture, quirks: tuple[Quirk, ...]) -> Callable[[ReplicaType, Demand], tuple[Hit, ...]]:
    """Which quirks of its kind touch the shapes that a replica runs: one prompt's worth, and a full batch."""

    def found(replica: ReplicaType, demand: Demand) -> tuple[Hit, ...]:
        mine = tuple(item for item in quirks if item.device in (replica.performance.kind, "*"))
        if not mine:
            return ()
        needs, asked = architecture.of(replica.stage), demand.of(replica.stage)
        loads = (
            Load(new=max(1, min(round(asked.units.mean), replica.build.chunk_tokens)), context=round(asked.context)),
            Load(new=1, context=round(asked.units.mean + asked.context), batch=replica.batch_max),
        )
        tensor = replica.build.parallel.tensor
        met = [point for load in loads for point in points(needs.operators, load, dtype=str(Dtype.BF16), ranks=tensor)]
        return hits(mine, replica.performance.kind, dict.fromkeys(met))

    return found
