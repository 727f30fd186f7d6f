"""A `Plan` <-> YAML.

In: a `Plan`, or a file of one. Out: text, or the `Plan`. Invariant: load(dump(plan)) == plan, figure for
figure; a plan that a person edited is checked like any other input.
"""

import math
from pathlib import Path

import msgspec
import yaml

from accord.edges.fields import Fields, leaf_version
from accord.edges.typed_tree import typed
from accord.edges.whole_text import save_text
from accord.edges.yaml_tree import Limits, Tree, read_file, read_text
from accord.terms.errors import BadInput
from accord.terms.plan import Plan, StagePlan

_LIMITS = Limits(text_bytes_max=1 << 20, nodes_max=20_000)


def dump_plan(plan: Plan) -> str:
    """The plan as YAML, in the order of its fields, with exact figures."""
    return yaml.safe_dump(
        {"accord": 1, "plan": msgspec.to_builtins(plan)}, sort_keys=False, allow_unicode=True, width=120
    )


def save_plan(plan: Plan, path: Path) -> None:
    """Writes the plan whole or not at all."""
    save_text(path, dump_plan(plan), what="plan")


def load_plan(path: Path) -> Plan:
    """The plan of a file. BadInput names the field that is wrong."""
    return plan_of(read_file(path, what="plan", limits=_LIMITS))


def plan_from_text(text: str) -> Plan:
    """The same for the text of a document."""
    return plan_of(read_text(text, what="plan", limits=_LIMITS))


def plan_of(tree: Tree) -> Plan:
    """The same for a tree."""
    fields = Fields(tree, field="")
    fields.must("accord", leaf_version)
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
