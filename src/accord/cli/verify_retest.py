"""`accord verify retest` and `accord verify schema`: quirks over time.

In: a file of quirks. Out: what stands of each; with --write the file with new dates and versions; status 1 if a fault
is still there.
"""

import datetime as dt
import random
from pathlib import Path

import click

from accord.cli.options import json_option
from accord.cli.verify_devices import close_all, opened, parse_device, witnesses_for
from accord.cli.words import console, print_json
from accord.edges.quirk_file import load_quirks, save_quirks, schema_text
from accord.terms.quirk import Quirk
from accord.terms.quirk_text import region_text
from accord.verify.devices.child import ChildDevice
from accord.verify.examine import Examiner
from accord.verify.operators.table import operators
from accord.verify.oracle import Oracle
from accord.verify.quirks import Retest, retested
from accord.verify.quirks import retest as asked_again

_CALL_S = 30.0
_QUESTIONS = 200


@click.command(short_help="Ask again whether faults are still there.")
@click.argument("quirks", type=click.Path(path_type=Path))
@click.option("--device", help="Ask this device instead of the one that each quirk names.")
@click.option("--write", is_flag=True, help="Write dates, versions and what is fixed into the file.")
@json_option
def retest(*, quirks: Path, device: str | None, write: bool, as_json: bool) -> int:
    """Ask points inside each region of QUIRKS (a YAML file) again."""
    known = load_quirks(quirks)
    words = console(quiet=as_json)
    results: dict[str, Retest] = {}
    after: dict[str, Quirk] = {}
    for port in dict.fromkeys(device or quirk.device for quirk in known):
        mine = [quirk for quirk in known if (device or quirk.device) == port]
        for quirk, result, new in _on(port, mine):
            results[quirk.name], after[quirk.name] = result, new
            words.print(f"  {_told(result):<11} {quirk.name}   {result.failing} of {result.asked} points fail")
            words.print(f"              {region_text(quirk.region)}")
    if write:
        save_quirks([after[quirk.name] for quirk in known], quirks)
        words.print(f"  wrote {quirks}")
    if as_json:
        print_json({name: {"asked": found.asked, "failing": found.failing} for name, found in results.items()})
    return int(any(found.failing for found in results.values()))


@click.command(short_help="Print the JSON Schema of a file of quirks.")
def schema() -> int:
    """Print the JSON Schema (draft 2020-12) of a file of quirks."""
    click.echo(schema_text(), nl=False)
    return 0


def _on(port: str, quirks: list[Quirk]) -> list[tuple[Quirk, Retest, Quirk]]:
    """Each quirk, what asking showed, and the quirk after it."""
    rows = operators()
    today = dt.datetime.now(tz=dt.UTC).date().isoformat()
    tested: ChildDevice = opened(parse_device(port), call_s=_CALL_S)
    witnesses: list[ChildDevice] = []
    found = []
    try:
        witnesses = witnesses_for(tested, call_s=_CALL_S)
        examiner = Examiner(tested, witnesses, rows)
        for quirk in quirks:
            if quirk.operator not in rows:
                found.append((quirk, Retest(asked=0, failing=0), quirk))
                continue
            oracle = Oracle(examiner.fails(quirk.fault), budget=_QUESTIONS)
            result = asked_again(quirk, oracle, rows[quirk.operator].space, rng=random.Random(quirk.name))
            new = retested(quirk, result, tested.describe().versions, today=today)
            found.append((quirk, result, new))
    finally:
        close_all([tested, *witnesses])
    return found


def _told(result: Retest) -> str:
    if not result.asked:
        return "not asked"
    return "gone" if result.gone else "still there"
