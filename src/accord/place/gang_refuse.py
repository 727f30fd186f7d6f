"""Why a gang doesn't fit, and what would: every way out was tried and found to work.

In: a `Board`, a gang, functions that try a gang. Out: `Refusal`. Invariant: a cause makes room when it alone is
lifted; a fix is a gang, or a freed node, that was found to fit. How much is tried is bounded.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from accord.place.board import WHOLE, Board, Ints
from accord.place.gang_holds import scope_words
from accord.place.gang_loosen import Bound, alone, bounds, with_part
from accord.place.gang_wish import cut_of, takes_cards
from accord.terms.gang import Gang, Part, Seat
from accord.terms.refusal import Refusal

NOTHING_SMALLER = "add nodes that can hold it: nothing smaller that was tried fits"
_EMPTIED_MAX = 16  # nodes that are tried empty


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What trying a gang gave: its seats (none: it doesn't fit), or that the bound on work was reached."""

    seats: tuple[Seat, ...]
    spent: bool = False


Try = Callable[[Board, Gang], Answer]


def refuse_spent(gang: Gang, steps: int) -> Refusal:
    """The bound on work was reached: nothing is known."""
    return Refusal(
        field="gang",
        value=gang.name,
        limit=f"{steps} steps of search",
        causes=("neither a place nor a proof that there is none was found within the bound on work",),
        fix=("allow more steps", "name device kinds or a nearer scope, which leaves less to search"),
        may_retry=True,
    )


def refuse(board: Board, gang: Gang, *, attempt: Try) -> Refusal:
    """What binds, and the nearest ways out."""
    binding = [bound for bound in bounds(gang) if attempt(board, bound.lifted).seats]
    nearest = [_nearest(board, bound, attempt) for bound in binding]
    limits = [_limit(board, bound, words, attempt) for bound, (words, _) in zip(binding, nearest, strict=True)]
    causes = [f"{bound.value}: {limit}" for bound, limit in zip(binding, limits, strict=True)]
    fixes = [
        f"the nearest is {words} ({where})" if words else f"leave out {bound.value} ({where})"
        for bound, (words, where) in zip(binding, nearest, strict=True)
    ]
    if not binding:
        causes = limits = _lacking(board, gang, attempt)
        fixes += _several(board, gang, attempt)
    fixes += _fewer(board, gang, attempt)
    fixes += _freed(board, gang, attempt)
    return Refusal(
        field=binding[0].field if binding else "gang",
        value=binding[0].value if binding else gang.name,
        limit=limits[0],
        causes=tuple(causes),
        fix=tuple(fixes) or (NOTHING_SMALLER,),
    )


def _limit(board: Board, bound: Bound, nearest: str, attempt: Try) -> str:
    """How far one gets with what binds."""
    part, scope = bound.part, bound.scope
    if part is None or scope is None or not takes_cards(part.need):
        return f"the nearest that fits is {nearest}" if nearest else "only without it is there a place"
    cards = max(1, part.need.cards)
    single = alone(bound.lifted, part)
    most = _largest(cards, lambda count: _with_cards(single, part, count), lambda gang: attempt(board, gang))
    if most == cards:
        return f"fewer than {part.replicas} such places are free"
    beside = " beside such a NIC" if part.nic_within is not None else ""
    return f"no {scope_words(scope)} has more than {most} free{beside}"


def _several(board: Board, gang: Gang, attempt: Try) -> list[str]:
    """A smallest set of bounds that have to go together, where none does alone."""
    values = [bound.value for bound in bounds(gang)]
    if not attempt(board, _lifted(gang, values)).seats:
        return []
    for value in list(values):
        fewer = [its for its in values if its != value]
        if attempt(board, _lifted(gang, fewer)).seats:
            values = fewer
    return [f"leave out or lower all of: {'; '.join(values)}"]


