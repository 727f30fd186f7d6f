"""The `objectives` of an intent document -> `Objective`s.

In: their tree. Out: the attainment, and the objectives. Invariant: no two of them contradict each other, and none is
about what nobody asks for.
"""

import itertools
import re

from accord.edges.fields import Fields, at, leaf_number, leaf_unit, shown, unknown
from accord.edges.yaml_tree import Tree
from accord.terms import units
from accord.terms.errors import BadInput
from accord.terms.intent import Metric, Objective, Workload

_OBJECTIVE = re.compile(r"([a-z_]+)_(p[0-9.]+)")
_ATTAINMENT = 0.99
# The second lasts at least as long as the first, in every request.
_WITHIN = ((Metric.TTFT, Metric.LATENCY), (Metric.FIRST_AUDIO, Metric.LATENCY))
_NO_OBJECTIVES: tuple[Objective, ...] = ()

Objectives = tuple[float, tuple[Objective, ...]]
NONE: Objectives = (_ATTAINMENT, _NO_OBJECTIVES)


def objectives_of(tree: Tree, field: str) -> Objectives:
    """The attainment and the objectives. BadInput with field, value, line and fix."""
    fields = Fields(tree, field=field)
    attainment = fields.read("attainment", _attainment, _ATTAINMENT)
    objectives: dict[tuple[Metric, float], Objective] = {}
    for key, value in fields.rest():
        objective = _objective(key, value, field=fields.name(key))
        if (objective.metric, objective.percentile) in objectives:
            problem = f"the same objective is written twice{at(value)}"
            raise BadInput(field=fields.name(key), value=shown(value), problem=problem, fix="keep one of them")
        objectives[objective.metric, objective.percentile] = objective
    found = tuple(objectives.values())
    _check_each_other(found, field)
    return attainment, found


def check_objectives(objectives: tuple[Objective, ...], workload: Workload) -> None:
    """BadInput for an objective about a kind of answer that the workload says nobody wants."""
    outputs = dict(workload.outputs)
    for item in objectives:
        kind = "audio" if item.metric in (Metric.FIRST_AUDIO, Metric.RTF) else "text"
        if item.metric is not Metric.LATENCY and outputs and not outputs.get(kind):
            problem = f"contradicts workload.outputs, where no answer has {kind}"
            fix = f"remove it, or write a share of {kind} in workload.outputs"
            raise BadInput(field=_name(item), value=_value(item), problem=problem, fix=fix)


def _attainment(tree: Tree, field: str) -> float:
    return leaf_unit(units.parse_share, tree, field)


def _objective(key: str, tree: Tree, *, field: str) -> Objective:
    match = _OBJECTIVE.fullmatch(key)
    known = [f"{metric}_{match.group(2) if match else percent}" for metric in Metric for percent in ("p50", "p99")]
    if match is None or match.group(1) not in list(Metric):
        raise unknown(field, key, [*known, "attainment"], tree=tree)
    metric = Metric(match.group(1))
    percentile = units.parse_percentile(match.group(2), field=field)
    bound = leaf_number(tree, field) if metric is Metric.RTF else leaf_unit(units.parse_duration_s, tree, field)
    if bound == 0:
        raise BadInput(field=field, value=shown(tree), problem=f"nothing takes no time{at(tree)}", fix="raise it")
    return Objective(metric=metric, percentile=percentile, bound=bound)


def _check_each_other(objectives: tuple[Objective, ...], field: str) -> None:
    """A lower percentile is never the slower one, and a part never lasts longer than the whole."""
    for one, other in itertools.permutations(objectives, 2):
        part = (one.metric, other.metric) in _WITHIN
        if not (one.metric is other.metric or part) or one.percentile > other.percentile or one.bound <= other.bound:
            continue
        whole = f"{other.metric} never is the shorter" if part else "the higher percentile never is the lower figure"
        problem = f"contradicts {_name(other)} = {_value(other)}: {whole}"
        fix = f"lower it to {_value(other)} or less, raise {_name(other)}, or remove one of them"
        raise BadInput(field=_name(one, field), value=_value(one), problem=problem, fix=fix)


def _name(objective: Objective, field: str = "objectives") -> str:
    return f"{field}.{objective.metric}_{units.format_percentile(objective.percentile)}"


def _value(objective: Objective) -> str:
    bound = objective.bound
    return f"{bound:g}" if objective.metric is Metric.RTF else units.format_duration_s(bound)
