"""Plans an intent for a fleet, as `accord plan` does it.

In: an intent, its document, where to write. Out: the plan or its refusal, as words, YAML, JSON and a picture; the exit
status. Invariant: what was stopped early says so.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
from rich.console import Console

from accord.cli.fleet_words import head
from accord.cli.fleets import KUBERNETES, LOCAL, file_beside, fleet_named
from accord.cli.front_svg import Chosen, front_svg
from accord.cli.plan_words import fleet_plan_lines, painted, wrapped
from accord.cli.table import plural
from accord.cli.watching import watching
from accord.cli.words import print_json, width_of_terminal
from accord.compile import compile_fleet, fleet_front
from accord.edges.fleet_plan_file import save_fleet_plan
from accord.edges.known import known
from accord.edges.model_card import find_card
from accord.edges.quirk_file import load_quirks
from accord.edges.result_files import save_bytes
from accord.edges.trace_sizes import read_trace_sizes
from accord.edges.weights import home
from accord.explain import refusal_lines
from accord.models.read import read_card
from accord.plan.fleet.question import Given
from accord.terms import units
from accord.terms.account import FrontPoint
from accord.terms.architecture import Architecture
from accord.terms.errors import BadInput
from accord.terms.fleet import Fleet
from accord.terms.fleet_plan import FleetPlan
from accord.terms.intent import Intent
from accord.terms.refusal import Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What was asked for. Paths in the `document` count from its folder; `fleet_given` says that one came with
    --fleet, which counts from where the command runs.
    """

    intent: Intent
    document: Path
    fleet_given: bool
    out: Path | None = None
    pareto: Path | None = None
    quirks: tuple[Path, ...] = ()
    as_json: bool = False


def plan_on_fleet(wish: Wish, words: Console) -> int:
    """Plans, and says what came of it; gives the exit status."""
    architecture = _architecture(wish)
    wish, trace = _with_trace(wish)
    fleet = _fleet(wish)
    quirks = tuple(quirk for path in wish.quirks for quirk in load_quirks(path))
    given = replace(known(architecture, home()), quirks=quirks)
    with watching(words) as watch:
        answer = compile_fleet(wish.intent, architecture=architecture, fleet=fleet, given=given, watch=watch)
    match answer:
        case Refusal() if watch.stopped:
            # Whoever stops a search hasn't been told that there is no plan.
            words.print("  Stopped before a plan was found.")
            return 130
        case Refusal():
            _show_refusal(answer, words, as_json=wish.as_json)
            return 1
        case FleetPlan():
            if wish.out is not None:
                save_fleet_plan(answer, wish.out)
            front = _drawn_front(wish, answer, architecture, fleet, given=given)
            if wish.as_json:
                found = msgspec.to_builtins(answer)
                print_json({"fleet_plan": found, "stopped": watch.stopped, "front": msgspec.to_builtins(front)})
                return 0
            for line in (*_lines(wish, answer, fleet, stopped=watch.stopped), *trace):
                words.print(painted(line))
            return 0


def _architecture(wish: Wish) -> Architecture:
    path = file_beside(wish.intent.model, wish.document)
    try:
        found = find_card(str(path) if path.exists() else wish.intent.model)
    except BadInput as error:
        if error.field != "CARD":
            raise
        raise BadInput(field="model", value=wish.intent.model, problem=error.problem, fix=error.fix) from error
    return read_card(found.values, name=found.name)


def _fleet(wish: Wish) -> Fleet:
    fleet = fleet_named(wish.intent.fleet, beside=None if wish.fleet_given else wish.document)
    if not any(node.devices for node in fleet.nodes):
        what = f"{plural(len(fleet.nodes), 'node')} without devices" if fleet.nodes else "no nodes"
        fix = "name a fleet file whose nodes have devices, such as examples/fleets/mixed.yaml"
        raise BadInput(field="fleet", value=wish.intent.fleet, problem=f"an empty fleet: {what}", fix=fix)
    return fleet


def _with_trace(wish: Wish) -> tuple[Wish, tuple[str, ...]]:
    """With the rate and sizes of the trace that the workload names, and what there is to say of it."""
    workload = wish.intent.workload
    if workload.trace is None:
        return wish, ()
    found = read_trace_sizes(file_beside(workload.trace, wish.document), field="workload.trace")
    counted = replace(
        workload,
        trace=None,
        rate_rps=found.rate_rps,
        input_tokens=workload.input_tokens or found.input_tokens,
        output_tokens=workload.output_tokens or found.output_tokens,
    )
    span = units.format_duration_s(found.span_s, digits=3)
    words = (
        f"  trace: {found.requests:,} requests in {span}, {found.mean_rps:.3g} a second; planned for the "
        f"{found.rate_rps:.3g} a second of its busiest minute"
    )
    return replace(wish, intent=replace(wish.intent, workload=counted)), (words,)


def _drawn_front(
    wish: Wish, plan: FleetPlan, architecture: Architecture, fleet: Fleet, *, given: Given
) -> tuple[FrontPoint, ...]:
    """The front, where a picture of it is wanted."""
    if wish.pareto is None:
        return ()
    points = fleet_front(wish.intent, architecture=architecture, fleet=fleet, given=given)
    title = f"{plan.graph.model} on {_fleet_words(wish)}"
    svg = front_svg(points, intent=wish.intent, title=title, chosen=tuple(_chosen(plan)))
    save_bytes(wish.pareto, svg.encode())
    return points


def _chosen(plan: FleetPlan) -> Iterator[Chosen]:
    """Where the plan stands in each field that a front may be about."""
    account = plan.account
    if account is None:
        return
    cost = account.devices if account.cost_usd_per_hour is None else account.cost_usd_per_hour
    yield Chosen(field="workload.rate_rps", value=account.rate_rps, cost=cost)
    for item in account.predicted:
        name = f"objectives.{item.objective.metric}_{units.format_percentile(item.objective.percentile)}"
        yield Chosen(field=name, value=item.value, cost=cost)


def _lines(wish: Wish, plan: FleetPlan, fleet: Fleet, *, stopped: bool) -> Iterator[str]:
    width = width_of_terminal()
    yield f"  Plan  {plan.name}: {plan.graph.model} on {_fleet_words(wish)}"
    yield from wrapped([head(replace(fleet, taken=()))], width=width, indent=4)
    yield from fleet_plan_lines(plan, width=width)
    if stopped:
        yield "  Stopped early; a longer search may find a better plan."
    for path, what in ((wish.out, "accord explain"), (wish.pareto, "")):
        if path is not None:
            yield f"  wrote {path}" + (f"   ({what} {path})" if what else "")


def _fleet_words(wish: Wish) -> str:
    name = wish.intent.fleet
    return {LOCAL: "this machine", KUBERNETES: "the cluster"}.get(name, name)


def _show_refusal(refusal: Refusal, words: Console, *, as_json: bool) -> None:
    if as_json:
        print_json({"refusal": msgspec.to_builtins(refusal)})
        return
    width = width_of_terminal()
    for line in refusal_lines(refusal):
        indent = len(line) - len(line.lstrip())
        for part in wrapped([line.strip()], width=width, indent=2 + indent):
            words.print(painted(part))
