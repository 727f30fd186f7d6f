"""A plan of either make from a file.

In: a file that `accord plan --out` wrote. Out: a `Plan` for one machine, or a `FleetPlan`. Invariant: what is neither
is BadInput that says what it is.
"""

from pathlib import Path

from accord.edges.fleet_plan_file import LIMITS, fleet_plan_of
from accord.edges.plan_file import plan_of
from accord.edges.yaml_tree import Table, read_file
from accord.terms.fleet_plan import FleetPlan
from accord.terms.plan import Plan


def load_either_plan(path: Path) -> Plan | FleetPlan:
    """The plan of a file. BadInput names the field that is wrong."""
    tree = read_file(path, what="plan", limits=LIMITS)
    keys = {key for key, _ in tree.entries} if isinstance(tree, Table) else set()
    return plan_of(tree) if "plan" in keys else fleet_plan_of(tree)
