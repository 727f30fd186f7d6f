"""A choice as a plan: pools, and the gang that is to be placed.

In: a `Question`, a `Choice`. Out: a `FleetPlan` without seats. Invariant: each pool's part asks for exactly what its
replicas were estimated with: devices, or a part of one with its memory; cores; bandwidth between prefill and decode.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from accord.estimate.cache import request_bytes
from accord.plan.fleet.choose import Choice
from accord.plan.fleet.cores import BUSY_MAX, PROCESS_CORES, input_core_s
from accord.plan.fleet.demand import Pace
from accord.plan.fleet.question import Question
from accord.plan.fleet.types import Offer
from accord.terms.account import Account
from accord.terms.fleet_plan import FleetPlan, Pool, Role
from accord.terms.gang import Bandwidth, Gang, Need, Part, Relation, Scope
from accord.terms.tensors import Quantization

_ROLE_WORDS = {Role.WHOLE: "", Role.PREFILL: "-prefill", Role.DECODE: "-decode"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOf:
    """One pool of a choice: its offer, its replicas, and how busy they are. `staff` and `row` say where it stands."""

    name: str
    offer: Offer
    replicas: int
    used: float
    staff: int


def pools_of(question: Question, choice: Choice) -> tuple[PoolOf, ...]:
    """The pools, in the order of the roles, with names that differ."""
    found: list[PoolOf] = []
    for number, staff in enumerate(choice.staff):
        offers = question.shapes[choice.shape][number]
        for row, count in staff.pools:
            offer = offers.items[row]
            base = f"{offers.role.stage}{_ROLE_WORDS[offers.role.role]}".replace("_", "-")
            name = f"{base}-{offer.supply.kind.name}" if len(staff.pools) > 1 else base
            if any(item.name == name for item in found):
                name = f"{name}-2"
            found.append(PoolOf(name=name, offer=offer, replicas=count, used=staff.used, staff=number))
    return tuple(found)


def fleet_plan(question: Question, choice: Choice, *, account: Account | None = None) -> FleetPlan:
    """The plan; the seats come from placing its gang."""
    pools = pools_of(question, choice)
    parts = tuple(
        Part(
            name=item.name,
            need=_need(question, item),
            replicas=item.replicas * item.offer.nodes,
            kinds=(item.offer.supply.kind.name,),
            within=_within(item.offer),
        )
        for item in pools
    )
    gang = Gang(name=question.intent.name, parts=parts, relations=tuple(_flows(question, pools)))
    return FleetPlan(
        name=question.intent.name,
        model=question.intent.model,
        graph=question.architecture.graph,
        pools=tuple(_pool(question, item) for item in pools),
        gang=gang,
        objectives=question.intent.objectives,
        account=account,
    )


def _pool(question: Question, item: PoolOf) -> Pool:
    replica = item.offer.replica
    build, demand = replica.build, question.demand.of(replica.stage)
    writes = demand.pace is Pace.WRITES
    published = {stage.name: stored for stage, _, stored in question.architecture.rows()}[replica.stage]
    changed = build.stored.quantization is not published.quantization
    quantized = build.stored.quantization is not Quantization.NONE
    return Pool(
        name=item.name,
        stage=replica.stage,
        part=item.name,
        engine=replica.performance.engine,
        kind=item.offer.supply.kind.name,
        replicas=item.replicas,
        nodes=item.offer.nodes,
        role=build.role,
        parallel=build.parallel,
        batch_max=replica.batch_max,
        chunk_tokens=build.chunk_tokens if writes and build.role is not Role.DECODE else None,
        cache_dtype=build.cache_dtype if writes else None,
        quantization=build.stored.quantization if changed and quantized else None,
    )


def _need(question: Question, item: PoolOf) -> Need:
    """Devices, or a part of one; a core for each process, and those that read its inputs."""
    replica, offer = item.offer.replica, item.offer
    rate_rps = item.used * offer.curve.capacity_rps / offer.slower / offer.nodes
    core_s = input_core_s(question.architecture, question.demand, question.intent, replica.stage)
    reading = math.ceil(10 * rate_rps * core_s / BUSY_MAX) / 10
    if replica.build.share < 1:
        return Need(share=replica.build.share, memory_bytes=replica.memory.taken_bytes, cpus=PROCESS_CORES + reading)
    cards = replica.build.parallel.ranks // offer.nodes
    return Need(cards=cards, memory_bytes=replica.memory.taken_bytes, cpus=cards * PROCESS_CORES + reading)


def _within(offer: Offer) -> Scope | None:
    """Tensor-parallel ranks need fast links where there are any."""
    cards = offer.replica.build.parallel.ranks // offer.nodes
    fast = offer.supply.kind.link_bytes_per_s is not None and 1 < cards <= offer.supply.linked
    return Scope.LINK_GROUP if fast and offer.supply.grouped else None


def _flows(question: Question, pools: tuple[PoolOf, ...]) -> Iterator[Relation]:
    """What caches take on their way from prefill to decode, where the fleet says what its network has."""
    sources = [item for item in pools if item.offer.replica.build.role is Role.PREFILL]
    targets = [item for item in pools if item.offer.replica.build.role is Role.DECODE]
    if any(item.offer.supply.network_bytes_per_s is None for item in (*sources, *targets)):
        return
    for source in sources:
        replica = source.offer.replica
        units = question.demand.of(replica.stage).units.mean
        held = request_bytes(replica.form.cache, tokens=math.ceil(units), dtype=replica.build.cache_dtype)
        ranks = replica.build.parallel.tensor
        for target in targets:
            power = sum(item.offer.curve.capacity_rps * item.replicas for item in targets)
            share = target.offer.curve.capacity_rps * target.replicas / power
            sent = source.used * source.offer.curve.capacity_rps * held * ranks * share / source.offer.nodes
            yield Bandwidth(source=source.name, target=target.name, bytes_per_s=sent)
