"""`accord plan`: what an intent becomes on this machine or on a fleet, or why it can't be met.

In: an intent file. Out: a table, YAML with --out, JSON with --json; status 1 for a refusal. Invariant: the planner of
this machine and that of fleets are imported only where they are needed.
"""

from pathlib import Path

import click
import msgspec
from rich.console import Console

from accord.cli.options import fleet_option, intent_argument, json_option, overrides_of, set_option
from accord.cli.words import console, print_json
from accord.edges.intent_file import load_intent
from accord.edges.plan_file import save_plan
from accord.models import catalog
from accord.terms.intent import Intent
from accord.terms.refusal import Refusal


@click.command(short_help="Show what an intent becomes.")
@intent_argument
@fleet_option
@set_option
@click.option("--out", type=click.Path(path_type=Path), help="Write the plan to this YAML file.")
@click.option("--pareto", type=click.Path(path_type=Path), help="Draw what more money buys into this SVG file.")
@click.option(
    "--quirks",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A file of known faults of devices, as `accord verify` writes them. May be given several times.",
)
@click.option("--measure", is_flag=True, help="Measure the stages again: the machine was busy the first time.")
@json_option
def plan(
    *,
    intent: Path,
    fleet: str | None,
    overrides: tuple[str, ...],
    out: Path | None,
    pareto: Path | None,
    quirks: tuple[Path, ...],
    measure: bool,
    as_json: bool,
) -> int:
    """Plan INTENT (a YAML file) for this machine or for a fleet; start nothing.

    The first plan for an embedded model fetches its weights and measures its stages; later ones are instant. Ctrl-C
    ends a long search with the best plan so far.
    """
    words = console(quiet=as_json)
    wanted = load_intent(intent, overrides=overrides_of(overrides, fleet))
    if wanted.model in catalog.MODELS:
        if pareto is not None:
            raise click.UsageError("--pareto is for fleets: this machine has no price")
        return _plan_here(wanted, words, out=out, measure=measure, as_json=as_json)
    if measure:
        raise click.UsageError("--measure is for embedded models: `accord profile` measures a device")
    from accord.cli.plan_fleet import Wish, plan_on_fleet

    given = fleet is not None
    wish = Wish(
        intent=wanted, document=intent, fleet_given=given, out=out, pareto=pareto, quirks=quirks, as_json=as_json
    )
    return plan_on_fleet(wish, words)


def _plan_here(wanted: Intent, words: Console, *, out: Path | None, measure: bool, as_json: bool) -> int:
    from accord.cli.flow import prepare, show_plan, show_refusal
    from accord.explain import plan_lines

    prepared = prepare(wanted, words, measure=measure)
    match prepared.answer:
        case Refusal() as refusal:
            return show_refusal(refusal, words, as_json=as_json)
        case found:
            if out is not None:
                save_plan(found, out)
            if as_json:
                print_json({"plan": msgspec.to_builtins(found)})
                return 0
            show_plan(prepared, found, words)
            for line in plan_lines(found):
                words.print(f"  {line}")
            return 0
