"""`accord fleet place`: where a list of gangs would stand.

In: a fleet file, a file of gangs. Out: seats and refusals as words, or JSON with --json; status 1 if one is refused.
Nothing is taken: the answer is a proposal.
"""

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import click
import msgspec

from accord.cli.options import json_option
from accord.cli.table import size, table_lines
from accord.edges import device_catalog
from accord.edges.fleet_file import load_fleet
from accord.edges.gang_file import load_gangs
from accord.explain import refusal_lines
from accord.place.board import Board
from accord.place.defrag import Move, make_room
from accord.place.gang import apply, decide, release
from accord.place.mix import mix_of
from accord.place.offline import Offline, plan
from accord.place.offline_model import Aim
from accord.place.online import Scores
from accord.place.running import running_of
from accord.terms import units
from accord.terms.errors import BadInput
from accord.terms.gang import Gang, Placement, Seat
from accord.terms.refusal import Refusal

_HEADING = ("gang", "part", "node", "devices", "share", "memory", "cores", "host memory", "NIC")


@click.command(short_help="Place a list of gangs.")
@click.argument("fleet", type=click.Path(path_type=Path))
@click.argument("gangs", type=click.Path(path_type=Path))
@click.option("--together", is_flag=True, help="Place all at once, or none: exact, or with a proven gap.")
@click.option(
    "--aim",
    type=click.Choice([aim.value for aim in Aim]),
    help="With --together: spare nodes (the default), devices, or loss, which is what gaps can't be used for.",
)
@click.option("--defragment", is_flag=True, help="Where a gang doesn't fit, move what the fleet calls movable.")
@click.option("--moves", type=click.IntRange(min=1), help="With --defragment: at most so many a gang (default 3).")
@click.option("--seconds", type=click.FloatRange(min=0.1), help="With --together: how long to search (default 10).")
@json_option
def place(
    *,
    fleet: Path,
    gangs: Path,
    together: bool,
    aim: str | None,
    seconds: float | None,
    defragment: bool,
    moves: int | None,
    as_json: bool,
) -> int:
    """Place GANGS (a YAML file) on FLEET (another), one after another, each whole or not at all."""
    if not together and (aim or seconds):
        raise click.UsageError("--aim and --seconds go with --together")
    if moves and not defragment:
        raise click.UsageError("--moves goes with --defragment")
    if together and defragment:
        raise click.UsageError("--defragment makes room for one gang after another: leave out --together")
    board, wanted = Board(load_fleet(fleet)), load_gangs(gangs)
    _check_kinds(board, wanted)
    # What the gangs themselves ask for is the demand that packing prepares for.
    needs = (part.need for gang in wanted for part in gang.parts for _ in range(part.replicas))
    scores = Scores(board, mix_of(needs))
    if together:
        answer = plan(board, scores, wanted, aim=Aim(aim or Aim.NODES), seconds_max=seconds or 10.0)
        told = _told_together(answer)
    elif defragment:
        told = _told_with_moves(board, scores, wanted, moves or 3)
    else:
        told = _told_one_by_one(board, scores, wanted)
    if as_json:
        rows = [{"gang": name, **msgspec.to_builtins(refusal)} for name, refusal in told.refused]
        moved = {} if told.moves is None else {"moves": msgspec.to_builtins(told.moves)}
        document = {"placements": msgspec.to_builtins(told.placed), "refusals": rows, **moved, **told.figures}
        click.echo(json.dumps(document, ensure_ascii=False))
    else:
        for line in _lines(told):
            click.echo(line)
    return 1 if told.refused else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """Answers, by the gang's name; of a whole plan its figures and what there is to say of them."""

    placed: tuple[Placement, ...]
    refused: tuple[tuple[str, Refusal], ...]
    moves: tuple[Move, ...] | None = None  # None: none were asked for
    figures: Mapping[str, str | float] = field(default_factory=dict)
    note: str = ""


def _check_kinds(board: Board, gangs: tuple[Gang, ...]) -> None:
    """BadInput for a kind of device that nobody has heard of: it is misspelt, not lacking."""
    known = {*device_catalog.names(), *(kind.name for kind in board.fleet.kinds)}
    for gang in gangs:
        for part in gang.parts:
            for name in part.kinds:
                if name not in known:
                    near = device_catalog.near(name, also=known)
                    fix = f"did you mean {near}?" if near else "`accord fleet show` lists the fleet's kinds"
                    field = f"gangs.{gang.name}.parts.{part.name}.kinds"
                    raise BadInput(field=field, value=name, problem="no such device kind", fix=fix)


