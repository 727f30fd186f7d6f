"""Labelled points -> the plainest region that covers every failing one and few right ones.

In: points of one operator, and which of them fail. Out: `Region`. Invariant: no failing point lies outside; bounds
stand where the points allow, at a round number if there is one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from accord.terms.quirk import Atom, Is, Modulo, Point, Range, Region
from accord.verify.atoms import Candidate, candidates
from accord.verify.features import Column, Mask, Numbers, Table, tabulate
from accord.verify.space import Space

_PRICE = 0.35  # of a right point inside, in the cost of a plain condition
_CASE_COST = 1.5
_CASES_MAX = 6
_ATOMS_MAX = 6
_BEAM = 8
_SHORTLIST = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """One case: the failing points it was made for, its conditions, and its price with the right points inside."""

    inside: Numbers
    chosen: tuple[Candidate, ...]
    price: float
    false: Mask


def fit(points: Sequence[Point], fails: Sequence[bool], space: Space, *, before: Region | None = None) -> Region:
    """The region. Without a failing point it has no case. `before`: cases to start from, which saves time."""
    table = tabulate(points, fails, space)
    failing, right = np.flatnonzero(table.fails), np.flatnonzero(~table.fails)
    if not len(failing):
        return Region(cases=())
    cases = _split(
        table, [_cover(table, part, right) for part in _parts(table, failing, before.cases if before else ())], right
    )
    loosened = [_loosened(table, case, right) for case in _needed(table, cases, right)]
    return Region(
        cases=tuple(tuple(sorted((_pinned(atom, space) for atom in atoms), key=_place)) for atoms in loosened)
    )


def _parts(table: Table, failing: Numbers, before: Sequence[tuple[Atom, ...]]) -> Iterator[Numbers]:
    """The failing points by the first case that holds them, and the rest."""
    left = np.ones(len(failing), dtype=np.bool_)
    for case in before:
        inside = np.all([holds(table, atom)[failing] for atom in case], axis=0) if case else left
        if (mine := inside & left).any():
            yield failing[mine]
        left = left & ~inside
    if left.any():
        yield failing[left]


def _cover(table: Table, inside: Numbers, right: Numbers, *, quick: bool = False) -> _Case:
    """The best conjunction for these failing points, by beam search over sets of conditions."""
    found = candidates(table, inside, right, remainders=not quick)
    nothing = _Case(inside=inside, chosen=(), price=_PRICE * len(right), false=np.ones(len(right), dtype=np.bool_))
    if not found:
        return nothing
    excludes = np.array([candidate.excludes for candidate in found], dtype=np.float32)
    costs = np.array([candidate.cost for candidate in found])
    best, beam = nothing, [nothing]
    for _ in range(_ATOMS_MAX):
        beam = _extended(beam, found, excludes, costs, width=2 if quick else _BEAM)
        if not beam or beam[0].price >= best.price - 1e-9:
            break
        best = beam[0]
    return best


def _extended(
    beam: list[_Case], found: list[Candidate], excludes: np.ndarray, costs: np.ndarray, *, width: int
) -> list[_Case]:
    made: list[tuple[float, _Case, int]] = []
    for case in beam:
        left = case.false.sum() - excludes @ case.false.astype(np.float32)
        paid = sum(candidate.cost for candidate in case.chosen)
        prices = paid + costs + _PRICE * left
        made += [(float(prices[number]), case, int(number)) for number in np.argsort(prices)[:width]]
    grown: dict[bytes, _Case] = {}
    for price, case, number in sorted(made, key=lambda one: one[0]):
        false = case.false & ~found[number].excludes
        key = false.tobytes()
        if key not in grown and found[number] not in case.chosen:
            grown[key] = _Case(inside=case.inside, chosen=(*case.chosen, found[number]), price=price, false=false)
    return list(grown.values())[:width]


def _split(table: Table, cases: list[_Case], right: Numbers) -> list[_Case]:
    """Parts a case in two as long as that pays."""
    done: list[_Case] = []
    open_cases = list(cases)
    while open_cases:
        case = open_cases.pop()
        parts = None
        if len(done) + len(open_cases) + 2 <= _CASES_MAX and _PRICE * case.false.sum() > _CASE_COST:
            parts = _parted(table, case, right)
        if parts is None:
            done.append(case)
        else:
            open_cases += parts
    return done


def _parted(table: Table, case: _Case, right: Numbers) -> tuple[_Case, _Case] | None:
    ways: dict[bytes, Mask] = {}
    for mask in _ways(table, case, right):
        if 0 < mask.sum() < len(mask):
            ways.setdefault((mask if mask[0] else ~mask).tobytes(), mask)
    rough = [
        (sum(_cover(table, part, right, quick=True).price for part in _both(case, mask)), mask)
        for mask in ways.values()
    ]
    best = None
    for _, mask in sorted(rough, key=lambda one: one[0])[:_SHORTLIST]:
        one, other = (_cover(table, part, right) for part in _both(case, mask))
        if best is None or one.price + other.price < best[0].price + best[1].price:
            best = (one, other)
    return best if best and best[0].price + best[1].price + _CASE_COST < case.price else None


def _both(case: _Case, mask: Mask) -> tuple[Numbers, Numbers]:
    return case.inside[mask], case.inside[~mask]


def _ways(table: Table, case: _Case, right: Numbers) -> Iterator[Mask]:
    """Ways to part the failing points of a case, where right ones lie between."""
    inside, false = case.inside, right[case.false]
    for words in table.words:
        yield from (words.codes[inside] == code for code in np.unique(words.codes[inside]))
    for column in table.columns:
        yield from _gaps(column.values[inside], column.values[false])
        if len(column.factors) == 1:
            seen, counts = np.unique(column.values[inside], return_counts=True)
            yield from (column.values[inside] == value for value in seen[np.argsort(-counts)[:4]])
    for divided in table.divided:
        if len(divided.factors) == 1 and divided.modulus in (2, 4, 8, 16, 32, 64, 128):
            yield divided.values[inside] == 0


def _gaps(covered: Numbers, false: Numbers) -> Iterator[Mask]:
    """Thresholds between two failing values that have the most right ones between them."""
    seen = np.unique(covered)
    if len(seen) < 2:
        return
    slots = np.searchsorted(seen, false)
    counts = np.bincount(slots[(slots > 0) & (slots < len(seen))], minlength=len(seen))
    for slot in np.argsort(-counts)[:4]:
        if counts[slot]:
            yield covered >= seen[slot]


def _needed(table: Table, cases: list[_Case], right: Numbers) -> list[_Case]:
    """Without the cases whose points others cover anyway; those left are made again for the points that are theirs."""
    held = [_holds_all(table, case) for case in cases]
    kept = list(range(len(cases)))
    for number in sorted(kept, key=lambda one: len(cases[one].inside)):
        others = [held[other] for other in kept if other != number]
        lone = (
            cases[number].inside[~np.any([mask[cases[number].inside] for mask in others], axis=0)] if others else None
        )
        if lone is None:
            continue
        if not len(lone):
            kept.remove(number)
        elif len(lone) < len(cases[number].inside):
            again = _cover(table, lone, right)
            if again.price < cases[number].price:
                cases[number], held[number] = again, _holds_all(table, again)
    return [cases[number] for number in kept]


def _holds_all(table: Table, case: _Case) -> Mask:
    inside = np.ones(len(table.fails), dtype=np.bool_)
    for candidate in case.chosen:
        inside &= holds(table, candidate.atom)
    return inside


def holds(table: Table, atom: Atom) -> Mask:
    """At which points of the table a condition holds."""
    match atom:
        case Is():
            words = next(words for words in table.words if words.trait == atom.trait)
            return np.array([word in atom.words for word in words.words], dtype=np.bool_)[words.codes]
        case Modulo():
            allowed = np.zeros(atom.modulus, dtype=np.bool_)
            allowed[list(atom.remainders)] = True
            return np.asarray(allowed[_column(table, atom.factors).values % atom.modulus])
        case Range():
            values = _column(table, atom.factors).values
            low = atom.low is None or values >= atom.low
            high = atom.high is None or values <= atom.high
            return np.ones(len(values), dtype=np.bool_) & low & high


def _column(table: Table, factors: tuple[str, ...]) -> Column:
    return next(column for column in table.columns if column.factors == factors)


def _loosened(table: Table, case: _Case, right: Numbers) -> tuple[Atom, ...]:
    """The conditions with each bound as loose as the right points allow that only this bound shuts out."""
    atoms = [candidate.atom for candidate in case.chosen]
    for number, atom in enumerate(atoms):
        if isinstance(atom, Range):
            critical = right[critical_of(table, atoms, number)[right]]
            atoms[number] = _loose(atom, _column(table, atom.factors).values[critical])
    return tuple(_merged(atoms))


def critical_of(table: Table, atoms: Sequence[Atom], number: int) -> Mask:
    """The points at which all the other conditions hold."""
    others = [holds(table, other) for place, other in enumerate(atoms) if place != number]
    return np.all(others, axis=0) if others else np.ones(len(table.fails), dtype=np.bool_)


def _loose(atom: Range, critical: Numbers) -> Range:
    low, high = atom.low, atom.high
    if low is not None:
        below = critical[critical < low]
        low = _round_within(int(below.max()) + 1, low, ends=1) if len(below) else None
    if high is not None:
        above = critical[critical > high]
        high = _round_within(high, int(above.min()) - 1, ends=0) if len(above) else None
    return Range(factors=atom.factors, low=low, high=high)


def _round_within(first: int, last: int, *, ends: int) -> int:
    """A bound between these two, both possible: next to a power of two if one is there, else the looser."""
    power = 1 << max(last - ends, 1).bit_length() - 1
    for bound in (power + ends, power + ends - 1, power):
        if first <= bound <= last:
            return bound
    return first if ends else last


def _merged(atoms: list[Atom]) -> Iterator[Atom]:
    """Two bounds of one product as one condition, in the order in which they were first named."""
    ranges: dict[tuple[str, ...], Range] = {}
    for atom in atoms:
        if isinstance(atom, Range):
            before = ranges.get(atom.factors, Range(factors=atom.factors))
            low = atom.low if before.low is None else before.low
            high = atom.high if before.high is None else before.high
            ranges[atom.factors] = Range(factors=atom.factors, low=low, high=high)
    for atom in atoms:
        if not isinstance(atom, Range):
            yield atom
        elif (found := ranges.pop(atom.factors, None)) is not None and (found.low, found.high) != (None, None):
            yield found


def _pinned(atom: Atom, space: Space) -> Atom:
    """A bound of one side, moved to numbers that it can have; `M == 1`, not `M < 2`, where only one is left."""
    for axis in space.axes:
        if isinstance(atom, Range) and atom.factors == (axis.name,):
            low, high = axis.low if atom.low is None else atom.low, axis.high if atom.high is None else atom.high
            if axis.values:
                inside = [value for value in axis.values if low <= value <= high] or [low, high]
                low, high = min(inside), max(inside)
            if low == high:
                return Range(factors=atom.factors, low=low, high=high)
            return Range(factors=atom.factors, low=atom.low and low, high=atom.high and high)
    return atom


def _place(atom: Atom) -> tuple[int, tuple[str, ...]]:
    """Where a condition stands in a sentence: words, sides, remainders, products."""
    match atom:
        case Is():
            return 0, (atom.trait,)
        case Modulo():
            return 2, atom.factors
        case Range():
            return (1 if len(atom.factors) == 1 else 3), atom.factors
