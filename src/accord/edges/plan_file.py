"""A `Plan` <-> YAML.

In: a `Plan`, or a file of one. Out: text, or the `Plan`. Invariant: load(dump(plan)) == plan, figure for
figure; a plan that a person edited is checked like any other input.
"""

import math
import os
from pathlib import Path

import msgspec
import yaml

from accord.edges.fields import Fields, shown
from accord.edges.typed_tree import typed
from accord.edges.yaml_tree import Leaf, Limits, Tree, read_file, read_text
from accord.terms.errors import BadInput, BrokenEdge
from accord.terms.plan import Plan, StagePlan

_LIMITS = Limits(text_bytes_max=1 << 20, nodes_max=20_000)


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
    plan = typed(given, Plan, field="plan", fix="write it as `accord plan --out` does")
    for stage in plan.stages:
        _check(stage)
    _check_admission(plan)
    return plan


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
