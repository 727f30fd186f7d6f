"""A gang with one bound lifted or loosened: what a refusal tries.

In: a `Gang`. Out: `Bound`s, each with the gangs that lack it or ask for less. Invariant: every gang made here asks for
no more than the one it was made of.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from accord.place.gang_holds import scope_words, words
from accord.place.gang_wish import takes_cards
from accord.terms.fleet import Codec
from accord.terms.gang import Apart, Bandwidth, Gang, Need, Part, Relation, Scope, Together
from accord.terms.units import format_size_bytes

_BUS = (Scope.PCIE_SWITCH, Scope.PCIE_ROOT, Scope.NUMA, Scope.HOST, Scope.LEAF, Scope.SPINE)
_WIDER = {
    Scope.CARD: (Scope.LINK_GROUP, *_BUS),
    Scope.LINK_GROUP: (Scope.NUMA, Scope.HOST, Scope.LEAF, Scope.SPINE),
    Scope.PCIE_SWITCH: _BUS[1:],
    Scope.PCIE_ROOT: _BUS[2:],
    Scope.NUMA: _BUS[3:],
    Scope.HOST: _BUS[4:],
    Scope.LEAF: _BUS[5:],
    Scope.SPINE: (),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Looser:
    """A gang that asks for less, and in words what it asks for instead."""

    words: str
    gang: Gang


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """Something that a gang asks for. `lifted` is the gang without it.

    `looser` are others, the nearest first. An amount is of `steps` steps, and `less` asks for fewer of them; whatever
    fits with so many fits with fewer. `scope` is set for a part's own scope.
    """

    field: str
    value: str
    lifted: Gang
    looser: tuple[Looser, ...] = ()
    steps: int = 0
    less: Callable[[int], Looser] | None = None
    part: Part | None = None
    scope: Scope | None = None


def bounds(gang: Gang) -> Iterator[Bound]:
    """Relations, then scopes, then what parts take."""
    for number, relation in enumerate(gang.relations):
        if isinstance(relation, Bandwidth) or relation.required:
            yield _relation(gang, number, relation)
    for part in gang.parts:
        yield from _scopes(gang, part)
    for part in gang.parts:
        yield from _amounts(gang, part)


def with_part(gang: Gang, part: Part) -> Gang:
    """The gang with this part in place of the one of its name."""
    return replace(gang, parts=tuple(part if its.name == part.name else its for its in gang.parts))


def alone(gang: Gang, part: Part) -> Gang:
    """One replica of one part, without relations."""
    return replace(gang, parts=(replace(part, replicas=1),), relations=())


def _all(rows: list[tuple[str, Gang]]) -> tuple[Looser, ...]:
    return tuple(Looser(words=text, gang=gang) for text, gang in rows)


def _related(gang: Gang, number: int, relation: Relation | None) -> Gang:
    kept = (relation,) if relation else ()
    return replace(gang, relations=(*gang.relations[:number], *kept, *gang.relations[number + 1 :]))


def _relation(gang: Gang, number: int, relation: Relation) -> Bound:
    bound = Bound(field=f"relations[{number}]", value=words(relation), lifted=_related(gang, number, None))

    def other(relation: Relation) -> Looser:
        return Looser(words=words(relation), gang=_related(gang, number, relation))

    match relation:
        case Together():
            return replace(bound, looser=tuple(other(replace(relation, scope=its)) for its in _WIDER[relation.scope]))
        case Apart():
            total = sum(part.replicas for part in gang.parts if part.name in relation.parts)
            return replace(
                bound, steps=total - relation.most, less=lambda fewer: other(replace(relation, most=total - fewer))
            )
        case Bandwidth():
            step = _decimal_step(relation.bytes_per_s)
            return replace(
                bound,
                steps=math.ceil(relation.bytes_per_s / step),
                less=lambda fewer: other(replace(relation, bytes_per_s=fewer * step)),
            )


def _decimal_step(amount: float) -> float:
    """A hundredth or less of an amount, in round figures."""
    return 10.0 ** math.floor(math.log10(amount / 100)) if amount else 1.0


def _binary_step(amount: float) -> float:
    return 2.0 ** max(0, math.floor(math.log2(amount / 256)))


def _scopes(gang: Gang, part: Part) -> Iterator[Bound]:
    """`within` and `nic_within`, together where they are one scope."""
    cards = max(1, part.need.cards)
    devices = f"{cards} device{'s' * (cards > 1)}" if takes_cards(part.need) else "cores"
    within = None if part.within in (Scope.HOST, Scope.LEAF, Scope.SPINE) else part.within
    nic = part.nic_within
    if within is not None and within is nic:
        rows = [
            (scope, with_part(gang, replace(part, within=scope, nic_within=scope))) for scope in _up_to_host(within)
        ]
        lifted = with_part(gang, replace(part, within=None, nic_within=None))
        yield _scope(part, within, f"{devices} and a NIC", name="within", lifted=lifted, rows=rows)
        return
    if within is not None:
        rows = [(scope, with_part(gang, replace(part, within=scope))) for scope in _up_to_host(within)]
        lifted = with_part(gang, replace(part, within=None))
        yield _scope(part, within, devices, name="within", lifted=lifted, rows=rows)
    if nic is not None:
        rows = [(scope, with_part(gang, replace(part, nic_within=scope))) for scope in _up_to_host(nic)]
        lifted = with_part(gang, replace(part, nic_within=None))
        yield _scope(part, nic, f"{devices} and a NIC", name="nic_within", lifted=lifted, rows=rows)


def _up_to_host(scope: Scope) -> tuple[Scope, ...]:
    return tuple(wider for wider in _WIDER[scope] if wider not in (Scope.LEAF, Scope.SPINE))


def _scope(part: Part, scope: Scope, what: str, *, name: str, lifted: Gang, rows: list[tuple[Scope, Gang]]) -> Bound:
    return Bound(
        field=f"parts.{part.name}.{name}",
        value=f"same {scope_words(scope)} for {what}",
        lifted=lifted,
        looser=_all([(f"same {scope_words(wider)} for {what}", gang) for wider, gang in rows]),
        part=part,
        scope=scope,
    )


def _amounts(gang: Gang, part: Part) -> Iterator[Bound]:
    """What a replica takes, resource by resource, in steps fine enough to name the nearest amount that fits."""
    many = f"each of {part.replicas} x {part.name}" if part.replicas > 1 else part.name
    if part.kinds:
        lifted = with_part(gang, replace(part, kinds=()))
        yield Bound(
            field=f"parts.{part.name}.kinds",
            value=f"{' or '.join(part.kinds)} for {many}",
            lifted=lifted,
            looser=(Looser(words=f"any kind for {many}", gang=lifted),),
        )
    for name, amount, step, make in _resources(part.need):
        yield Bound(
            field=f"parts.{part.name}.need.{name}",
            value=f"{make(amount)[0]} for {many}",
            lifted=with_part(gang, replace(part, need=make(0)[1])),
            steps=math.ceil(amount / step),
            less=_less(gang, part, many=many, step=step, make=make),
        )


_Make = Callable[[float], tuple[str, Need]]
_Resource = tuple[str, float, float, _Make]


def _less(gang: Gang, part: Part, *, many: str, step: float, make: _Make) -> Callable[[int], Looser]:
    def less(steps: int) -> Looser:
        text, need = make(steps * step)
        return Looser(words=f"{text} for {many}", gang=with_part(gang, replace(part, need=need)))

    return less


def _resources(need: Need) -> Iterator[_Resource]:
    """What a need takes beside devices: the field, how much, in which steps, and the need with another amount."""
    if need.memory_bytes and (need.cards or need.share or need.codecs):
        step = _binary_step(need.memory_bytes)
        yield "memory_bytes", need.memory_bytes, step, lambda amount: (
            f"{_size(amount)} of device memory", replace(need, memory_bytes=math.floor(amount)),
        )  # fmt: skip
    if need.host_memory_bytes:
        step = _binary_step(need.host_memory_bytes)
        yield "host_memory_bytes", need.host_memory_bytes, step, lambda amount: (
            f"{_size(amount)} of host memory", replace(need, host_memory_bytes=math.floor(amount)),
        )  # fmt: skip
    if need.nvme_bytes:
        yield "nvme_bytes", need.nvme_bytes, _binary_step(need.nvme_bytes), lambda amount: (
            f"{_size(amount)} of NVMe", replace(need, nvme_bytes=math.floor(amount)),
        )  # fmt: skip
    for codec in need.codecs:
        yield f"codecs.{codec.name}", codec.units, 1, partial(_with_units, need, codec)
    if need.cpus:
        yield "cpus", need.cpus, _decimal_step(need.cpus), lambda amount: (
            f"{amount:.4g} cores", replace(need, cpus=amount),
        )  # fmt: skip
    if need.nic_bytes_per_s:
        yield "nic_bytes_per_s", need.nic_bytes_per_s, _decimal_step(need.nic_bytes_per_s), lambda amount: (
            f"{amount / 1e9:.4g} GB/s of a NIC", replace(need, nic_bytes_per_s=amount),
        )  # fmt: skip


def _with_units(need: Need, codec: Codec, amount: float) -> tuple[str, Need]:
    units = math.floor(amount)
    codecs = tuple(replace(its, units=units) if its is codec else its for its in need.codecs)
    return f"{units} {codec.name}", replace(need, codecs=codecs)


def _size(amount: float) -> str:
    return format_size_bytes(math.floor(amount), digits=5)
