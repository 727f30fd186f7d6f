"""`accord model`: the stage graph of a model, and what each stage holds and computes.

In: a model card (a file, a folder, or a name of the catalog). Out: words, or JSON with --json.
"""

import json
import shutil
from collections.abc import Mapping

import click

from accord.cli.model_json import summary_json
from accord.cli.model_list import embedded_json, embedded_lines, list_json, list_lines
from accord.cli.model_words import summary_lines
from accord.cli.options import json_option
from accord.edges.model_card import find_card
from accord.estimate.summary import Example, summary
from accord.models import catalog
from accord.models.card import Json
from accord.models.families.table import FAMILIES
from accord.models.read import read_card
from accord.terms import units
from accord.terms.errors import BrokenEdge


@click.command(short_help="Show the stage graph of a model.")
@click.argument("card", required=False)
@click.option("--like", metavar="FAMILY", help="Read a card of an unknown architecture as one of this family.")
@click.option("--tokens", type=click.IntRange(1, 1 << 24), help="Tokens of the example request.")
@click.option("--batch", type=click.IntRange(1, 1 << 16), default=1, help="Requests in one step of the example.")
@click.option("--tp", type=click.IntRange(1, 1 << 10), help="Show what one of so many tensor-parallel ranks holds.")
@click.option("--memory", metavar="SIZE", help="Show how caches fill this much memory, such as 40GiB.")
@click.option("--list", "as_list", is_flag=True, help="List the models of the catalog, and the families.")
@json_option
def model(
    *,
    card: str | None,
    like: str | None,
    tokens: int | None,
    batch: int,
    tp: int | None,
    memory: str | None,
    as_list: bool,
    as_json: bool,
) -> int:
    """Show what CARD says of a model: its stages, weights, caches and work.

    CARD is a model's config.json, a folder with one (a diffusers folder, too), or a name of the catalog.
    """
    if as_list:
        _show(list_json() if as_json else "\n".join(list_lines()))
        return 0
    if card is None:
        raise click.UsageError("give a CARD, or --list")
    if card in catalog.MODELS:
        graph = catalog.find(card).graph
        _show(embedded_json(graph) if as_json else "\n".join(embedded_lines(graph)))
        return 0
    memory_bytes = None if memory is None else units.parse_size_bytes(memory, field="--memory")
    example = Example(tokens=tokens, batch=batch, ranks=tp, memory_bytes=memory_bytes)
    found = find_card(card)
    figures = summary(read_card(found.values, name=found.name, like=like), example)
    if as_json:
        _show(summary_json(figures, source=found.source))
        return 0
    words = next(family.words for family in FAMILIES if family.name == figures.architecture.family)
    _show("\n".join(summary_lines(figures, source=found.source, words=words, width=_width())))
    return 0


def _width() -> int:
    return shutil.get_terminal_size((100, 40)).columns


def _show(value: str | Mapping[str, Json]) -> None:
    try:
        click.echo(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    except BrokenPipeError:
        raise
    except OSError as error:
        raise BrokenEdge(f"standard output: {error.strerror}; write elsewhere") from error
