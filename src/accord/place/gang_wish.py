"""A gang in the board's whole numbers: what each replica takes of which kind of device, and which rules bind it.

In: a `Board`, a `Gang`, the relations to be held. Out: `Wish`es and `Rule`s; BadInput for a gang that makes no sense.
Invariant: figures are rounded up, hard partitions to the smallest template that holds the need.
"""

import math
from dataclasses import dataclass

from accord.place.board import MILLI, WHOLE, Board
from accord.place.mix import share_milli
from accord.terms.errors import BadInput
from accord.terms.fleet import DeviceKind
from accord.terms.gang import Apart, Bandwidth, Gang, Need, Part, Relation, Scope, Together

# Scopes within one node, nearest first.
NEAR = (Scope.CARD, Scope.LINK_GROUP, Scope.PCIE_SWITCH, Scope.PCIE_ROOT, Scope.NUMA)
# What stands that near has one NUMA domain, from which its cores and memory then come.
_EXACT = frozenset((Scope.PCIE_SWITCH, Scope.PCIE_ROOT, Scope.NUMA))
_NIC_SCOPES = frozenset((Scope.PCIE_SWITCH, Scope.PCIE_ROOT, Scope.NUMA, Scope.HOST, Scope.LEAF, Scope.SPINE))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """What one replica takes of devices of one kind: so many, and this much of each of them."""

    devices: int
    whole: bool
    pairs: bool
    share: int
    memory: int
    codecs: tuple[int, ...]  # units, by row of Board.codecs
    template: int | None = None  # row of Board.templates


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """One replica of a part. `cuts` are by kind of the board (None: won't do); `scopes` bind its own devices.

    `exact`: cores and host memory come from the devices' NUMA domain alone.
    """

    number: int
    name: str
    replicas: int
    cards: bool
    cuts: tuple[Cut | None, ...]
    cpu: int
    host: int
    nic: int
    nvme: int
    wants_nic: bool
    scopes: tuple[Scope, ...]
    nic_scope: Scope | None
    exact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A relation that is held, with parts as numbers. `most` is None for Together."""

    parts: frozenset[int]
    scope: Scope
    most: int | None = None


def wishes_of(board: Board, gang: Gang, held: tuple[Relation, ...]) -> tuple[tuple[Wish, ...], tuple[Rule, ...]]:
    """The gang's replicas, part by part, and the rules between them."""
    numbers = {part.name: number for number, part in enumerate(gang.parts)}
    rules = tuple(
        Rule(
            parts=frozenset(numbers[name] for name in relation.parts),
            scope=relation.scope,
            most=relation.most if isinstance(relation, Apart) else None,
        )
        for relation in held
        if not isinstance(relation, Bandwidth)
    )
    return tuple(_wish(board, part, number, rules) for number, part in enumerate(gang.parts)), rules


def extra_bytes(flows: tuple[Bandwidth, ...], wishes: tuple[Wish, ...], number: int, counts: tuple[int, ...]) -> int:
    """Bandwidth that one replica of a part sends and receives beyond its node, where `counts` of each part stand.

    A source's flow is spread evenly over all replicas of the target.
    """
    total = 0.0
    numbers = {wish.name: wish.number for wish in wishes}
    for flow in flows:
        source, target = numbers[flow.source], numbers[flow.target]
        targets, sources = wishes[target].replicas, wishes[source].replicas
        if number == source:
            total += flow.bytes_per_s * (targets - counts[target]) / targets
        if number == target:
            total += flow.bytes_per_s * (sources - counts[source]) / targets
    return math.ceil(total - 1e-6)


def _wish(board: Board, part: Part, number: int, rules: tuple[Rule, ...]) -> Wish:
    need = part.need
    scopes = {rule.scope for rule in rules if rule.most is None and number in rule.parts and rule.scope in NEAR}
    scopes |= {scope for scope in (part.within, part.nic_within) if scope in NEAR}
    cards = takes_cards(need)
    if not cards and any(rule.scope is Scope.NUMA and number in rule.parts for rule in rules):
        scopes.add(Scope.NUMA)  # to be told apart by its NUMA domain, it must stand in one
    exact = bool(scopes & _EXACT)
    if exact:
        scopes.add(Scope.NUMA)
    return Wish(
        number=number,
        name=part.name,
        replicas=part.replicas,
        cards=cards,
        cuts=tuple(cut_of(board, part, name) for name in board.kinds) if cards else (),
        cpu=math.ceil(round(MILLI * need.cpus, 6)),
        host=need.host_memory_bytes,
        nic=math.ceil(need.nic_bytes_per_s),
        nvme=need.nvme_bytes,
        wants_nic=need.nic_bytes_per_s > 0 or part.nic_within is not None,
        scopes=tuple(scope for scope in NEAR if scope in scopes),
        nic_scope=part.nic_within if part.nic_within in NEAR else None,
        exact=exact,
    )


def takes_cards(need: Need) -> bool:
    """Whether a replica takes anything of a device."""
    return need.cards > 0 or need.share > 0 or need.memory_bytes > 0 or bool(need.codecs)


def cut_of(board: Board, part: Part, kind_name: str) -> Cut | None:
    """What a replica takes of devices of this kind; None if such devices can't hold it, full as they may be."""
    if part.kinds and kind_name not in part.kinds:
        return None
    kind = board.fleet.kind(kind_name)
    need = part.need
    units = dict.fromkeys(board.codec_names, 0)
    for codec in need.codecs:
        if codec.name not in units:
            return None
        units[codec.name] += codec.units
    memory = round(kind.memory_bytes.value) if kind.memory_bytes else 0
    if need.cards:
        return _whole(board, kind, need, units)
    if not kind.soft_share:
        return _template(board, kind, need, units) or _whole(board, kind, need, units)
    has = {codec.name: codec.units for codec in kind.codecs}
    if need.memory_bytes > memory or any(want > has.get(name, 0) for name, want in units.items()):
        return None
    return Cut(
        devices=1, whole=False, pairs=False, share=share_milli(need), memory=need.memory_bytes,
        codecs=tuple(units.values()),
    )  # fmt: skip


