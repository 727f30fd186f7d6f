"""How devices of a pool are claimed: whole ones, shares of their capacity, partitions; and which parts share a card.

In: a `Member`. Out: `Slice`, the members on one card and what they take of it together. Invariant: devices of one kind
come from one driver, since two that publish the same device would give it out twice.
"""

from dataclasses import dataclass

from accord.render.dress import Member
from accord.render.engines.table import runs
from accord.render.hami_ask import percent
from accord.render.kubernetes_drivers import FRACTIONS, WHOLE, Driver
from accord.render.pods import byte_quantity
from accord.render.workloads import members
from accord.render.yaml_text import Document
from accord.terms.fleet import DeviceKind, Template
from accord.terms.fleet_plan import FleetPlan
from accord.terms.gang import Need, Scope, Together

CORES = 100  # HAMi's drivers count compute in hundredths of a device


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """How a fraction is claimed: from `driver`, as a hard partition of this `template` or as a share of its capacity.

    Neither: the whole device.
    """

    driver: Driver
    template: str | None = None
    shared: bool = False


def slice_of_member(member: Member) -> Slice:
    """How the devices of a pool with claims are claimed."""
    need = member.part.need
    if member.kind is None or member.vendor not in WHOLE:
        raise ValueError(f"pool {member.pool.name}: no driver with claims")
    if need.cards and not _kind_is_shared(member):
        return Slice(driver=WHOLE[member.kind.vendor])
    if need.cards:
        # Two drivers that publish one device give it out twice; of a device that is asked for whole, all is taken.
        return Slice(driver=FRACTIONS[member.kind.vendor])
    return slice_of(member.kind, need, _template_of(member.plan, member.part.name))


def _kind_is_shared(member: Member) -> bool:
    """Whether another pool takes shares of the capacity of devices of this kind."""
    needs = {part.name: part.need for part in member.plan.gang.parts}
    others = [pool.part for pool in member.plan.pools if pool.kind == member.pool.kind and needs[pool.part].share]
    kind = member.kind
    return kind is not None and any(
        slice_of(kind, needs[name], _template_of(member.plan, name)).shared for name in others
    )


def _template_of(plan: FleetPlan, part: str) -> str | None:
    """The template that all seats of a part name."""
    templates = {seat.template for seat in plan.seats if seat.part == part}
    return next(iter(templates)) if len(templates) == 1 else None


def slice_of(kind: DeviceKind, need: Need, template: str | None) -> Slice:
    """How a fraction of a device of this kind is claimed. `template` is what its seat says."""
    whole = WHOLE[kind.vendor]
    named = next((one for one in kind.templates if one.name == template), None) or _smallest(kind, need)
    if whole.profile is not None and named is not None and (template is not None or not kind.soft_share):
        return Slice(driver=whole, template=named.name)
    fractions = FRACTIONS.get(kind.vendor)
    return Slice(driver=fractions, shared=True) if fractions and kind.soft_share else Slice(driver=whole)


def card_mates(plan: FleetPlan, part: str) -> tuple[str, ...]:
    """All parts with processes that must stand on one card with this one; empty if none must."""
    running = {pool.part for pool in plan.pools if runs(plan, pool)}
    for relation in plan.gang.relations:
        match relation:
            case Together(parts=parts, scope=Scope.CARD, required=True) if part in parts:
                return tuple(sorted(set(parts) & running))
            case _:
                continue
    return ()


def _smallest(kind: DeviceKind, need: Need) -> Template | None:
    fitting = [one for one in kind.templates if one.memory_bytes >= need.memory_bytes and one.share >= need.share]
    return min(fitting, key=lambda one: (one.memory_bytes, one.share, one.name), default=None)


def joint_capacity(several: list[Member]) -> Document:
    """What all replicas of parts on one card take of it together; nothing where its driver gives out whole devices."""
    if not all(slice_of_member(member).shared for member in several):
        return {}
    cores = sum(percent(member.part.need.share, CORES) * member.part.replicas for member in several)
    memory = joint_bytes(several)
    return {"cores": str(min(cores, CORES)), **({"memory": byte_quantity(memory)} if memory else {})}


def joint_bytes(several: list[Member]) -> int | None:
    """The memory of that; None where a part states none, and for a whole device."""
    sizes = [member.part.need.memory_bytes * member.part.replicas for member in several]
    return sum(sizes) if all(sizes) and all(slice_of_member(member).shared for member in several) else None


def mates_of(member: Member) -> list[Member]:
    """Members of all parts on the card of this one, itself among them; none where nothing else is on it."""
    mates = card_mates(member.plan, member.part.name)
    return [_member_of(member, part) for part in mates] if len(mates) > 1 and one_vendor(member, mates) else []


def _member_of(member: Member, part: str) -> Member:
    """The first pods of another part."""
    pool = next(pool for pool in member.plan.pools if pool.part == part)
    return members(member.plan, pool, member.fleet, member.options)[0][0]


def one_vendor(member: Member, parts: tuple[str, ...]) -> bool:
    """Whether one driver with claims has the devices of all these parts."""
    pooled = {pool.part for pool in member.plan.pools}
    if not set(parts) <= pooled:
        return False
    mates = [_member_of(member, part) for part in parts]
    return member.vendor in WHOLE and len({(mate.kind.name if mate.kind else "") for mate in mates}) == 1
