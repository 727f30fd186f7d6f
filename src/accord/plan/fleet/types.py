"""What each role could be served by, on each kind of the fleet: types of replicas with their curves, as a `Menu`.

In: an `Architecture`, a `Demand`, supplies, performances, what is allowed, quirks. Out: `Offer`s with their `Menu`,
and why kinds were left out. Invariant: every type fits its devices' memory; the order depends on names alone.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from accord.estimate.performance import Performance
from accord.estimate.quirks import Hit
from accord.plan.fleet.curve import Curve, curve_of
from accord.plan.fleet.demand import Demand
from accord.plan.fleet.divide import builds
from accord.plan.fleet.front import Floats
from accord.plan.fleet.menu import COLUMNS, LEVELS, SERVERS, Menu
from accord.plan.fleet.path import RoleOf
from accord.plan.fleet.replica import ReplicaType, replica_type
from accord.plan.fleet.supply import Supply
from accord.terms.architecture import Architecture
from accord.terms.intent import Allow
from accord.terms.refusal import Refusal

_ENDLESS = 1e9  # seconds that stand for a wait without end, so that sums and mixtures stay finite

# The figures of a kind, or which one is unknown.
Perform = Callable[[Supply], Performance | Refusal]


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One type. `nodes` is on how many nodes a replica stands, `most` how many there could be.

    `slower` is how much longer it takes by the workarounds of `hits`. `curve` is that of a replica with its own queue.
    """

    name: str
    replica: ReplicaType
    supply: Supply
    nodes: int
    most: int
    curve: Curve
    slower: float = 1.0
    hits: tuple[Hit, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Offers:
    """All types of one role, with the menu that has them in the same order.

    `refused`: why others aren't there. `shunned`: kinds that a fault without a workaround keeps away, with the fault.
    """

    role: RoleOf
    items: tuple[Offer, ...]
    menu: Menu
    refused: tuple[Refusal, ...]
    shunned: tuple[tuple[str, Hit], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What all roles are offered on."""

    architecture: Architecture
    demand: Demand
    supplies: tuple[Supply, ...]
    perform: Perform
    allow: Allow
    hits: Callable[[ReplicaType, Demand], tuple[Hit, ...]]


def offers(ground: Ground, role: RoleOf) -> Offers:
    """The types that fit."""
    found: list[Offer] = []
    refused: list[Refusal] = []
    shunned: list[tuple[str, Hit]] = []
    tables: list[Floats] = []
    for supply in ground.supplies:
        speeds = ground.perform(supply)
        if isinstance(speeds, Refusal):
            refused.append(speeds)
            continue
        for item in _of_kind(ground, role, supply, speeds):
            if isinstance(item, Refusal):
                refused.append(item)
            elif isinstance(item, Hit):
                shunned.append((supply.kind.name, item))
            else:
                offer, table = item
                found.append(offer)
                tables.append(table)
    kinds = {supply.kind.name: number for number, supply in enumerate(ground.supplies)}
    share = ground.demand.of(role.stage).share
    menu = Menu(
        role=f"{role.stage}.{role.role}",
        names=tuple(item.name for item in found),
        kind=np.array([kinds[item.supply.kind.name] for item in found], dtype=np.int64),
        cards=np.array([item.replica.cards for item in found], dtype=float),
        capacity=np.array([item.curve.capacity_rps / item.slower / share for item in found], dtype=float),
        most=np.array([item.most for item in found], dtype=np.int64),
        table=np.array(tables).reshape(len(tables), len(SERVERS), len(LEVELS), COLUMNS),
    )
    return Offers(
        role=role,
        items=tuple(found),
        menu=menu,
        refused=tuple(dict.fromkeys(refused)),
        shunned=tuple(dict.fromkeys(shunned)),
    )


def only(offers: Offers, kept: list[bool]) -> Offers:
    """These offers alone."""
    rows = np.flatnonzero(np.array(kept, dtype=bool)).astype(np.int64)
    menu = offers.menu
    return replace(
        offers,
        items=tuple(offers.items[row] for row in rows.tolist()),
        menu=replace(
            menu, names=tuple(menu.names[row] for row in rows.tolist()), kind=menu.kind[rows], cards=menu.cards[rows],
            capacity=menu.capacity[rows], most=menu.most[rows], table=menu.table[rows],
        ),
    )  # fmt: skip


def _of_kind(
    ground: Ground, role: RoleOf, supply: Supply, speeds: Performance
) -> Iterable[tuple[Offer, Floats] | Refusal | Hit]:
    architecture, demand = ground.architecture, ground.demand.of(role.stage)
    place = [stage.name for stage in architecture.graph.stages].index(role.stage)
    needs, stored = architecture.needs[place], architecture.stored[place]
    for build in builds(needs, demand, stored, supply=supply, allow=ground.allow, role=role.role):
        replica = replica_type(needs, demand, speeds, build)
        if isinstance(replica, Refusal):
            if build.share == 1:  # what doesn't fit into a part of a card says little
                yield replica
            continue
        hits = ground.hits(replica, ground.demand)
        fatal = [hit for hit in hits if hit.certain and hit.cost_ratio is None]
        if fatal:
            yield from fatal
            continue
        slower = max([1.0, *(hit.cost_ratio for hit in hits if hit.cost_ratio is not None)])
        ranks = build.parallel.ranks
        nodes = supply.nodes_of(ranks) or 1
        most = supply.cards * round(1 / build.share) if build.share < 1 else supply.replicas_max(ranks, nodes)
        curves = [curve_of(replica, demand, servers=int(servers)) for servers in SERVERS if servers <= max(1, most)]
        table = np.stack([curve.table() for curve in curves])
        table = np.concatenate([table, np.repeat(table[-1:], len(SERVERS) - len(table), axis=0)])
        table = np.minimum(table * np.array([slower, slower**2] * (COLUMNS // 2)), _ENDLESS)
        offer = Offer(
            name=_name(replica), replica=replica, supply=supply, nodes=nodes, most=most, curve=curves[0], slower=slower,
            hits=hits,
        )  # fmt: skip
        yield offer, table


def _name(replica: ReplicaType) -> str:
    """What tells a type from others, in an order that doesn't change."""
    build, parallel = replica.build, replica.build.parallel
    return (
        f"{replica.performance.kind} tp{parallel.tensor} pp{parallel.pipeline} dp{parallel.data} ep{parallel.expert} "
        f"x{build.share:g} {build.stored.quantization} {build.cache_dtype} {build.chunk_tokens} {replica.batch_max}"
    )