def _whole(board: Board, kind: DeviceKind, need: Need, units: dict[str, int]) -> Cut | None:
    """Whole devices, with all that is on them; the replica's codec units are those of all its devices together."""
    memory = round(kind.memory_bytes.value) if kind.memory_bytes else 0
    cards = max(1, need.cards)
    devices = cards + cards % 2 if kind.pairs else cards
    has = {codec.name: codec.units for codec in kind.codecs}
    if need.memory_bytes > memory or any(want > devices * has.get(name, 0) for name, want in units.items()):
        return None
    return Cut(
        devices=devices, whole=True, pairs=kind.pairs, share=WHOLE, memory=memory,
        codecs=tuple(has.get(name, 0) for name in board.codec_names),
    )  # fmt: skip


def _template(board: Board, kind: DeviceKind, need: Need, units: dict[str, int]) -> Cut | None:
    """The smallest template that holds the need. Its share is rounded down: seven sevenths are one device."""
    fitting = []
    for template in kind.templates:
        has = {codec.name: codec.units for codec in template.codecs}
        enough = template.share >= need.share and template.memory_bytes >= need.memory_bytes
        if enough and all(want <= has.get(name, 0) for name, want in units.items()):
            fitting.append(template)
    if not fitting:
        return None
    best = min(fitting, key=lambda template: (template.share, template.memory_bytes, template.name))
    has = {codec.name: codec.units for codec in best.codecs}
    return Cut(
        devices=1, whole=False, pairs=False, share=math.floor(round(WHOLE * best.share, 6)), memory=best.memory_bytes,
        codecs=tuple(has.get(name, 0) for name in board.codec_names), template=board.template_names.index(best.name),
    )  # fmt: skip


def check(gang: Gang) -> None:
    """BadInput for a gang that makes no sense on any fleet."""
    names = [part.name for part in gang.parts]
    if not names:
        raise BadInput(field="parts", value="none", problem="nothing to place", fix="give the gang a part")
    for number, part in enumerate(gang.parts):
        field = f"parts.{part.name}"
        if part.name in names[:number]:
            raise BadInput(field=field, value=part.name, problem="named twice", fix="give each part its own name")
        if part.replicas < 1:
            raise BadInput(field=f"{field}.replicas", value=part.replicas, problem="below 1", fix="ask for at least 1")
        _check_need(field, part.need)
        _check_scopes(field, part)
    cards = {part.name: takes_cards(part.need) for part in gang.parts}
    for number, relation in enumerate(gang.relations):
        field = f"relations[{number}]"
        named = (relation.source, relation.target) if isinstance(relation, Bandwidth) else relation.parts
        for name in named:
            if name not in cards:
                raise BadInput(field=field, value=name, problem="no such part", fix=f"name one of {', '.join(names)}")
        if isinstance(relation, Together | Apart) and relation.scope in NEAR[:-1]:
            for name in named:
                if not cards[name]:
                    fix = "write numa or host, or leave the part out"
                    raise BadInput(field=field, value=relation.scope.value, problem=f"{name} takes no devices", fix=fix)
        if isinstance(relation, Apart) and relation.most < 1:
            raise BadInput(field=f"{field}.most", value=relation.most, problem="below 1", fix="allow at least 1")
        if isinstance(relation, Bandwidth) and not 0 <= relation.bytes_per_s < math.inf:
            fix = "write bytes a second"
            raise BadInput(field=f"{field}.bytes_per_s", value=relation.bytes_per_s, problem="not a rate", fix=fix)


def _check_need(field: str, need: Need) -> None:
    amounts = {
        "cards": need.cards, "share": need.share, "memory_bytes": need.memory_bytes, "cpus": need.cpus,
        "host_memory_bytes": need.host_memory_bytes, "nic_bytes_per_s": need.nic_bytes_per_s,
        "nvme_bytes": need.nvme_bytes, **{f"codecs.{codec.name}": codec.units for codec in need.codecs},
    }  # fmt: skip
    for name, amount in amounts.items():
        if not 0 <= amount < 2**63:
            raise BadInput(field=f"{field}.{name}", value=amount, problem="out of range", fix="write 0 or more")
    if need.share > 1 or (need.share > 0 and need.cards):
        fix = "write whole cards, or a share of one card from 0 to 1"
        raise BadInput(field=f"{field}.share", value=need.share, problem="not a share of one card", fix=fix)


def _check_scopes(field: str, part: Part) -> None:
    cards = takes_cards(part.need)
    if part.within in NEAR[:-1] and not cards:
        fix = "write numa or host"
        raise BadInput(field=f"{field}.within", value=part.within.value, problem="the part takes no devices", fix=fix)
    if part.nic_within is None:
        return
    if part.nic_within not in _NIC_SCOPES or (part.nic_within in NEAR[:-1] and not cards):
        problem = "a NIC stands on no card and in no link group" if cards else "the part takes no devices"
        fix = "write pcie-switch, pcie-root, numa or host" if cards else "write numa or host"
        raise BadInput(field=f"{field}.nic_within", value=part.nic_within.value, problem=problem, fix=fix)
