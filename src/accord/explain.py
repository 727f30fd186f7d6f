"""A Plan or a Refusal -> words.

In: values. Out: lines and table rows of plain text, without colour or width.
Invariant: pure; every figure comes from the value, and every estimate is shown with its source.
"""

from accord.terms import units
from accord.terms.estimate import Estimate, Source
from accord.terms.intent import Metric, Objective
from accord.terms.machine import Machine
from accord.terms.plan import Plan, StagePlan
from accord.terms.refusal import Refusal

Rows = tuple[tuple[str, ...], ...]

_METRICS = {
    Metric.TTFT: "first text",
    Metric.TPOT: "each token",
    Metric.FIRST_AUDIO: "first audio",
    Metric.LATENCY: "whole answer",
    Metric.RTF: "real-time factor",
}
_WEAKEST_FIRST = (Source.ASSUMED, Source.MODELLED, Source.MEASURED)


def machine_words(machine: Machine) -> str:
    """ "2 cores, AVX-512, 23GiB": what is known of a machine."""
    words = ["cores unknown" if machine.cores is None else _count(machine.cores, "core")]
    # The widest set that the engines use stands for the rest.
    names = machine.instructions or frozenset()
    widest = next((name for name in ("AMX", "AVX-512", "AVX2", "NEON") if name in names), None)
    words += [widest] if widest else []
    if machine.memory_bytes is not None:
        words.append(units.format_size_bytes(machine.memory_bytes, digits=2))
    return ", ".join(words)


def stage_rows(plan: Plan) -> Rows:
    """The plan as a table, its heading first."""
    heading = ("stage", "capability", "engine", "threads", "replicas", "work a request", "from")
    return (heading, *(_stage_row(plan, stage) for stage in plan.stages))


def plan_lines(plan: Plan) -> tuple[str, ...]:
    """What the plan promises, bounds and stands on."""
    limits = plan.admission
    memory = sum(
        item.replicas * (plan.graph.stage(item.stage).weights_bytes + item.memory_bytes + item.arena_bytes)
        for item in plan.stages
    )
    wait = units.format_duration_s(limits.queue_s_max, digits=3)
    threads = sum(item.threads * item.replicas for item in plan.stages)
    promised = ", ".join(f"{objective_words(item)} {bound_words(item, item.bound)}" for item in plan.objectives)
    return (
        f"objectives: {promised or 'none'}",
        f"admission: {limits.active_max} requests at once; {limits.queue_max} may wait, at most {wait}, then 429",
        f"threads: {threads} in {_count(sum(item.replicas for item in plan.stages), 'process', 'processes')}",
        f"memory: at most {units.format_size_bytes(memory, digits=3)} in weights, requests and arenas",
        f"stands on: {stands_on(plan)}",
        *(("deterministic: an answer doesn't depend on what else is in the batch",) if plan.deterministic else ()),
    )


def stands_on(plan: Plan) -> str:
    """The weakest source of the plan's figures, with its uncertainty."""
    works = [item.work for item in plan.stages if item.work is not None]
    for source in _WEAKEST_FIRST:
        found = [work.uncertainty for work in works if work.source is source]
        if found:
            return f"{source} (±{units.format_share(max(found), digits=2)})"
    return "no estimate"


def refusal_lines(refusal: Refusal) -> tuple[str, ...]:
    """Why an intent can't be met, and the ways out."""
    return (
        f"Refused: {refusal.field} = {refusal.value}",
        f"  {refusal.limit}",
        *(f"    {cause}" for cause in refusal.causes),
        "  cheapest ways out:",
        *(f"    {fix}" for fix in refusal.fix),
        *(("  trying again later may help",) if refusal.may_retry else ()),
    )


def objective_words(objective: Objective) -> str:
    """ "first text p50": an objective for people."""
    return f"{_METRICS[objective.metric]} {units.format_percentile(objective.percentile)}"


def bound_words(objective: Objective, value: float) -> str:
    """A figure of this objective, with its unit."""
    return f"{value:.3g}" if objective.metric is Metric.RTF else units.format_duration_s(value, digits=3)


def work_words(work: Estimate | None) -> str:
    """ "14.3 ms / token": the cost of a unit of work."""
    if work is None:
        return "unknown"
    figure = f"{work.value:.0f}" if work.value >= 100 else f"{work.value:.3g}"
    return f"{figure} {work.unit}"


def _stage_row(plan: Plan, item: StagePlan) -> tuple[str, ...]:
    stage = plan.graph.stage(item.stage)
    source = "" if item.work is None else f"{item.work.source}"
    return (
        item.stage,
        "+".join(stage.capabilities),
        item.engine,
        str(item.threads),
        str(item.replicas),
        work_words(item.work),
        source,
    )


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
