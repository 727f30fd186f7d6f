"""A `FleetPlan` <-> YAML.

In: a `FleetPlan`, or a file of one. Out: text, or the `FleetPlan`. Invariant: load(dump(plan)) == plan, figure for
figure; a field at its default isn't written; a plan that a person edited is checked like any other input.
"""

import dataclasses
import math
from enum import Enum
from pathlib import Path

import yaml

from accord.edges.fields import Fields, at, leaf_text, leaf_version, shown
from accord.edges.typed_tree import typed
from accord.edges.whole_text import save_text
from accord.edges.yaml_tree import Items, Limits, Scalar, Table, Tree, read_file, read_text
from accord.terms.account import Account
from accord.terms.errors import BadInput
from accord.terms.fleet_plan import FleetPlan, Pool
from accord.terms.gang import Apart, Bandwidth, Gang, Part, Relation, Seat, Together
from accord.terms.graph import StageGraph
from accord.terms.intent import Objective

LIMITS = Limits(text_bytes_max=8 << 20, nodes_max=400_000)
_FIX = "write it as `accord plan --fleet F --out` does"
_RELATIONS: tuple[tuple[str, type[Together | Apart | Bandwidth]], ...] = (
    ("together", Together),
    ("apart", Apart),
    ("bandwidth", Bandwidth),
)
# What else a document may be, by a field that no other has.
_OTHERS = (
    ("plan", "a plan for one machine", "`accord up` runs it; a plan for a fleet comes from `accord plan --fleet F`"),
    ("nodes", "a fleet", "give the fleet with --fleet, and a plan here"),
    ("devices", "a fleet", "give the fleet with --fleet, and a plan here"),
    ("workload", "an intent", "plan it first: `accord plan INTENT --fleet F --out plan.yaml`"),
    ("objectives", "an intent", "plan it first: `accord plan INTENT --fleet F --out plan.yaml`"),
    ("model", "an intent", "plan it first: `accord plan INTENT --fleet F --out plan.yaml`"),
)
_NO_SEATS: tuple[Seat, ...] = ()
_NO_OBJECTIVES: tuple[Objective, ...] = ()
_Plain = Scalar | list["_Plain"] | dict[str, "_Plain"]


def dump_fleet_plan(plan: FleetPlan) -> str:
    """The plan as YAML, in the order of its fields, with exact figures."""
    document = {"accord": 1, "fleet_plan": _plain(plan)}
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120, default_flow_style=None)


def save_fleet_plan(plan: FleetPlan, path: Path) -> None:
    """Writes the plan whole or not at all."""
    save_text(path, dump_fleet_plan(plan), what="plan")


def load_fleet_plan(path: Path) -> FleetPlan:
    """The plan of a file. BadInput names the field that is wrong."""
    return fleet_plan_of(read_file(path, what="plan", limits=LIMITS))


def fleet_plan_from_text(text: str) -> FleetPlan:
    """The same for the text of a document."""
    return fleet_plan_of(read_text(text, what="plan", limits=LIMITS))


def _plain(value: object) -> _Plain:
    match value:
        case Enum():
            return str(value.value)
        case None | bool() | int() | float() | str():
            return value
        case tuple():
            return [_plain(item) for item in value]
        case Together() | Apart() | Bandwidth():
            name = next(name for name, kind in _RELATIONS if isinstance(value, kind))
            return {name: _fields(value)}
        case _:
            return _fields(value)


def _fields(value: object) -> dict[str, _Plain]:
    """A data class as a mapping, without what is at its default."""
    assert dataclasses.is_dataclass(value)
    found: dict[str, _Plain] = {}
    for field in dataclasses.fields(value):
        given = getattr(value, field.name)
        if field.default is dataclasses.MISSING or given != field.default:
            found[field.name] = _plain(given)
    return found


def fleet_plan_of(tree: Tree) -> FleetPlan:
    """The same for a tree."""
    fields = Fields(tree, field="")
    _is_one(tree)
    fields.must("accord", leaf_version)
    plan = fields.must("fleet_plan", _plan)
    fields.end()
    return plan


def _is_one(tree: Tree) -> None:
    """BadInput that says what a document is, where it is another one of Accord's."""
    keys = {key for key, _ in tree.entries} if isinstance(tree, Table) else set()
    if "fleet_plan" in keys:
        return
    for key, what, fix in _OTHERS:
        if key in keys:
            raise BadInput(field="plan", value=f"a document with `{key}`", problem=f"this is {what}", fix=fix)


def _plan(tree: Tree, field: str) -> FleetPlan:
    fields = Fields(tree, field=field)
    gang = fields.must("gang", _gang)
    pieces = {
        "name": fields.must("name", leaf_text),
        "model": fields.must("model", leaf_text),
    }
    graph = fields.must("graph", lambda below, path: typed(below, StageGraph, field=path, fix=_FIX))
    pools = fields.must("pools", lambda below, path: typed(below, tuple[Pool, ...], field=path, fix=_FIX))
    seats = fields.read("seats", _seats, _NO_SEATS)
    objectives = fields.read("objectives", _objectives, _NO_OBJECTIVES)
    account = fields.read("account", _account, None)
    fields.end()
    for key, value in (
        ("graph", graph),
        ("pools", pools),
        ("gang", gang),
        ("seats", seats),
        ("objectives", objectives),
        ("account", account),
    ):
        _check_figures(value, field=f"{field}.{key}")
    _check_names(pools, gang, seats, field=field)
    try:
        return FleetPlan(
            graph=graph, pools=pools, gang=gang, seats=seats, objectives=objectives, account=account, **pieces
        )
    except ValueError as error:
        raise BadInput(field=field, value=pieces["name"], problem=str(error), fix=_FIX) from error


