"""A gang at once: all of its seats, with their relations, or a refusal; decided, then applied to a newer board.

In: a `Board`, its `Scores`, a `Gang`. Out: `Placement` or `Refusal`. Invariant: `decide` changes nothing, and the same
board gives the same answer; `apply` takes all seats or none; `release` gives back exactly what was taken.

A replica's devices are of one kind. A preference of weight 1 counts for as much as a whole device lost.
"""

import itertools

from accord.place.board import WHOLE, Board
from accord.place.gang_fit import Spent, Work
from accord.place.gang_holds import holds, words
from accord.place.gang_node import Spot
from accord.place.gang_refuse import Answer, refuse, refuse_spent
from accord.place.gang_search import Found, Search
from accord.place.gang_wish import check
from accord.place.online import Scores
from accord.terms.errors import BadInput
from accord.terms.fleet import Codec
from accord.terms.gang import Bandwidth, Gang, Placement, Relation, Seat
from accord.terms.refusal import Refusal

STEPS_MAX = 20_000  # spots tried before a search gives up
STEPS_FIRST = 300  # of them, before what places have is added up to rule some out
STEPS_MORE = 200  # spots tried for a better answer after the first
_CHOICES_MAX = 32  # sets of preferences tried


def decide(board: Board, scores: Scores, gang: Gang, *, steps_max: int = STEPS_MAX) -> Placement | Refusal:
    """All seats of a gang, or why not. BadInput for a gang that makes no sense on any fleet."""
    check(gang)
    found, spent = best(board, scores, gang, steps_max)
    if found is None and spent:
        return refuse_spent(gang, steps_max)
    if found is None:

        def attempt(other: Board, its: Gang) -> Answer:
            there = scores if other is board else scores.on(other)
            its_found, its_spent = best(other, there, its, steps_max)
            return Answer(seats=seats_of(other, its, its_found) if its_found else (), spent=its_spent)

        return refuse(board, gang, attempt=attempt)
    return placed(board, gang, found)


def find(board: Board, scores: Scores, gang: Gang, *, steps_max: int = STEPS_MAX) -> Placement | None:
    """The same, without words where there is no answer: finding out what would fit takes longer than deciding."""
    check(gang)
    found, _ = best(board, scores, gang, steps_max)
    return placed(board, gang, found) if found else None


def apply(board: Board, placement: Placement) -> None:
    """Takes all seats of a placement; BadInput, and the board as it was, if one doesn't fit (any more)."""
    taken: list[Seat] = []
    try:
        for seat in placement.seats:
            board.take(seat)
            taken.append(seat)
    except BadInput:
        for seat in reversed(taken):
            board.give(seat)
        raise


def release(board: Board, placement: Placement) -> None:
    """Gives all seats of a placement back."""
    for seat in placement.seats:
        board.give(seat)


def placed(board: Board, gang: Gang, found: Found) -> Placement:
    """What was found, as seats, with the preferences that it doesn't meet."""
    seats = seats_of(board, gang, found)
    unmet = tuple(words(item) for item in _preferred(gang) if not holds(board, item, seats))
    return Placement(gang=gang.name, seats=seats, snapshot=board.version, unmet=unmet)


def _preferred(gang: Gang) -> tuple[Relation, ...]:
    return tuple(item for item in gang.relations if not isinstance(item, Bandwidth) and not item.required)


def best(board: Board, scores: Scores, gang: Gang, steps_max: int = STEPS_MAX) -> tuple[Found | None, bool]:
    """What costs least, preferences that are given up included; and whether the bound on work was reached."""
    preferred = _preferred(gang)
    required = tuple(item for item in gang.relations if item not in preferred)
    cheapest: Found | None = None
    least, spent = float("inf"), False
    # A single replica goes to the first row: losses are rounded so that names break ties (score.py), and a search for
    # less by a fraction of a step would undo that.
    more = STEPS_MORE if sum(part.replicas for part in gang.parts) > 1 else 0
    for price, held in _choices(preferred):
        if price >= least:
            break
        try:
            found = _search(board, scores, gang, held=required + held, steps_max=steps_max, more=more)
        except Spent:
            spent = True
            continue
        if found is not None and found.loss + price < least:
            cheapest, least = found, found.loss + price
    return cheapest, spent and cheapest is None


