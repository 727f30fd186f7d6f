"""The fleet that a plan's device kinds are looked up in.

In: a plan, the path of a fleet file or None. Out: `Fleet`, with kinds of the catalog for those that it lacks.
Invariant: without a fleet file there are no nodes, and nothing is guessed about any.
"""

from dataclasses import replace
from pathlib import Path

from accord.edges import device_catalog
from accord.edges.fleet_file import load_fleet
from accord.edges.fleet_kinds import catalog_kind
from accord.terms.errors import BadInput
from accord.terms.fleet import Fleet, Node
from accord.terms.fleet_plan import FleetPlan


def fleet_of(plan: FleetPlan, path: Path | None) -> Fleet:
    """The fleet of `path`, else an empty one; either knows the plan's kinds as far as anyone does."""
    fleet = Fleet(kinds=(), nodes=()) if path is None else load_fleet(path)
    have = {kind.name for kind in fleet.kinds}
    wanted = {pool.kind for pool in plan.pools} - have
    known = sorted(wanted & set(device_catalog.names()))
    return replace(fleet, kinds=(*fleet.kinds, *(catalog_kind(name) for name in known)))


def check_kinds(plan: FleetPlan, fleet: Fleet) -> None:
    """BadInput for a pool whose devices no node of the fleet has: its pods would wait forever."""
    there = {device.kind for node in fleet.nodes for device in node.devices}
    needs = {part.name: part.need for part in plan.gang.parts}
    for pool in plan.pools:
        if pool.kind not in there and (needs[pool.part].cards or needs[pool.part].share):
            field, fix = f"fleet_plan.pools.{pool.name}.kind", "plan for this fleet, or name the fleet of the plan"
            raise BadInput(field=field, value=pool.kind, problem="no node of the fleet has such devices", fix=fix)


def check_seats(plan: FleetPlan, fleet: Fleet) -> None:
    """BadInput for a seat that the fleet hasn't, or no longer: pods that are pinned to it would wait forever."""
    nodes = {node.name: node for node in fleet.nodes}
    kinds = {pool.part: pool.kind for pool in plan.pools}
    for number, seat in enumerate(plan.seats):
        field, node = f"fleet_plan.seats[{number}]", nodes.get(seat.node)
        if node is None:
            raise _gone(f"{field}.node", seat.node, "the fleet has no such node")
        for device in seat.devices:
            if _kind_at(node, device) != kinds.get(seat.part):
                raise _gone(f"{field}.devices", device, f"no {kinds.get(seat.part)} there on node {node.name}")
        if seat.nic is not None and seat.nic >= len(node.nics):
            raise _gone(f"{field}.nic", seat.nic, f"node {node.name} has {len(node.nics)} network ports")


def _kind_at(node: Node, number: int) -> str | None:
    return node.devices[number].kind if number < len(node.devices) else None


def _gone(field: str, value: object, problem: str) -> BadInput:
    return BadInput(field=field, value=value, problem=problem, fix="place the plan anew, or add --no-pin")
