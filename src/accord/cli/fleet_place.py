"""`accord fleet place`: where a list of gangs would stand.

In: a fleet file, a file of gangs. Out: seats and refusals as words, or JSON with --json; status 1 if one is refused.
Nothing is taken: the answer is a proposal.
"""

import json
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import click
import msgspec

from accord.cli.options import json_option
from accord.cli.table import size, table_lines
from accord.edges.fleet_file import load_fleet
from accord.edges.gang_file import load_gangs
from accord.explain import refusal_lines
from accord.place.board import Board
from accord.place.gang import apply, decide
from accord.place.mix import mix_of
from accord.place.online import Scores
from accord.terms import units
from accord.terms.gang import Gang, Placement, Seat
from accord.terms.refusal import Refusal

_HEADING = ("gang", "part", "node", "devices", "share", "memory", "cores", "host memory", "NIC")


@click.command(short_help="Place a list of gangs.")
@click.argument("fleet", type=click.Path(path_type=Path))
@click.argument("gangs", type=click.Path(path_type=Path))
@json_option
def place(*, fleet: Path, gangs: Path, as_json: bool) -> int:
    """Place GANGS (a YAML file) on FLEET (another), one after another, each whole or not at all."""
    board = Board(load_fleet(fleet))
    answers = list(_one_by_one(board, load_gangs(gangs)))
    placed = [answer for _, answer in answers if isinstance(answer, Placement)]
    refused = [(gang, answer) for gang, answer in answers if isinstance(answer, Refusal)]
    if as_json:
        rows = [{"gang": gang.name, **msgspec.to_builtins(refusal)} for gang, refusal in refused]
        told = {"placements": msgspec.to_builtins(placed), "refusals": rows}
        click.echo(json.dumps(told, ensure_ascii=False))
    else:
        for line in _lines(placed, refused):
            click.echo(line)
    return 1 if refused else 0


def _one_by_one(board: Board, gangs: tuple[Gang, ...]) -> Iterator[tuple[Gang, Placement | Refusal]]:
    """Decides and takes; what the gangs themselves ask for is the demand that packing prepares for."""
    needs = (part.need for gang in gangs for part in gang.parts for _ in range(part.replicas))
    scores = Scores(board, mix_of(needs))
    for gang in gangs:
        answer = decide(board, scores, gang)
        if isinstance(answer, Placement):
            apply(board, answer)
        yield gang, answer


def _lines(placed: Iterable[Placement], refused: Iterable[tuple[Gang, Refusal]]) -> Iterator[str]:
    rows = [_row(placement, seat) for placement in placed for seat in placement.seats]
    if rows:
        # Columns that say nothing of any seat are left out.
        used = [number for number, cells in enumerate(zip(*rows, strict=True)) if any(cells)]
        shown = [tuple(row[number] for number in used) for row in (_HEADING, *rows)]
        yield from table_lines(shown, width=shutil.get_terminal_size().columns, keys=2, indent=2)
    for placement in placed:
        for unmet in placement.unmet:
            yield f"  {placement.gang}: not had: {unmet}"
    for gang, refusal in refused:
        first, *others = refusal_lines(refusal)
        yield f"  {gang.name}: {first}"
        yield from (f"  {line}" for line in others)


def _row(placement: Placement, seat: Seat) -> tuple[str, ...]:
    cut = f" {seat.template}" if seat.template else ""
    return (
        placement.gang,
        f"{seat.part}.{seat.replica}" if seat.replica or _several(placement, seat) else seat.part,
        seat.node,
        ",".join(map(str, seat.devices)),
        f"{units.format_share(seat.share_milli / 1000)}{cut}" if seat.devices else "",
        size(seat.memory_bytes) if seat.memory_bytes else "",
        f"{sum(seat.cpus_milli) / 1000:g}" if any(seat.cpus_milli) else "",
        size(sum(seat.host_memory_bytes)) if any(seat.host_memory_bytes) else "",
        "" if seat.nic is None else f"{seat.nic}",
    )


def _several(placement: Placement, seat: Seat) -> bool:
    return any(other.part == seat.part and other.replica for other in placement.seats)
