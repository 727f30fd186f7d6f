"""What targets with gang schedulers ask of a plan: how many pods it has, and which stand below one switch.

In: a `FleetPlan`. Out: counts, names, `Near`. Invariant: relations within a host aren't told here; the pods' affinity
keeps them at least on one host.
"""

from dataclasses import dataclass

from accord.render.dress import Member
from accord.render.engines.table import runs
from accord.render.names import label_name
from accord.render.wishes import Wish
from accord.terms.fleet_plan import FleetPlan, Pool
from accord.terms.gang import Scope, Together

SWITCHES = (Scope.LEAF, Scope.SPINE)  # nearest first


@dataclass(frozen=True, slots=True, kw_only=True)
class Near:
    """Pools whose pods stand below one switch. `whole`: they are all of the plan's."""

    pools: tuple[Pool, ...]
    scope: Scope
    required: bool
    whole: bool

    def fulfils(self, wish: Wish) -> bool:
        """Whether the wish holds where this does: for the same parts or more, below the same switch or a nearer one."""
        parts = {pool.part for pool in self.pools}
        nearer = wish.scope in SWITCHES and SWITCHES.index(self.scope) <= SWITCHES.index(wish.scope)
        return nearer and set(wish.parts) <= parts and (self.required or not wish.required)


def group_name(plan: FleetPlan) -> str:
    """The name of the plan's pod group."""
    return label_name(plan.name)


def running(plan: FleetPlan) -> tuple[Pool, ...]:
    """The pools that have pods of their own; a gang that waited for others would wait forever."""
    return tuple(pool for pool in plan.pools if runs(plan, pool))


def pods_of(pool: Pool) -> int:
    """The pool's pods."""
    return pool.replicas * pool.nodes


def all_pods(plan: FleetPlan) -> int:
    """The plan's pods."""
    return sum(map(pods_of, running(plan)))


def task_name(pool: Pool) -> str:
    """What a pool is called within the group."""
    return label_name(pool.name)


def nears(plan: FleetPlan) -> tuple[Near, ...]:
    """The relations that keep pools below one switch: required ones first, nearer ones first."""
    found = []
    for relation in plan.gang.relations:
        if isinstance(relation, Together) and relation.scope in SWITCHES:
            pools = tuple(pool for pool in running(plan) if pool.part in relation.parts)
            whole = len(pools) == len(running(plan))
            found.append(Near(pools=pools, scope=relation.scope, required=relation.required, whole=whole))
    found.sort(key=lambda one: (not one.required, SWITCHES.index(one.scope)))
    return tuple(one for one in found if one.pools)


def takes_devices(member: Member) -> bool:
    """Whether the pods take any device, whole or in part."""
    return bool(member.part.need.cards or member.part.need.share)
