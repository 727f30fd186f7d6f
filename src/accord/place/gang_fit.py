"""Whether a number of replicas fit on one node together, and where each of them then stands.

In: a `Room`, its `Layout`, `Wish`es, the `Rule`s nearer than a host. Out: spots, or None when every way was tried.
Invariant: devices and NICs that are alike are tried once; the search is complete, or ends with `Spent`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from accord.place.gang_node import Room, Spot, gap_loss, gap_milli
from accord.place.gang_wish import NEAR, Cut, Rule, Wish
from accord.place.layout import Layout
from accord.place.score import STEP
from accord.place.worth import Worth
from accord.terms.gang import Scope

# Devices of one replica stand as near as can be, unasked: blocks are tried in this order.
_COMPACT = (
    (Scope.LINK_GROUP, Scope.PCIE_SWITCH), (Scope.LINK_GROUP, Scope.PCIE_ROOT), (Scope.LINK_GROUP, Scope.NUMA),
    (Scope.LINK_GROUP,), (Scope.PCIE_SWITCH,), (Scope.PCIE_ROOT,), (Scope.NUMA,),
)  # fmt: skip


class Spent(Exception):
    """The bound on work is reached."""


class Work:
    """Counts what is tried, down to `Spent`."""

    __slots__ = ("left",)

    def __init__(self, steps: int) -> None:
        self.left = steps

    def step(self) -> None:
        """One thing more is tried."""
        self.left -= 1
        if self.left < 0:
            raise Spent


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What stays the same while one node is filled."""

    layout: Layout
    worth: Worth
    rules: tuple[Rule, ...]  # nearer than a host
    work: Work


