"""`accord explain`: what a plan promises and stands on.

In: a plan file. Out: words, or JSON with --json.
"""

from pathlib import Path

import click

from accord.cli.flow import print_json
from accord.cli.options import json_option
from accord.cli.words import console, show_rows
from accord.edges.plan_file import load_plan
from accord.explain import plan_lines, stage_rows


@click.command(short_help="Say what a plan promises.")
@click.argument("plan", type=click.Path(path_type=Path))
@json_option
def explain(plan: Path, as_json: bool) -> int:
    """Say in words what PLAN (a file that `accord plan --out` wrote) promises and stands on."""
    found = load_plan(plan)
    if as_json:
        print_json({"name": found.name, "stages": stage_rows(found), "lines": plan_lines(found)})
        return 0
    words = console()
    words.print(f"  Plan  {found.name}")
    show_rows(words, stage_rows(found))
    for line in plan_lines(found):
        words.print(f"  {line}")
    return 0
