"""`accord plan`: what an intent becomes on this machine, or why it can't be met.

In: an intent file. Out: a table, YAML with --out, JSON with --json; status 1 for a refusal.
"""

from pathlib import Path

import click
import msgspec

from accord.cli.flow import prepare, print_json, show_plan, show_refusal
from accord.cli.options import fleet_option, intent_argument, json_option, overrides_of, set_option
from accord.cli.words import console
from accord.edges.intent_file import load_intent
from accord.edges.plan_file import save_plan
from accord.explain import plan_lines
from accord.terms.refusal import Refusal


@click.command(short_help="Show what an intent becomes.")
@intent_argument
@fleet_option
@set_option
@click.option("--out", type=click.Path(path_type=Path), help="Write the plan to this YAML file.")
@click.option("--measure", is_flag=True, help="Measure the stages again: the machine was busy the first time.")
@json_option
def plan(
    *, intent: Path, fleet: str | None, overrides: tuple[str, ...], out: Path | None, measure: bool, as_json: bool
) -> int:
    """Plan INTENT (a YAML file) for this machine; start nothing.

    The first plan for a model fetches its weights and measures its stages; later ones are instant.
    """
    words = console(quiet=as_json)
    wanted = load_intent(intent, overrides=overrides_of(overrides, fleet))
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
