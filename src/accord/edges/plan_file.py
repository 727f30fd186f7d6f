"""A `Plan` <-> YAML.

In: a `Plan`, or a file of one. Out: text, or the `Plan`. Invariant: load(dump(plan)) == plan, figure for
figure; a plan that a person edited is checked like any other input.
"""

import math
import os
import re
from pathlib import Path

import msgspec
import yaml

from accord.edges.fields import Fields, at, shown
from accord.edges.yaml_tree import Items, Leaf, Limits, Scalar, Table, Tree, read_file, read_text
from accord.terms.errors import BadInput, BrokenEdge
from accord.terms.plan import Plan, StagePlan

_LIMITS = Limits(text_bytes_max=1 << 20, nodes_max=20_000)
_Plain = Scalar | list["_Plain"] | dict[str, "_Plain"]


def dump_plan(plan: Plan) -> str:
    """The plan as YAML, in the order of its fields, with exact figures."""
    return yaml.safe_dump(
        {"accord": 1, "plan": msgspec.to_builtins(plan)}, sort_keys=False, allow_unicode=True, width=120
    )


def save_plan(plan: Plan, path: Path) -> None:
    """Writes the plan in one rename, so that no half of it is ever seen."""
    staging = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        staging.write_text(dump_plan(plan))
        staging.replace(path)
    except OSError as error:
        staging.unlink(missing_ok=True)
        raise BrokenEdge(f"plan: {path}: {error.strerror}; choose a folder that exists and is writable") from error


def load_plan(path: Path) -> Plan:
    """The plan of a file. BadInput names the field that is wrong."""
    return _plan(read_file(path, what="plan", limits=_LIMITS))


def plan_from_text(text: str) -> Plan:
    """The same for the text of a document."""
    return _plan(read_text(text, what="plan", limits=_LIMITS))


def _plan(tree: Tree) -> Plan:
    fields = Fields(tree, field="")
    version = fields.take("accord")
    if not (isinstance(version, Leaf) and version.value == 1 and not isinstance(version.value, bool | float)):
        raise BadInput(field="accord", value=shown(version or tree), problem="unknown format", fix="write `accord: 1`")
    given = fields.must("plan", lambda below, _: below)
    fields.end()
    try:
        plan = msgspec.convert(_plain(given), type=Plan)
    except msgspec.ValidationError as error:
        raise _wrong(str(error)) from error
    _no_more(given, msgspec.to_builtins(plan), field="plan")
    for stage in plan.stages:
        _check(stage)
    _check_admission(plan)
    return plan


def _wrong(said: str) -> BadInput:
    """msgspec says "what - at `$.path`"."""
    match = re.fullmatch(r"(?s)(.*?)(?: - at `(?:key in )?\$?(.*)`)?", said)
    problem, path = (match.group(1), match.group(2) or "") if match else (said, "")
    return BadInput(
        field=f"plan{path}", value="as written", problem=problem, fix="write it as `accord plan --out` does"
    )


def _no_more(tree: Tree, known: object, *, field: str) -> None:
    """Refuses what conversion ignored: fields that a plan doesn't have."""
    match tree, known:
        case Table(entries=entries), dict():
            for key, below in entries:
                if key not in known:
                    fix = f"known here: {', '.join(map(str, known))}"
                    raise BadInput(
                        field=f"{field}.{key}", value=shown(below), problem=f"unknown field{at(below)}", fix=fix
                    )
                _no_more(below, known[key], field=f"{field}.{key}")
        case Items(items=items), list() | tuple():
            for number, (below, item) in enumerate(zip(items, known, strict=True)):
                _no_more(below, item, field=f"{field}[{number}]")
        case _:
            return


def _check(stage: StagePlan) -> None:
    floors = {"threads": 1, "replicas": 1, "batch_max": 1, "memory_bytes": 0, "arena_bytes": 1 << 16}
    figures = {
        "threads": stage.threads,
        "replicas": stage.replicas,
        "batch_max": stage.batch_max,
        "memory_bytes": stage.memory_bytes,
        "arena_bytes": stage.arena_bytes,
    }
    for name, floor in floors.items():
        if not floor <= figures[name] < 1 << 50:
            field = f"plan.stages.{stage.stage}.{name}"
            raise BadInput(field=field, value=figures[name], problem="out of range", fix=f"write {floor} or more")


def _check_admission(plan: Plan) -> None:
    limits = plan.admission
    for name, count in (("active_max", limits.active_max), ("queue_max", limits.queue_max)):
        if not int(name == "active_max") <= count < 1 << 31:
            raise BadInput(field=f"plan.admission.{name}", value=count, problem="out of range", fix="write 1 or more")
    if not 0 <= limits.queue_s_max < math.inf:
        field = "plan.admission.queue_s_max"
        raise BadInput(field=field, value=limits.queue_s_max, problem="out of range", fix="write seconds, 0 or more")


def _plain(tree: Tree) -> _Plain:
    match tree:
        case Leaf():
            return tree.value
        case Items():
            return [_plain(item) for item in tree.items]
        case Table():
            return {key: _plain(item) for key, item in tree.entries}