def _lifted(gang: Gang, values: list[str]) -> Gang:
    for value in values:
        gang = next((bound.lifted for bound in bounds(gang) if bound.value == value), gang)
    return gang


def _with_cards(gang: Gang, part: Part, count: int) -> Gang:
    return with_part(gang, replace(part, replicas=1, need=replace(part.need, cards=count, share=0.0, codecs=())))


def _nearest(board: Board, bound: Bound, attempt: Try) -> tuple[str, str]:
    """The nearest loosening that fits (none: ""), and where it, or the gang without the bound, would stand."""
    options = bound.looser
    less = bound.less
    if less is not None:
        count = _largest(bound.steps - 1, lambda fewer: less(fewer).gang, lambda gang: attempt(board, gang))
        options = (less(count),) if count > 0 else ()
    for looser in options:
        answer = attempt(board, looser.gang)
        if answer.seats:
            return looser.words, _where(answer.seats, bound.part)
    return "", _where(attempt(board, bound.lifted).seats, bound.part)


def _where(seats: tuple[Seat, ...], part: Part | None) -> str:
    names = list(dict.fromkeys(seat.node for seat in seats if part is None or seat.part == part.name))
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _largest(limit: int, gang_of: Callable[[int], Gang], attempt: Callable[[Gang], Answer]) -> int:
    """The largest count up to a limit that fits, 0 if not even one does."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if attempt(gang_of(middle)).seats:
            low = middle
        else:
            high = middle - 1
    return low


def _fewer(board: Board, gang: Gang, attempt: Try) -> list[str]:
    """Fewer replicas, or fewer devices for each."""
    fixes = []
    for part in gang.parts:
        count = _largest(
            part.replicas - 1,
            partial(_of_replicas, gang, part),
            lambda other: attempt(board, other),
        )
        if count:
            fixes.append(f"{count} instead of {part.replicas} replicas of {part.name}")
        cards = _largest(
            max(0, part.need.cards - 1),
            partial(_of_cards, gang, part),
            lambda other: attempt(board, other),
        )
        if cards:
            fixes.append(f"{cards} instead of {part.need.cards} devices for {part.name}")
    return fixes


def _of_replicas(gang: Gang, part: Part, replicas: int) -> Gang:
    return with_part(gang, replace(part, replicas=replicas))


def _of_cards(gang: Gang, part: Part, cards: int) -> Gang:
    return with_part(gang, replace(part, need=replace(part.need, cards=cards)))


def _lacking(board: Board, gang: Gang, attempt: Try) -> list[str]:
    """Why, where no bound binds alone: a part that has no place even by itself, or their number."""
    causes = []
    for part in gang.parts:
        if attempt(board, alone(gang, part)).seats:
            continue
        if takes_cards(part.need) and not any(cut_of(board, part, kind) for kind in board.kinds):
            causes.append(f"{part.name}: no kind of device in the fleet can hold one replica")
            continue
        bare = replace(part, within=None, nic_within=None)
        on_devices = replace(part.need, cpus=0.0, host_memory_bytes=0, nic_bytes_per_s=0.0, nvme_bytes=0)
        devices = replace(bare, need=on_devices)
        if attempt(board, alone(gang, bare)).seats:
            causes.append(f"{part.name}: no node holds one replica with its scopes")
        elif attempt(board, alone(gang, devices)).seats:
            causes.append(f"{part.name}: no node has all that one replica takes beside its devices")
        else:
            causes.append(f"{part.name}: no node has room for one replica{_most_free(board, part)}")
    if causes:
        return causes
    if gang.relations and attempt(board, replace(gang, relations=())).seats:
        return ["no relation alone: several of them together bind"]
    for part in gang.parts:
        only = replace(gang, parts=(part,), relations=())
        if not attempt(board, only).seats:
            count = _largest(
                part.replicas - 1,
                partial(_of_replicas, only, part),
                lambda other: attempt(board, other),
            )
            causes.append(f"{part.name}: no more than {count} of {part.replicas} replicas have a place")
    return causes or ["each part fits by itself, all of them together don't"]


def _most_free(board: Board, part: Part) -> str:
    """How many whole devices the best node has, for a part that wants some."""
    kinds = np.array([cut_of(board, part, kind) is not None for kind in board.kinds] + [False])
    if not part.need.cards or not len(board.nodes):
        return ""
    free = ((board.share == WHOLE) & kinds[board.kind]).sum(axis=1)
    most = int(free.max())
    return (
        f"; the most free devices are {most}, on {board.names[int(free.argmax())]}" if most else "; no device is free"
    )


def _freed(board: Board, gang: Gang, attempt: Try) -> list[str]:
    """The node where least has to be freed; else whether an empty fleet would do."""
    fresh = Board(replace(board.fleet, taken=()))
    if not attempt(fresh, gang).seats:
        return []
    used = np.maximum(fresh.share, 0).sum(axis=1) - np.maximum(board.share, 0).sum(axis=1)
    cores = (fresh.cpu_sum - board.cpu_sum) / np.maximum(fresh.cpu_sum, 1)
    touched = (used > 0) | (cores > 0) | (fresh.host_sum > board.host_sum) | (fresh.nic != board.nic).any(axis=1)
    rows = [row for row in np.lexsort((cores, used)).tolist() if touched[row]]
    for row in rows[:_EMPTIED_MAX]:
        if attempt(_emptied(board, fresh, row), gang).seats:
            return [f"free {_what(board, fresh, gang, row=row, attempt=attempt)} on {board.names[row]}"]
    return ["wait until others leave, or move them: an empty fleet would hold it"]


def _what(board: Board, fresh: Board, gang: Gang, *, row: int, attempt: Try) -> str:
    """The least of a node that has to be freed: all that can stay taken stays, one after the other."""
    trial = _emptied(board, fresh, row)
    freed = []
    for device in range(len(board.nodes[row].devices)):
        if any(its[row, device] != full[row, device] for its, full in _of_devices(board, fresh)):
            kept = trial.copy()
            for its, now in _of_devices(kept, board):
                its[row, device] = now[row, device]
            if attempt(kept, gang).seats:
                trial = kept
            else:
                freed.append(str(device))
    texts = [f"device{'s' * (len(freed) > 1)} {', '.join(freed)}"] if freed else []
    for number, text in enumerate(("cores", "host memory", "NICs", "NVMe")):
        now, full = _of_nodes(board, fresh)[number]
        if (now[row] != full[row]).any():
            kept = trial.copy()
            _of_nodes(kept, board)[number][0][row] = now[row]
            _sum(kept, row)
            if attempt(kept, gang).seats:
                trial = kept
            else:
                texts.append(text)
    return " and ".join(texts) or "what is taken"


def _of_devices(one: Board, other: Board) -> list[tuple[Ints, Ints]]:
    rows = [(one.share, other.share), (one.memory, other.memory)]
    rows += [(one.codecs[n], other.codecs[n]) for n in range(len(one.codecs))]
    return rows + [(one.templates[n], other.templates[n]) for n in range(len(one.templates))]


def _emptied(board: Board, fresh: Board, row: int) -> Board:
    """A copy of the board on which one node is empty."""
    trial = board.copy()
    for its, full in (*_of_devices(trial, fresh), *_of_nodes(trial, fresh)):
        its[row] = full[row]
    _sum(trial, row)
    return trial


def _of_nodes(one: Board, other: Board) -> list[tuple[Ints, Ints]]:
    return [(one.cpu, other.cpu), (one.host, other.host), (one.nic, other.nic), (one.nvme, other.nvme)]


def _sum(board: Board, row: int) -> None:
    board.cpu_sum[row], board.host_sum[row] = board.cpu[row].sum(), board.host[row].sum()
    board.share_sum[row] = np.maximum(board.share[row], 0).sum()
