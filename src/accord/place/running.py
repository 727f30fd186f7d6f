"""What runs, out of what is taken: so that it can be moved.

In: a `Board` made of a fleet. Out: `Running`s, one for each owner on each node. Invariant: a gang that is moved gets
what it has: as many devices of the same kinds, on one node, in one link group and as near to its NIC if they are so.

What isn't written isn't known: nothing binds the nodes of one owner to each other.
"""

from dataclasses import replace

from accord.place.board import Board
from accord.place.defrag import Running
from accord.terms.fleet import DeviceKind, Taken
from accord.terms.gang import Apart, Gang, Need, Part, Placement, Relation, Scope, Seat, Together

_NIC_SCOPES = (Scope.PCIE_SWITCH, Scope.PCIE_ROOT, Scope.NUMA)


def running_of(board: Board) -> tuple[Running, ...]:
    """What others have on the board, by node and owner."""
    rows: dict[tuple[str, str], list[tuple[Taken, Seat]]] = {}
    for taken, seat in zip(board.fleet.taken, board.taken, strict=True):
        rows.setdefault((taken.node, taken.owner), []).append((taken, seat))
    return tuple(_running(board, rows[key]) for key in sorted(rows))


def _running(board: Board, rows: list[tuple[Taken, Seat]]) -> Running:
    taken = [one for one, _ in rows]
    name = f"{taken[0].owner} on {taken[0].node}"
    fractions = [one for one in taken if one.device is not None and not _whole(board, one)]
    parts = (*_whole_parts(board, taken), *(_fraction(board, one, number) for number, one in enumerate(fractions)))
    parts = _with_host(board, taken, parts)
    relations: list[Relation] = []
    if len(parts) > 1:
        relations.append(Together(parts=tuple(part.name for part in parts), scope=Scope.HOST))
    if len({one.device for one in fractions}) == len(fractions) > 1:
        shares = tuple(f"share-{number}" for number in range(len(fractions)))
        relations.append(Apart(parts=shares, scope=Scope.CARD))
    return Running(
        gang=Gang(name=name, parts=parts, relations=tuple(relations)),
        placement=Placement(gang=name, seats=tuple(seat for _, seat in rows), snapshot=board.version),
        cost_usd=sum(one.move_cost_usd for one in taken),
        # A partition of a device that can also be shared softly would come back as a soft share.
        movable=all(one.movable and not (one.template and _kind(board, one).soft_share) for one in taken),
    )


def _whole_parts(board: Board, taken: list[Taken]) -> tuple[Part, ...]:
    """Whole devices, a part for each kind."""
    by_kind: dict[str, list[int]] = {}
    for one in taken:
        if one.device is not None and _whole(board, one):
            by_kind.setdefault(_kind(board, one).name, []).append(one.device)
    return tuple(
        Part(
            name=f"devices-{number}",
            need=Need(cards=len(devices)),
            kinds=(kind,),
            within=Scope.LINK_GROUP if _linked(board, taken[0], devices) else None,
        )
        for number, (kind, devices) in enumerate(sorted(by_kind.items()))
    )


def _fraction(board: Board, one: Taken, number: int) -> Part:
    need = Need(share=one.share, memory_bytes=one.memory_bytes, codecs=one.codecs)
    return Part(name=f"share-{number}", need=need, kinds=(_kind(board, one).name,))


def _with_host(board: Board, taken: list[Taken], parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """The first part has what is of the host, and the first NIC; other NICs are parts of their own."""
    first, *others = parts or (Part(name="host", need=Need()),)
    need = replace(
        first.need,
        cpus=sum(one.cpus for one in taken),
        host_memory_bytes=sum(one.host_memory_bytes for one in taken),
        nvme_bytes=sum(one.nvme_bytes for one in taken),
    )
    nics = [(one.nic, one.nic_bytes_per_s) for one in taken if one.nic is not None and one.nic_bytes_per_s]
    scope = None
    if nics:
        need = replace(need, nic_bytes_per_s=nics[0][1])
        scope = _nic_scope(board, taken, nics[0][0])
    rest = (Part(name=f"nic-{n}", need=Need(nic_bytes_per_s=rate)) for n, (_, rate) in enumerate(nics[1:], 1))
    return (replace(first, need=need, nic_within=scope), *others, *rest)


def _nic_scope(board: Board, taken: list[Taken], nic: int) -> Scope | None:
    """The nearest scope in which all devices stand with the NIC."""
    layout = board.layouts.of(board.row[taken[0].node])
    devices = [one.device for one in taken if one.device is not None]
    for scope in _NIC_SCOPES:
        if devices and all(layout.ids[scope][device] == layout.nic_ids[scope][nic] for device in devices):
            return scope
    return None


def _linked(board: Board, one: Taken, devices: list[int]) -> bool:
    ids = board.layouts.of(board.row[one.node]).ids[Scope.LINK_GROUP]
    return len(devices) > 1 and len({ids[device] for device in devices}) == 1


def _kind(board: Board, one: Taken) -> DeviceKind:
    return board.fleet.kind(board.nodes[board.row[one.node]].devices[one.device or 0].kind)


def _whole(board: Board, one: Taken) -> bool:
    memory = _kind(board, one).memory_bytes
    return one.template is None and one.share >= 1 and one.memory_bytes >= (memory.value if memory else 0)
