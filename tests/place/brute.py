"""Every way to place a gang on a tiny fleet, tried one after the other: what the search must agree with.

Written from the meaning of the terms alone, with nothing of the search: plain loops over nodes, subsets of devices,
NICs and NUMA domains.
"""

import itertools
import math
from dataclasses import dataclass

from accord.terms.fleet import DeviceKind, Fleet, Node
from accord.terms.gang import Apart, Bandwidth, Gang, Part, Scope, Seat, Together

BUS = {Scope.PCIE_SWITCH, Scope.PCIE_ROOT, Scope.NUMA}
INSIDE = {Scope.CARD, Scope.LINK_GROUP, *BUS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One replica somewhere. `takes`: thousandths, bytes, codec units, template of each device."""

    part: Part
    node: Node
    devices: tuple[int, ...]
    takes: tuple[int, int, tuple[tuple[str, int], ...], str | None]
    nic: int | None
    domain: int | None  # None: cores from anywhere in the node


def feasible(fleet: Fleet, gang: Gang) -> bool:
    """Whether there is any way."""
    required = [item for item in gang.relations if isinstance(item, Bandwidth) or item.required]
    choices = []
    for part in gang.parts:
        ways = [way for node in fleet.nodes for way in _ways(fleet, node, part, required)]
        choices.append(list(itertools.combinations_with_replacement(ways, part.replicas)))
    return any(_good(fleet, required, chosen) for chosen in _product(fleet, choices, []))


def _product(fleet: Fleet, choices, chosen):
    """The product of the parts' choices, those that overfill devices left out early."""
    if not choices:
        yield chosen
        return
    for some in choices[0]:
        more = [*chosen, *some]
        if _devices_hold(fleet, more):
            yield from _product(fleet, choices[1:], more)


def place(node: Node, device: int, scope: Scope):
    """Where a device stands; None if that isn't known."""
    its = node.devices[device]
    match scope:
        case Scope.CARD:
            return device
        case Scope.LINK_GROUP:
            return its.group
        case Scope.PCIE_SWITCH:
            return None if its.bridge is None else (its.bridge, its.root)
        case Scope.PCIE_ROOT:
            return its.root
        case _:
            return its.numa


def one_place(node: Node, devices: tuple[int, ...], scope: Scope) -> bool:
    """Whether devices of one node surely stand in one scope."""
    if scope not in INSIDE or len(devices) <= 1:
        return True
    places = {place(node, device, scope) for device in devices}
    return len(places) == 1 and None not in places


def _takes(kind: DeviceKind, part: Part):
    """(how many devices, what of each of them), or None."""
    need = part.need
    if part.kinds and kind.name not in part.kinds:
        return None
    memory = round(kind.memory_bytes.value) if kind.memory_bytes else 0
    has = tuple(sorted((codec.name, codec.units) for codec in kind.codecs))
    whole = (1000, memory, has, None)
    wants: dict[str, int] = {}
    for codec in need.codecs:
        wants[codec.name] = wants.get(codec.name, 0) + codec.units
    cards = need.cards
    if not cards and not kind.soft_share:
        for cut in sorted(kind.templates, key=lambda cut: (cut.share, cut.memory_bytes, cut.name)):
            gives = {codec.name: codec.units for codec in cut.codecs}
            enough = all(gives.get(name, 0) >= units for name, units in wants.items())
            if cut.share >= need.share and cut.memory_bytes >= need.memory_bytes and enough:
                return 1, (
                    math.floor(round(1000 * cut.share, 6)),
                    cut.memory_bytes,
                    tuple(sorted(gives.items())),
                    cut.name,
                )
        cards = 1
    if cards:
        count = 2 * math.ceil(cards / 2) if kind.pairs else cards
        if need.memory_bytes > memory or any(count * dict(has).get(name, 0) < units for name, units in wants.items()):
            return None
        return count, whole
    return 1, (math.ceil(round(1000 * need.share, 6)), need.memory_bytes, tuple(sorted(wants.items())), None)


def _ways(fleet: Fleet, node: Node, part: Part, relations) -> list[Way]:
    need = part.need
    near = {part.within, part.nic_within}
    near |= {item.scope for item in relations if isinstance(item, Together) and part.name in item.parts}
    on_devices = bool(need.cards or need.share or need.memory_bytes or need.codecs)
    told_apart = any(
        isinstance(item, Apart) and item.scope is Scope.NUMA and part.name in item.parts for item in relations
    )
    exact = bool(near & BUS) or (not on_devices and told_apart)
    sets: list[tuple[tuple[int, ...], tuple]] = []
    if not on_devices:
        sets = [((), (0, 0, (), None))]
    for kind in fleet.kinds if on_devices else ():
        taken = _takes(kind, part)
        its = [number for number, device in enumerate(node.devices) if device.kind == kind.name]
        for chosen in itertools.combinations(its, taken[0]) if taken else ():
            pairs = {its.index(device) // 2 for device in chosen}
            if not (kind.pairs and taken[1][0] == 1000 and taken[1][3] is None and 2 * len(pairs) != len(chosen)):
                sets.append((chosen, taken[1]))
    ways = []
    for devices, takes in sets:
        if not all(one_place(node, devices, scope) for scope in near if scope is not None):
            continue
        domains = {node.devices[device].numa for device in devices} or set(range(len(node.numa)))
        if exact and devices and len(domains) > 1:
            continue
        must = need.nic_bytes_per_s > 0 or part.nic_within is not None
        nics = list(range(len(node.nics))) if must or _sends(part, relations) else []
        for nic in nics if must else [*nics, None]:
            for domain in sorted(domains) if exact else [None]:
                if _nic_near(node, part, devices, nic=nic, domain=domain):
                    ways.append(Way(part=part, node=node, devices=devices, takes=takes, nic=nic, domain=domain))
    return ways


def _sends(part: Part, relations) -> bool:
    return any(isinstance(item, Bandwidth) and part.name in (item.source, item.target) for item in relations)


def _nic_near(node: Node, part: Part, devices, *, nic, domain) -> bool:
    scope = part.nic_within
    if scope not in INSIDE or nic is None:
        return True
    its = node.nics[nic]
    where = {
        Scope.PCIE_SWITCH: None if its.bridge is None else (its.bridge, its.root),
        Scope.PCIE_ROOT: its.root,
        Scope.NUMA: its.numa,
    }[scope]
    if where is None:
        return False
    if not devices:
        return domain == where
    return all(place(node, device, scope) == where for device in devices)


def _devices_hold(fleet: Fleet, ways) -> bool:
    """Whether all devices can give what is taken of them, beside what is taken already."""
    used: dict[tuple[str, int], list] = {}
    for taken in fleet.taken:
        if taken.device is not None:
            used.setdefault((taken.node, taken.device), []).append(
                (
                    round(1000 * taken.share),
                    taken.memory_bytes,
                    tuple((codec.name, codec.units) for codec in taken.codecs),
                    taken.template,
                )
            )
    for way in ways:
        for device in way.devices:
            used.setdefault((way.node.name, device), []).append(way.takes)
    nodes = {node.name: node for node in fleet.nodes}
    for (name, device), takes in used.items():
        kind = fleet.kind(nodes[name].devices[device].kind)
        memory = round(kind.memory_bytes.value) if kind.memory_bytes else 0
        if sum(take[0] for take in takes) > 1000 or sum(take[1] for take in takes) > memory:
            return False
        codecs = {codec.name: codec.units for codec in kind.codecs}
        for take in takes:
            for codec, units in take[2]:
                codecs[codec] = codecs.get(codec, 0) - units
        if any(left < 0 for left in codecs.values()):
            return False
        for cut in kind.templates:
            if sum(take[3] == cut.name for take in takes) > cut.count_max:
                return False
    return True


def _good(fleet: Fleet, relations, ways) -> bool:
    if not _devices_hold(fleet, ways) or not _hosts_hold(fleet, ways) or not _nics_hold(fleet, relations, ways):
        return False
    for item in relations:
        if isinstance(item, Together | Apart):
            its = [
                (way.node, way.devices, () if way.domain is None else (way.domain,))
                for way in ways
                if way.part.name in item.parts
            ]
            if not relation_holds(item, its):
                return False
    return True


def relation_holds(relation: Together | Apart, its) -> bool:
    """`its`: (node, devices, NUMA domains of its cores) of each replica."""
    scope = relation.scope
    stands = []
    for node, devices, domains in its:
        if scope in INSIDE:
            inner = [place(node, device, scope) for device in devices] if devices else list(domains)
            stands.append(
                [
                    (node.name, device if where is None else None, where)
                    for device, where in zip(devices or domains, inner, strict=True)
                ]
            )
        elif scope is Scope.HOST:
            stands.append([(node.name, None, node.name)])
        else:
            name = node.leaf if scope is Scope.LEAF else node.spine
            stands.append([("", node.name if name is None else None, name)])
    if isinstance(relation, Together):
        return len({where for some in stands for where in some}) <= 1
    known = {where for some in stands for where in some if where[2] is not None}
    for outer in {where[0] for some in stands for where in some}:
        mine = [some for some in stands if some[0][0] == outer]
        unknown = sum(any(where[2] is None for where in some) for some in mine)
        counts = [
            sum(any(where[2] is None or where == one for where in some) for some in mine)
            for one in known
            if one[0] == outer
        ]
        if max([unknown, *counts]) > relation.most:
            return False
    return True


def _hosts_hold(fleet: Fleet, ways) -> bool:
    """Cores, host memory and NVMe; cores that may come from anywhere fill what the others leave."""
    for node in fleet.nodes:
        its = [way for way in ways if way.node is node]
        taken = [row for row in fleet.taken if row.node == node.name]
        if sum(way.part.need.nvme_bytes for way in its) > node.nvme_bytes:
            return False
        for of_way, of_taken, of_numa in (
            (
                lambda way: math.ceil(round(1000 * way.part.need.cpus, 6)),
                lambda row: round(1000 * row.cpus),
                lambda numa: 1000 * numa.cpus,
            ),
            (
                lambda way: way.part.need.host_memory_bytes,
                lambda row: row.host_memory_bytes,
                lambda numa: numa.memory_bytes,
            ),
        ):
            free = [of_numa(numa) for numa in node.numa]
            for row in taken:
                left = of_taken(row)
                for domain in (row.numa or 0, *range(len(free))):
                    draw = min(left, free[domain])
                    free[domain] -= draw
                    left -= draw
            for way in its:
                if way.domain is not None:
                    free[way.domain] -= of_way(way)
            if any(left < 0 for left in free) or sum(of_way(way) for way in its if way.domain is None) > sum(free):
                return False
    return True


def _nics_hold(fleet: Fleet, relations, ways) -> bool:
    used: dict[tuple[str, int], int] = {}
    for way in ways:
        wanted = math.ceil(way.part.need.nic_bytes_per_s) + extra(relations, way.part.name, way.node.name, ways)
        if way.nic is None:
            if wanted:
                return False
            continue
        used[way.node.name, way.nic] = used.get((way.node.name, way.nic), 0) + wanted
    nodes = {node.name: node for node in fleet.nodes}
    return all(total <= nodes[name].nics[nic].bandwidth_bytes_per_s for (name, nic), total in used.items())


def extra(relations, part: str, node: str, ways) -> int:
    """What one replica sends and receives over NICs: each source spreads its flow evenly over all targets."""
    total = 0.0
    for item in relations:
        if isinstance(item, Bandwidth):
            sources = [way.node.name for way in ways if way.part.name == item.source]
            targets = [way.node.name for way in ways if way.part.name == item.target]
            if part == item.source:
                total += item.bytes_per_s * sum(name != node for name in targets) / len(targets)
            if part == item.target:
                total += item.bytes_per_s * sum(name != node for name in sources) / len(targets)
    return math.ceil(total - 1e-6)


def faults_of(fleet: Fleet, gang: Gang, seats: tuple[Seat, ...]):
    """Faults of seats that were chosen by somebody; none if they are good."""
    required = [item for item in gang.relations if isinstance(item, Bandwidth) or item.required]
    nodes = {node.name: node for node in fleet.nodes}
    parts = {part.name: part for part in gang.parts}
    faults, chosen = [], []
    for seat in seats:
        part, node = parts[seat.part], nodes[seat.node]
        fitting = [
            way for way in _ways(fleet, node, part, required) if way.devices == seat.devices and way.nic == seat.nic
        ]
        codecs = tuple((codec.name, codec.units) for codec in seat.codecs if codec.units)
        fitting = [
            way
            for way in fitting
            if (way.takes[0], way.takes[1], way.takes[3]) == (seat.share_milli, seat.memory_bytes, seat.template)
            and tuple(row for row in way.takes[2] if row[1]) == codecs
            and (
                way.domain is None or (_only(seat.cpus_milli, way.domain) and _only(seat.host_memory_bytes, way.domain))
            )
        ]
        if not fitting:
            faults.append(f"no such way: {seat}")
            continue
        chosen.append(fitting[0])
        if sum(seat.cpus_milli) != math.ceil(round(1000 * part.need.cpus, 6)):
            faults.append(f"cores: {seat}")
        if sum(seat.host_memory_bytes) != part.need.host_memory_bytes or seat.nvme_bytes != part.need.nvme_bytes:
            faults.append(f"memory: {seat}")
    if not faults:
        for way, seat in zip(chosen, seats, strict=True):
            wanted = math.ceil(way.part.need.nic_bytes_per_s) + extra(required, way.part.name, way.node.name, chosen)
            if seat.nic_bytes_per_s != wanted:
                faults.append(f"bandwidth {wanted}: {seat}")
        if not _good(fleet, required, chosen):
            faults.append("the ways don't go together")
    counts = {name: sum(seat.part == name for seat in seats) for name in parts}
    return faults + [f"replicas of {name}" for name, part in parts.items() if counts[name] != part.replicas]


def _only(drawn: tuple[int, ...], domain: int) -> bool:
    return all(amount == 0 for number, amount in enumerate(drawn) if number != domain)
