"""The fleet that a plan's device kinds are looked up in.

In: a plan, the path of a fleet file or None. Out: `Fleet`, with kinds of the catalog for those that it lacks.
Invariant: without a fleet file there are no nodes, and nothing is guessed about any.
"""

from dataclasses import replace
from pathlib import Path

from accord.edges import device_catalog
from accord.edges.fleet_file import load_fleet
from accord.edges.fleet_kinds import catalog_kind
from accord.terms.fleet import Fleet
from accord.terms.fleet_plan import FleetPlan


def fleet_of(plan: FleetPlan, path: Path | None) -> Fleet:
    """The fleet of `path`, else an empty one; either knows the plan's kinds as far as anyone does."""
    fleet = Fleet(kinds=(), nodes=()) if path is None else load_fleet(path)
    have = {kind.name for kind in fleet.kinds}
    wanted = {pool.kind for pool in plan.pools} - have
    known = sorted(wanted & set(device_catalog.names()))
    return replace(fleet, kinds=(*fleet.kinds, *(catalog_kind(name) for name in known)))
