"""Arguments that several verbs share.

In: nothing. Out: click decorators, and what they mean together.
"""

from pathlib import Path

import click

intent_argument = click.argument("intent", type=click.Path(path_type=Path))
fleet_option = click.option("--fleet", help="Plan for this fleet instead of the intent's (`local` is this machine).")
set_option = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="FIELD=VALUE",
    help="Change a field of the intent, such as objectives.ttft_p99=215ms. May be given several times.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of words.")


def overrides_of(overrides: tuple[str, ...], fleet: str | None) -> tuple[str, ...]:
    """The --set texts, with --fleet as the last of them."""
    return overrides if fleet is None else (*overrides, f"fleet={fleet}")