def near_rules(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """Those that bind within a node."""
    return tuple(rule for rule in rules if rule.scope in NEAR)


def extend(setting: Setting, room: Room, placed: tuple[Spot, ...], *, wish: Wish, extra: int = 0) -> Spot | None:
    """The first spot for one more; None: none beside those that are placed as they are."""
    for spot in _spots(setting, room, placed, wish=wish, extra=extra):
        setting.work.step()
        return spot
    return None


def fill(setting: Setting, room: Room, wishes: tuple[tuple[Wish, int], ...]) -> tuple[Spot, ...] | None:
    """Spots for all wishes, each with its extra bandwidth; `room` is left with them in, or as it was."""
    order = sorted(wishes, key=lambda pair: (*_hardness(pair[0]), pair[0].number))
    failed: set[tuple[object, ...]] = set()

    def search(index: int, placed: tuple[Spot, ...]) -> tuple[Spot, ...] | None:
        if index == len(order):
            return placed
        state: tuple[object, ...] | None = None
        if failed:
            state = (index, room.signature(), _ties(setting, placed))
            if state in failed:
                return None
        wish, extra = order[index]
        for spot in _spots(setting, room, placed, wish=wish, extra=extra):
            setting.work.step()
            room.put(spot)
            found = search(index + 1, (*placed, spot))
            if found is not None:
                return found
            room.put(spot, 1)
        failed.add(state or (index, room.signature(), _ties(setting, placed)))
        return None

    return search(0, ())


def _hardness(wish: Wish) -> tuple[int, ...]:
    """Many devices first, then tight scopes, then large shares."""
    cuts = [cut for cut in wish.cuts if cut]
    devices = max((cut.devices for cut in cuts), default=0)
    share = max((max(cut.share, 1) for cut in cuts), default=0)
    return (-devices, -len(wish.scopes), -share, -wish.nic, -wish.cpu)


def _ties(setting: Setting, placed: tuple[Spot, ...]) -> tuple[object, ...]:
    """What the rules remember of those that are placed, whoever they are."""
    return tuple(
        tuple(sorted(tuple(sorted(_keys(setting, rule, spot))) for spot in placed if spot.wish.number in rule.parts))
        for rule in setting.rules
    )


def _keys(setting: Setting, rule: Rule, spot: Spot) -> frozenset[int]:
    if not spot.devices:
        return frozenset((spot.domain,))
    ids = setting.layout.ids[rule.scope]
    return frozenset(ids[device] for device in spot.devices)


def apart(seats: list[frozenset[int]], most: int) -> bool:
    """Whether at most `most` of the seats can stand in one place; a negative id may be any place."""
    unknown = sum(1 for keys in seats if min(keys, default=0) < 0)
    if unknown > most:
        return False
    places = {key for keys in seats for key in keys if key >= 0}
    return all(sum(1 for keys in seats if place in keys or min(keys) < 0) <= most for place in places)


def _allowed(setting: Setting, placed: tuple[Spot, ...], spot: Spot) -> bool:
    """Whether the rules let a spot stand beside those that are placed."""
    for rule in setting.rules:
        if spot.wish.number not in rule.parts:
            continue
        keys = _keys(setting, rule, spot)
        others = [_keys(setting, rule, other) for other in placed if other.wish.number in rule.parts]
        if rule.most is None:
            if len(keys) > 1 or any(other != keys for other in others):
                return False
        elif not apart([*others, keys], rule.most):
            return False
    return True


def _spots(setting: Setting, room: Room, placed: tuple[Spot, ...], *, wish: Wish, extra: int) -> Iterator[Spot]:
    """Every spot for one replica, one of each sort, those that lose least first."""
    if room.cpu_left < wish.cpu or room.host_left < wish.host or room.nvme < wish.nvme:
        return
    wanted = wish.nic + extra
    for devices, cut, domain in _stands(setting, room, placed, wish):
        if not room.feeds(wish, domain):
            continue
        for nic in _nics(setting.layout, room, wish, devices=devices, domain=domain, wanted=wanted):
            spot = Spot(wish=wish, devices=devices, cut=cut, nic=nic, nic_bytes=wanted, domain=domain)
            if _allowed(setting, placed, spot):
                yield spot


def _stands(
    setting: Setting, room: Room, placed: tuple[Spot, ...], wish: Wish
) -> Iterator[tuple[tuple[int, ...], Cut | None, int]]:
    """Devices, how they are cut, and the NUMA domain that feeds them first."""
    if not wish.cards:
        domains = range(len(room.cpu)) if room.cpu else range(1)
        if wish.exact:
            yield from (((), None, domain) for domain in domains)
        else:
            # The tightest domain that holds it all, else the emptiest.
            fitting = [n for n in range(len(room.cpu)) if room.cpu[n] >= wish.cpu and room.host[n] >= wish.host]
            home = min(fitting, key=lambda n: (room.cpu[n], n)) if fitting else 0
            yield (), None, home
        return
    sorts = _sorts(setting.layout, room, placed)
    numa = setting.layout.ids[Scope.NUMA]
    single: list[tuple[float, int, int, Cut]] = []
    for kind, cut in enumerate(wish.cuts):
        if cut is None:
            continue
        good = [d for d, its in enumerate(setting.layout.kinds) if its == kind and room.holds(d, cut)]
        if cut.devices > 1:
            for devices in _sets(setting.layout, wish, cut, good=good, sorts=sorts):
                yield devices, cut, numa[devices[0]]
        else:
            for device in good:
                lost = gap_loss(room, setting.layout, cut, device=device, worth=setting.worth)
                single.append((lost // STEP, gap_milli(room, setting.layout, device), device, cut))
    seen: set[tuple[object, ...]] = set()
    for _, _, device, cut in sorted(single, key=lambda row: row[:3]):
        if sorts[device] not in seen:
            seen.add(sorts[device])
            yield (device,), cut, numa[device]


def _sorts(layout: Layout, room: Room, placed: tuple[Spot, ...]) -> list[tuple[object, ...]]:
    """Equal for devices that are alike: kind, place, what is left, and who of the gang is on them."""
    on: dict[int, list[int]] = {}
    for spot in placed:
        for device in spot.devices:
            on.setdefault(device, []).append(spot.wish.number)
    return [
        (
            layout.kinds[d], layout.places[d], room.share[d], room.memory[d], tuple(sorted(on.get(d, ()))),
            tuple(left[d] for left in (*room.codecs, *room.templates)),
        )
        for d in range(len(layout.kinds))
    ]  # fmt: skip


def _sets(
    layout: Layout, wish: Wish, cut: Cut, *, good: list[int], sorts: list[tuple[object, ...]]
) -> Iterator[tuple[int, ...]]:
    """Sets of so many devices, those that stand nearest together first, tight blocks before roomy ones."""
    units: list[tuple[int, ...]] = [(device,) for device in good]
    if cut.pairs:
        by_pair: dict[int, list[int]] = {}
        for device in good:
            by_pair.setdefault(layout.pair[device], []).append(device)
        units = [tuple(pair) for pair in by_pair.values() if len(pair) == 2]
    many = cut.devices // 2 if cut.pairs else cut.devices
    numbers: dict[tuple[tuple[object, ...], ...], int] = {}
    sort = {unit: numbers.setdefault(tuple(sorts[device] for device in unit), len(numbers)) for unit in units}
    seen: set[tuple[int, ...]] = set()
    for block in _blocks(layout, units, wish.scopes, many):
        nearest = (sub[:many] for scopes in _COMPACT for sub in _blocks(layout, block, scopes, many))
        for chosen in (*nearest, *_choices(block, many, sort)):
            key = tuple(sorted(sort[unit] for unit in chosen))
            if key not in seen:
                seen.add(key)
                yield tuple(sorted(device for unit in chosen for device in unit))


def _blocks(
    layout: Layout, units: list[tuple[int, ...]], scopes: tuple[Scope, ...], many: int
) -> list[list[tuple[int, ...]]]:
    """The units by where they stand, blocks with too few left out, the smallest first."""
    blocks: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for unit in units:
        keys = {tuple(layout.ids[scope][device] for scope in scopes) for device in unit}
        if len(keys) == 1:
            blocks.setdefault(keys.pop(), []).append(unit)
    return sorted((block for block in blocks.values() if len(block) >= many), key=lambda block: (len(block), block[0]))


def _choices(
    units: list[tuple[int, ...]], many: int, sort: dict[tuple[int, ...], int]
) -> Iterator[list[tuple[int, ...]]]:
    """Every choice of `many` units, like ones once."""
    classes: dict[int, list[tuple[int, ...]]] = {}
    for unit in units:
        classes.setdefault(sort[unit], []).append(unit)
    groups = list(classes.values())

    def choose(index: int, left: int) -> Iterator[list[tuple[int, ...]]]:
        if left == 0:
            yield []
        elif sum(len(group) for group in groups[index:]) >= left:
            for take in range(min(left, len(groups[index])), -1, -1):
                for rest in choose(index + 1, left - take):
                    yield [*groups[index][:take], *rest]

    return choose(0, many)


def _nics(
    layout: Layout, room: Room, wish: Wish, *, devices: tuple[int, ...], domain: int, wanted: int
) -> Iterator[int | None]:
    """NICs with that much left where they are wanted: the nearest first, then the tightest."""
    if not wish.wants_nic and not wanted:
        yield None
        return
    ids = layout.nic_ids
    rows = []
    for nic, free in enumerate(room.nic):
        near = [
            ids[scope][nic] == (layout.ids[scope][devices[0]] if devices else domain if scope is Scope.NUMA else None)
            for scope in (Scope.PCIE_SWITCH, Scope.PCIE_ROOT, Scope.NUMA)
        ]
        scope = wish.nic_scope
        bound = {Scope.PCIE_SWITCH: near[0], Scope.PCIE_ROOT: near[1], Scope.NUMA: near[2], None: True}
        if free >= wanted and bound[scope]:
            rows.append((near.index(True) if True in near else 3, free, nic, tuple(near)))
    seen = set()
    for _, free, nic, _ in sorted(rows):
        place = (free, *(max(-1, ids[scope][nic]) for scope in ids))
        if place not in seen:
            seen.add(place)
            yield nic