def _told_one_by_one(board: Board, scores: Scores, gangs: tuple[Gang, ...]) -> _Told:
    """Decides and takes, in the order of the file."""
    placed, refused = [], []
    for gang in gangs:
        match decide(board, scores, gang):
            case Refusal() as refusal:
                refused.append((gang.name, refusal))
            case placement:
                apply(board, placement)
                placed.append(placement)
    return _Told(placed=tuple(placed), refused=tuple(refused))


def _told_with_moves(board: Board, scores: Scores, gangs: tuple[Gang, ...], moves_max: int) -> _Told:
    """The same, after moves of others where a gang doesn't fit."""
    running = {its.placement.gang: its for its in running_of(board)}
    placed: list[Placement] = []
    refused: list[tuple[str, Refusal]] = []
    moves: list[Move] = []
    proven = True
    for gang in gangs:
        match make_room(board, scores, gang, tuple(running.values()), moves_max=moves_max):
            case Refusal() as refusal:
                refused.append((gang.name, refusal))
            case answer:
                for move in answer.moves:
                    release(board, move.before)
                    apply(board, move.after)
                    running[move.gang] = replace(running[move.gang], placement=move.after)
                apply(board, answer.placement)
                placed.append(answer.placement)
                moves += answer.moves
                proven = proven and answer.proven
    note = ""
    if moves:
        cost = units.format_usd(sum(move.cost_usd for move in moves), digits=3)
        how = "for each gang the fewest, and the cheapest of so few" if proven else "fewer might do: not all was tried"
        note = f"{len(moves)} move{'s' * (len(moves) > 1)} in this order, {cost}; {how}"
    return _Told(placed=tuple(placed), refused=tuple(refused), moves=tuple(moves), note=note)


def _told_together(answer: Offline | Refusal) -> _Told:
    if isinstance(answer, Refusal):
        return _Told(placed=(), refused=(("all together", answer),))
    found = "proven best" if answer.gap == 0 else f"at most {100 * answer.gap:.1f}% from the best"
    what = f"{answer.cost:g} {'nodes' if answer.aim is Aim.NODES else 'devices'}"
    if answer.aim is Aim.LOSS:
        what += " lost"
    note = f"{what}, preferences given up included; {found}" + (f" ({answer.note})" if answer.note else "")
    figures = {"aim": answer.aim.value, "cost": answer.cost, "bound": answer.bound, "gap": answer.gap}
    return _Told(placed=answer.placements, refused=(), figures=figures, note=note)


def _lines(told: _Told) -> Iterator[str]:
    width = shutil.get_terminal_size().columns
    if told.moves:
        steps = [
            (f"{number}", move.gang, _stand(move.after), units.format_usd(move.cost_usd, digits=3))
            for number, move in enumerate(told.moves, 1)
        ]
        yield from table_lines([("move", "what", "to", "cost"), *steps], width=width, keys=2, indent=2)
    rows = [_row(placement, seat) for placement in told.placed for seat in placement.seats]
    if rows:
        # Columns that say nothing of any seat are left out.
        used = [number for number, cells in enumerate(zip(*rows, strict=True)) if any(cells)]
        shown = [tuple(row[number] for number in used) for row in (_HEADING, *rows)]
        yield from table_lines(shown, width=width, keys=2, indent=2)
    for placement in told.placed:
        for unmet in placement.unmet:
            yield f"  {placement.gang}: not had: {unmet}"
    if told.note:
        yield f"  {told.note}"
    for name, refusal in told.refused:
        first, *others = refusal_lines(refusal)
        yield f"  {name}: {first}"
        yield from (f"  {line}" for line in others)


def _stand(placement: Placement) -> str:
    """Nodes with the devices that are taken of them."""
    devices: dict[str, set[int]] = {}
    for seat in placement.seats:
        devices.setdefault(seat.node, set()).update(seat.devices)
    return ", ".join(
        f"{node} devices {','.join(map(str, sorted(its)))}" if its else node for node, its in devices.items()
    )


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
