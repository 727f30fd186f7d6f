"""`accord explain`: what a plan promises and stands on; for a fleet also why it is this plan and no other.

In: a plan file. Out: words, or JSON with --json.
"""

from pathlib import Path

import click
import msgspec
from rich.console import Console

from accord.cli.options import json_option
from accord.cli.plan_words import fleet_plan_lines, painted, topic_lines
from accord.cli.words import console, print_json, show_rows, width_of_terminal
from accord.edges.either_plan_file import load_either_plan
from accord.explain import account_lines, plan_lines, stage_rows, why
from accord.terms.fleet_plan import FleetPlan
from accord.terms.plan import Plan


@click.command(short_help="Say what a plan promises, and why it is the best.")
@click.argument("plan", type=click.Path(path_type=Path))
@json_option
def explain(plan: Path, as_json: bool) -> int:
    """Say in words what PLAN (a file that `accord plan --out` wrote) promises and stands on.

    For a fleet also: what binds, what the runner-up was, and what one more dollar, millisecond or card would buy.
    """
    match load_either_plan(plan):
        case FleetPlan() as found:
            _explain_fleet(found, console(quiet=as_json), as_json=as_json)
        case Plan() as found:
            _explain_here(found, console(quiet=as_json), as_json=as_json)
    return 0


def _explain_fleet(found: FleetPlan, words: Console, *, as_json: bool) -> None:
    if as_json:
        lines = () if found.account is None else account_lines(found.account)
        account = None if found.account is None else msgspec.to_builtins(found.account)
        topics = {topic.title: topic.lines for topic in why(found)}
        print_json({"name": found.name, "lines": lines, "why": topics, "account": account})
        return
    width = width_of_terminal()
    for line in (f"  Plan  {found.name}: {found.graph.model}", *fleet_plan_lines(found, width=width)):
        words.print(painted(line))
    for line in topic_lines(why(found), width=width):
        words.print(painted(line))


def _explain_here(found: Plan, words: Console, *, as_json: bool) -> None:
    if as_json:
        print_json({"name": found.name, "stages": stage_rows(found), "lines": plan_lines(found)})
        return
    words.print(f"  Plan  {found.name}")
    show_rows(words, stage_rows(found))
    for line in plan_lines(found):
        words.print(f"  {line}")
