"""A plan as processes on hosts: which runs where, on which devices and ports.

In: a `FleetPlan`, the `Fleet` where one is known. Out: `Process`es, pool by pool, replica by replica, node by node.
Invariant: processes of one host never share a port; a host that nobody chose yet is a variable of the shell.
"""

from dataclasses import dataclass, replace

from accord.render.engines.table import launch, runs
from accord.render.launch import Launch, Where
from accord.render.names import label_name
from accord.render.rendered import Lost, Options
from accord.render.shell import check_text, hole
from accord.render.wishes import Wish, kind_of, ports
from accord.terms.fleet import DeviceKind, Fleet, Node
from accord.terms.fleet_plan import FleetPlan, Pool
from accord.terms.gang import Need, Seat

Pairs = tuple[tuple[str, str], ...]
# A socket is opened on an address, not on a name; each script finds its host's own.
OWN_ADDRESS = "HOST_IP"


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process. `host` is a node's name or a variable; `seat` and `node` are None where the cluster decides."""

    name: str
    pool: Pool
    replica: int
    rank: int
    host: str
    launch: Launch
    where: Where
    seat: Seat | None = None
    node: Node | None = None


def processes(plan: FleetPlan, fleet: Fleet | None, options: Options) -> tuple[Process, ...]:
    """All processes of the plan's pools."""
    _check(plan)
    places = _places(plan, options)
    peers = {pool.name: place.hosts[0] for pool, place in reversed(places)}
    made = (_process(plan, pool, fleet, place, peers=tuple(peers.items())) for pool, place in places)
    return tuple(made)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    number: int
    rank: int
    hosts: tuple[str, ...]
    slot: int
    seat: Seat | None


def _places(plan: FleetPlan, options: Options) -> list[tuple[Pool, _Place]]:
    found: list[tuple[Pool, _Place]] = []
    slots: dict[str, set[int]] = {}
    for pool in (one for one in plan.pools if runs(plan, one)):
        seats = sorted((seat for seat in plan.seats if seat.part == pool.part), key=lambda seat: seat.replica)
        for number in range(pool.replicas):
            own = seats[number * pool.nodes : (number + 1) * pool.nodes] if options.pinned else []
            hosts = [seat.node for seat in own] or [hole(f"HOST_{len(found) + rank}") for rank in range(pool.nodes)]
            slot = _slot(slots, hosts if own else [pool.kind])
            for rank in range(pool.nodes):
                seat = own[rank] if own else None
                found.append((pool, _Place(number=number, rank=rank, hosts=tuple(hosts), slot=slot, seat=seat)))
    return found


def _process(plan: FleetPlan, pool: Pool, fleet: Fleet | None, place: _Place, *, peers: Pairs) -> Process:
    kind = kind_of(pool.kind, fleet)
    nodes = {node.name: node for node in fleet.nodes} if fleet else {}
    need = next(part.need for part in plan.gang.parts if part.name == pool.part)
    where = Where(
        leader=place.rank == 0,
        node_rank=str(place.rank),
        leader_address=place.hosts[0],
        own_address=hole(OWN_ADDRESS),
        peers=peers,
        slot=place.slot,
        memory_share=memory_share(need, kind),
    )
    if place.seat is not None:
        where = replace(where, devices=_devices(place.seat), nic=_nic(place.seat, fleet))
    return Process(
        name=label_name(pool.name, str(place.number), *([str(place.rank)] if pool.nodes > 1 else [])),
        pool=pool,
        replica=place.number,
        rank=place.rank,
        host=place.hosts[place.rank],
        launch=launch(plan, pool, kind.vendor if kind else None, where),
        where=where,
        seat=place.seat,
        node=nodes.get(place.seat.node) if place.seat else None,
    )


def engine_losses(plan: FleetPlan, fleet: Fleet | None) -> tuple[Lost, ...]:
    """What pools ask of their engines and those have no parameter for; also of pools without processes of their own."""
    kinds = {pool.name: kind_of(pool.kind, fleet) for pool in plan.pools}
    vendors = {name: kind.vendor if kind else None for name, kind in kinds.items()}
    every = (launch(plan, pool, vendors[pool.name], Where()).lost for pool in plan.pools)
    return tuple(dict.fromkeys(one for some in every for one in some))


def memory_share(need: Need, kind: DeviceKind | None, visible_bytes: int | None = None) -> float | None:
    """The part of the memory that it sees that a process on a fraction may take, rounded down to thousandths."""
    whole = visible_bytes or (kind.memory_bytes.value if kind and kind.memory_bytes else None)
    if not (need.share and need.memory_bytes) or whole is None:
        return None
    return max(0.001, int(1000 * min(1.0, need.memory_bytes / whole)) / 1000)


def judge_memory(wish: Wish, plan: FleetPlan, fleet: Fleet | None) -> str | None:
    """Why engines that see the whole device can't be told to take a part of its memory; None if they can."""
    needs = {part.name: part.need for part in plan.gang.parts}
    pools = [pool for pool in plan.pools if pool.part in wish.parts]
    shares = [memory_share(needs[pool.part], kind_of(pool.kind, fleet)) for pool in pools]
    return "the fleet doesn't say how much memory the whole device has" if None in shares else None


def _slot(slots: dict[str, set[int]], hosts: list[str]) -> int:
    used = set().union(*(slots.setdefault(host, set()) for host in hosts))
    slot = next(number for number in range(len(used) + 1) if number not in used)
    for host in hosts:
        slots[host].add(slot)
    return slot


def _devices(seat: Seat) -> str | None:
    return ",".join(map(str, seat.devices)) or None


def _nic(seat: Seat, fleet: Fleet | None) -> str | None:
    names = ports((seat,), fleet)
    return names[0] if names else None


def _check(plan: FleetPlan) -> None:
    check_text(plan.model, field="fleet_plan.model")
    check_text(plan.name, field="fleet_plan.name")
    for pool in plan.pools:
        for text in (pool.name, *(text for pair in pool.options for text in pair)):
            check_text(text, field=f"fleet_plan.pools.{pool.name}")
    for seat in plan.seats:
        check_text(seat.node, field="fleet_plan.seats.node")
