"""A Plan or a Refusal -> words.

In: values. Out: lines and table rows of plain text, without colour or width.
Invariant: pure; every figure comes from the value, and every estimate is shown with its source.
"""

from dataclasses import dataclass

from accord.terms import units
from accord.terms.account import Account, Aim, Margin, MarginKind, Predicted, QuirkNote
from accord.terms.estimate import Estimate, Source
from accord.terms.fleet_plan import FleetPlan
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
_AIMS = {
    Aim.COST: "the least cost an hour",
    Aim.DEVICES: "the fewest devices, since not all prices are known",
    Aim.RATE: "the highest rate that the budget buys",
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """What there is to say of one question about a plan."""

    title: str
    lines: tuple[str, ...]


def promise_rows(account: Account) -> Rows:
    """Objectives, what was wanted, and what the plan is predicted to reach, a heading first."""
    return (("predicted", "wanted", "got", ""), *(_promise_row(item) for item in account.predicted))


def account_lines(account: Account) -> tuple[str, ...]:
    """What the plan carries and costs, and the weakest figure that it stands on."""
    asked = "reached under the budget" if account.aim is Aim.RATE else "asked for"
    carries = f"{_figure(account.rate_rps)} req/s {asked}; all that stands could carry {_figure(account.rate_rps_max)}"
    costs = _devices(account.devices)
    if account.cost_usd_per_hour is not None:
        costs += f", {units.format_usd(account.cost_usd_per_hour, digits=4)} an hour"
    if account.cost_usd_per_request is not None:
        costs += f", {units.format_usd(account.cost_usd_per_request, digits=3)} a request"
    if account.unpriced:
        costs += f"; no price is known of {', '.join(account.unpriced)}: write `price_per_hour` in the fleet"
    weakest = f": {account.weakest}" if account.weakest else ""
    stands = f"{account.source} (±{units.format_share(account.uncertainty, digits=2)}){weakest}"
    trust = "; `accord profile` the device before you trust this" if account.source is Source.ASSUMED else ""
    return (f"carries: {carries}", f"costs: {costs}", f"stands on: {stands}{trust}")


def why(plan: FleetPlan) -> tuple[Topic, ...]:
    """Why this plan and no other: what binds, the runner-up, what one more would buy, what was kept out."""
    account = plan.account
    if account is None:
        nobody = "a person wrote this plan, or a version that kept no account: plan the intent again to have one"
        return (Topic(title="Why", lines=(nobody,)),)
    binds = tuple(
        f"{item.field}: {item.value} of {item.limit} ({units.format_share(item.used, digits=3)})"
        for item in account.binds
    )
    topics = (
        Topic(title="Chosen for", lines=(_AIMS[account.aim],)),
        Topic(title="What binds", lines=binds or ("no objective and no part of the fleet is at its limit",)),
        Topic(title="The runner-up", lines=_runner_up(account)),
        Topic(title="What one more would buy", lines=tuple(_margin_words(item) for item in account.margins)),
        Topic(title="Known faults of devices", lines=tuple(_quirk_words(item) for item in account.quirks)),
        Topic(title="Figures stand on", lines=_sources(account)),
    )
    return tuple(topic for topic in topics if topic.lines)


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


def _promise_row(item: Predicted) -> tuple[str, ...]:
    objective = item.objective
    name = f"{objective.metric} {units.format_percentile(objective.percentile)}"
    met = "met" if item.value <= objective.bound else "missed"
    return (name, bound_words(objective, objective.bound), bound_words(objective, item.value), met)


def _runner_up(account: Account) -> tuple[str, ...]:
    found = account.runner_up
    if found is None:
        return ("nothing else meets the intent on this fleet",)
    more = []
    if found.more_usd_per_hour:
        cents = units.format_usd(round(abs(found.more_usd_per_hour), 2))
        more.append(f"{cents} an hour {_more(found.more_usd_per_hour)}")
    if found.more_devices:
        more.append(f"{_devices(abs(found.more_devices))} {_more(found.more_devices)}")
    if found.fewer_rps:
        more.append(f"{_figure(found.fewer_rps)} req/s less")
    return (f"{found.words}: {', '.join(more) or 'as good'}",)


def _more(amount: float) -> str:
    return "more" if amount >= 0 else "less"


def _margin_words(margin: Margin) -> str:
    match margin.kind:
        case MarginKind.DOLLAR:
            what = f"{units.format_usd(margin.added)} an hour"
        case MarginKind.MILLISECOND:
            what = f"{_figure(margin.added)} ms of {margin.field.removeprefix('objectives.')}"
        case MarginKind.CARD:
            what = f"{_figure(margin.added)} more {margin.field.removeprefix('fleet.')}"
    gains = []
    if margin.gained_rps:
        gains.append(f"{_figure(margin.gained_rps)} req/s more")
    if margin.saved_usd_per_hour:
        gains.append(f"{units.format_usd(margin.saved_usd_per_hour, digits=3)} an hour less")
    if margin.saved_devices:
        gains.append(f"{_devices(margin.saved_devices)} less")
    return f"{what}: {', '.join(gains) or 'nothing'}"


def _quirk_words(note: QuirkNote) -> str:
    what = "left out" if note.cost_ratio is None else f"its workaround is charged, x {note.cost_ratio:.3g}"
    return f"{note.kind} for {note.stage}: {note.words} ({note.quirk}): {what}"


def _sources(account: Account) -> tuple[str, ...]:
    """One line for each figure that pools stand on, and the pools."""
    pools: dict[str, list[str]] = {}
    for pool in account.pools:
        said = f"{pool.source} (±{units.format_share(pool.uncertainty, digits=2)}): {pool.weakest}"
        pools.setdefault(said, []).append(pool.pool)
    return tuple(f"{', '.join(names)}: {said}" for said, names in pools.items())


def _devices(count: float) -> str:
    return f"{_figure(count)} device{'' if count == 1 else 's'}"


def _figure(number: float) -> str:
    """Three digits, or the whole number."""
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}"


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
