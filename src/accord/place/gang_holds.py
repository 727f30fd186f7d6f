"""Whether relations hold for seats that are given, whoever chose them; and relations in words.

In: a `Board`, a `Gang`, its seats. Out: the relations and bounds that don't hold. Invariant: nothing of the search is
used here, so that it can judge what the search, a solver or a person proposes.
"""

from accord.place.board import Board
from accord.place.gang_fit import apart
from accord.place.gang_wish import NEAR
from accord.terms.gang import Apart, Bandwidth, Gang, Part, Relation, Scope, Seat, Together

_WORDS = {
    Scope.CARD: "card", Scope.LINK_GROUP: "link group", Scope.PCIE_SWITCH: "PCIe switch",
    Scope.PCIE_ROOT: "PCIe root", Scope.NUMA: "NUMA node", Scope.HOST: "host", Scope.LEAF: "leaf switch",
    Scope.SPINE: "spine",
}  # fmt: skip


def scope_words(scope: Scope) -> str:
    """A scope as people call it."""
    return _WORDS[scope]


def words(relation: Relation) -> str:
    """A relation as a phrase."""
    match relation:
        case Together():
            return f"{' and '.join(relation.parts)} in one {scope_words(relation.scope)}"
        case Apart(most=1):
            return f"{' and '.join(relation.parts)} apart by {scope_words(relation.scope)}"
        case Apart():
            return f"at most {relation.most} of {' and '.join(relation.parts)} in one {scope_words(relation.scope)}"
        case Bandwidth():
            return f"{relation.bytes_per_s / 1e9:g} GB/s from each {relation.source} to {relation.target}"


def holds(board: Board, relation: Relation, seats: tuple[Seat, ...]) -> bool:
    """Whether a relation holds; bandwidth is judged by `bandwidth_short`."""
    if isinstance(relation, Bandwidth):
        return True
    its = [_places(board, seat, relation.scope) for seat in seats if seat.part in relation.parts]
    if isinstance(relation, Together):
        return len({place for places in its for place in places}) <= 1
    known: dict[tuple[object, ...], int] = {}
    groups: dict[str, list[frozenset[int]]] = {}
    for seat, places in zip((seat for seat in seats if seat.part in relation.parts), its, strict=True):
        ids = (-1 if None in place else known.setdefault(place, len(known)) for place in places)
        # Seats on different nodes are apart by what is within a node, known or not.
        groups.setdefault(seat.node if relation.scope in NEAR else "", []).append(frozenset(ids))
    return all(apart(group, relation.most) for group in groups.values())


def _places(board: Board, seat: Seat, scope: Scope) -> set[tuple[object, ...]]:
    """Where a seat stands. A place that isn't known holds its own seat alone, and None."""
    row = board.row[seat.node]
    node = board.nodes[row]
    if scope is Scope.HOST:
        return {(seat.node,)}
    if scope in (Scope.LEAF, Scope.SPINE):
        name = node.leaf if scope is Scope.LEAF else node.spine
        return {(name,) if name is not None else (seat.node, None)}
    if not seat.devices:
        return {(seat.node, numa) for numa, cpus in enumerate(seat.cpus_milli) if cpus or seat.host_memory_bytes[numa]}
    ids = board.layouts.of(row).ids[scope]
    return {(seat.node, ids[device]) if ids[device] >= 0 else (seat.node, device, None) for device in seat.devices}


def strays(board: Board, part: Part, seat: Seat) -> Scope | None:
    """The bound of a part, `within` or `nic_within`, that its seat breaks; None if it keeps both."""
    layout = board.layouts.of(board.row[seat.node])
    if part.within in NEAR and len(_places(board, seat, part.within)) > 1:
        return part.within
    if part.nic_within is None:
        return None
    if seat.nic is None:
        return part.nic_within
    if part.nic_within not in NEAR:
        return None
    nic = layout.nic_ids[part.nic_within][seat.nic]
    if seat.devices:
        near = all(layout.ids[part.nic_within][device] == nic for device in seat.devices)
    else:
        near = all(place[1] == nic for place in _places(board, seat, part.nic_within))
    return None if near else part.nic_within


def broken(board: Board, gang: Gang, seats: tuple[Seat, ...]) -> tuple[str, ...]:
    """What is required and doesn't hold, in words."""
    parts = {part.name: part for part in gang.parts}
    faults = [words(item) for item in gang.relations if _required(item) and not holds(board, item, seats)]
    for seat in seats:
        scope = strays(board, parts[seat.part], seat)
        if scope is not None:
            faults.append(f"{seat.part} {seat.replica} within one {scope_words(scope)}")
    for part in gang.parts:
        if sum(seat.part == part.name for seat in seats) != part.replicas:
            faults.append(f"{part.replicas} replicas of {part.name}")
    return tuple(faults)


def _required(relation: Relation) -> bool:
    return isinstance(relation, Bandwidth) or relation.required