def _seats(tree: Tree, field: str) -> tuple[Seat, ...]:
    return typed(tree, tuple[Seat, ...], field=field, fix=_FIX)


def _objectives(tree: Tree, field: str) -> tuple[Objective, ...]:
    return typed(tree, tuple[Objective, ...], field=field, fix=_FIX)


def _account(tree: Tree, field: str) -> Account | None:
    return typed(tree, Account, field=field, fix=_FIX)


def _gang(tree: Tree, field: str) -> Gang:
    fields = Fields(tree, field=field)
    gang = Gang(
        name=fields.must("name", leaf_text),
        parts=fields.must("parts", lambda below, path: typed(below, tuple[Part, ...], field=path, fix=_FIX)),
        relations=fields.read("relations", _relations, ()),
    )
    fields.end()
    return gang


def _relations(tree: Tree, field: str) -> tuple[Relation, ...]:
    if not isinstance(tree, Items):
        fix = "write a list of `together: ...`, `apart: ...` and `bandwidth: ...`"
        raise BadInput(field=field, value=shown(tree), problem=f"not a list{at(tree)}", fix=fix)
    return tuple(_relation(item, f"{field}[{number}]") for number, item in enumerate(tree.items))


def _relation(tree: Tree, field: str) -> Relation:
    fields = Fields(tree, field=field)
    found: list[Relation] = []
    for name, kind in _RELATIONS:
        below = fields.take(name)
        if below is not None:
            found.append(typed(below, kind, field=f"{field}.{name}", fix=_FIX))
    fields.end()
    if len(found) != 1:
        fix = "write one of `together`, `apart` and `bandwidth`"
        raise BadInput(field=field, value=shown(tree), problem=f"not one relation{at(tree)}", fix=fix)
    return found[0]


# Figures of which there must be one at least.
_ONE_AT_LEAST = frozenset(
    ("replicas", "nodes", "tensor", "pipeline", "data", "expert", "most", "batch_max", "chunk_tokens")
)

# Figures that say by how much one plan has more than another.
_DIFFERENCES = frozenset(
    ("more_usd_per_hour", "more_devices", "fewer_rps", "saved_usd_per_hour", "saved_devices", "gained_rps")
)


def _check_figures(value: object, *, field: str) -> None:
    """Every figure is finite and 0 or more; shares are 1 at most, and some figures 1 at least."""
    match value:
        case tuple():
            for number, item in enumerate(value):
                _check_figures(item, field=f"{field}[{number}]")
        case _ if dataclasses.is_dataclass(value):
            for one in dataclasses.fields(value):
                below, path = getattr(value, one.name), f"{field}.{one.name}"
                if isinstance(below, int | float) and not isinstance(below, bool):
                    _check_figure(one.name, below, field=path)
                else:
                    _check_figures(below, field=path)
        case _:
            return


def _check_figure(name: str, figure: float, *, field: str) -> None:
    low, high = (1.0 if name in _ONE_AT_LEAST else 0.0), (1.0 if name == "share" else 2.0**62)
    low = -high if name in _DIFFERENCES else low
    if not (math.isfinite(figure) and low <= figure <= high):
        fix = f"write a figure from {low:g} to {high:g}"
        raise BadInput(field=field, value=figure, problem="out of range", fix=fix)


def _check_names(pools: tuple[Pool, ...], gang: Gang, seats: tuple[Seat, ...], *, field: str) -> None:
    parts = {part.name: part.replicas for part in gang.parts}
    _distinct([part.name for part in gang.parts], field=f"{field}.gang.parts")
    _distinct([pool.name for pool in pools], field=f"{field}.pools")
    _distinct([pool.part for pool in pools], field=f"{field}.pools.part")
    for name in sorted(set(parts) - {pool.part for pool in pools}):
        raise BadInput(
            field=f"{field}.gang.parts", value=name, problem="no pool has this part", fix="name it in a pool"
        )
    for number, relation in enumerate(gang.relations):
        named = (relation.source, relation.target) if isinstance(relation, Bandwidth) else relation.parts
        for name in named:
            _known(name, parts, field=f"{field}.gang.relations[{number}]")
    for number, seat in enumerate(seats):
        _known(seat.part, parts, field=f"{field}.seats[{number}].part")
    wanted = {(name, number) for name, count in parts.items() for number in range(count)}
    if seats and (len(seats) != len(wanted) or {(seat.part, seat.replica) for seat in seats} != wanted):
        fix = f"write one for each replica of each part, {len(wanted)} in all, or none"
        raise BadInput(field=f"{field}.seats", value=f"{len(seats)} seats", problem="not one a replica", fix=fix)


def _distinct(names: list[str], *, field: str) -> None:
    for name in names:
        if not name or names.count(name) > 1:
            problem = "written twice" if name else "no name"
            raise BadInput(field=field, value=name, problem=problem, fix="give each a name of its own")


def _known(name: str, parts: dict[str, int], *, field: str) -> None:
    if name not in parts:
        raise BadInput(field=field, value=name, problem="no such part", fix=f"known here: {', '.join(parts)}")