def _search(
    board: Board, scores: Scores, gang: Gang, *, held: tuple[Relation, ...], steps_max: int, more: int
) -> Found | None:
    """Most gangs fit where they are first tried; what doesn't is looked at with care."""
    try:
        return Search(board, scores, gang, held=held, work=Work(min(steps_max, STEPS_FIRST))).run(more, careful=False)
    except Spent:
        return Search(board, scores, gang, held=held, work=Work(steps_max)).run(more, careful=True)


def _choices(preferred: tuple[Relation, ...]) -> list[tuple[float, tuple[Relation, ...]]]:
    """Sets of preferences to hold, with the price of giving up the others; the cheapest first, none of them last."""
    rows = []
    for size in range(len(preferred) + 1):
        for given_up in itertools.islice(itertools.combinations(preferred, size), _CHOICES_MAX):
            price = sum(WHOLE * item.weight for item in given_up if not isinstance(item, Bandwidth))
            rows.append((price, tuple(item for item in preferred if item not in given_up)))
    rows.sort(key=lambda row: row[0])
    return rows if len(rows) <= _CHOICES_MAX else [*rows[: _CHOICES_MAX - 1], rows[-1]]


def seats_of(board: Board, gang: Gang, found: Found) -> tuple[Seat, ...]:
    """Spots as seats, part by part and replica by replica, with cores and memory drawn from NUMA domains."""
    by_part: dict[str, list[Seat]] = {part.name: [] for part in gang.parts}
    for row, spots in found.spots:
        domains = len(board.nodes[row].numa)
        cpu, host = board.cpu[row, :domains].tolist(), board.host[row, :domains].tolist()
        # Those that may draw from one domain alone come first; what is left is enough for the others in sum.
        for spot in sorted(spots, key=lambda spot: (not spot.wish.exact, spot.wish.number, spot.devices)):
            order = _domains(board, row, spot)
            its = by_part[spot.wish.name]
            cpus, memory = _draw(cpu, order, spot.wish.cpu), _draw(host, order, spot.wish.host)
            its.append(_seat(board, row, spot, replica=len(its), cpus=cpus, host=memory))
    return tuple(seat for part in gang.parts for seat in by_part[part.name])


def _domains(board: Board, row: int, spot: Spot) -> list[int]:
    node = board.nodes[row]
    near = dict.fromkeys((spot.domain, *(node.devices[device].numa for device in spot.devices)))
    if spot.wish.exact:
        return [spot.domain]
    return list(dict.fromkeys((*near, *range(len(node.numa)))))


def _draw(free: list[int], order: list[int], wanted: int) -> tuple[int, ...]:
    """Draws from the domains in order, and lessens what is free."""
    drawn = [0] * len(free)
    for domain in order:
        if domain < len(free):
            drawn[domain] = min(wanted, free[domain])
            free[domain] -= drawn[domain]
            wanted -= drawn[domain]
    return tuple(drawn)


def _seat(board: Board, row: int, spot: Spot, *, replica: int, cpus: tuple[int, ...], host: tuple[int, ...]) -> Seat:
    cut = spot.cut
    codecs = zip(board.codec_names, cut.codecs, strict=True) if cut else ()
    return Seat(
        part=spot.wish.name,
        replica=replica,
        node=board.names[row],
        devices=spot.devices,
        share_milli=cut.share if cut else 0,
        memory_bytes=cut.memory if cut else 0,
        codecs=tuple(Codec(name=name, units=units) for name, units in codecs if units),
        template=None if cut is None or cut.template is None else board.template_names[cut.template],
        cpus_milli=cpus,
        host_memory_bytes=host,
        nic=spot.nic,
        nic_bytes_per_s=spot.nic_bytes,
        nvme_bytes=spot.wish.nvme,
    )
