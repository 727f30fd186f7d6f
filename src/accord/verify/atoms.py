"""Which conditions hold at some failing points, and which right ones each of them shuts out.

In: a table, the failing points that one case shall cover, the right ones. Out: `Candidate`s. Invariant: each holds at
every covered point; an unusual condition costs more, so that the plainest that explains the same wins.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from accord.terms.quirk import Atom, Is, Modulo, Range
from accord.verify.features import Column, Divided, Mask, Numbers, Table, Words

_LISTED_MAX = 3  # remainders that a condition may list
_RUN_MODULUS_MAX = 256
_DISTINCT_MIN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A condition, what it costs to say, and which right points it shuts out."""

    atom: Atom
    cost: float
    excludes: Mask


def candidates(table: Table, inside: Numbers, right: Numbers, *, remainders: bool = True) -> list[Candidate]:
    """The conditions that hold at all points of `inside`; of those that exclude the same, the cheapest."""
    found: dict[bytes, Candidate] = {}
    for candidate in _all(table, inside, right, remainders=remainders):
        if not candidate.excludes.any():
            continue
        key = candidate.excludes.tobytes()
        if key not in found or candidate.cost < found[key].cost:
            found[key] = candidate
    return list(found.values())


def _all(table: Table, inside: Numbers, right: Numbers, *, remainders: bool) -> Iterator[Candidate]:
    for words in table.words:
        yield _words(words, inside, right)
    for column in table.columns:
        yield from _bounds(column, inside, right)
    if remainders and len(inside) > 1:
        for divided in table.divided:
            yield from _remainders(divided, inside, right)


def _words(words: Words, inside: Numbers, right: Numbers) -> Candidate:
    count = len(words.words)
    covered = np.bincount(words.codes[inside], minlength=count) > 0
    excluded = ~covered & (np.bincount(words.codes[right], minlength=count) > 0)
    kept = tuple(word for word, out in zip(words.words, excluded, strict=True) if not out)
    return Candidate(atom=Is(trait=words.trait, words=kept), cost=1.0, excludes=excluded[words.codes[right]])


def _bounds(column: Column, inside: Numbers, right: Numbers) -> Iterator[Candidate]:
    covered, others = column.values[inside], column.values[right]
    low, high = int(covered.min()), int(covered.max())
    cost = 1.0 + 0.4 * (len(column.factors) - 1)
    yield Candidate(atom=Range(factors=column.factors, low=low), cost=cost, excludes=others < low)
    yield Candidate(atom=Range(factors=column.factors, high=high), cost=cost, excludes=others > high)
    both = (others < low) | (others > high)
    dear = 0.3 if low == high and len(covered) > 1 else 0.8
    yield Candidate(atom=Range(factors=column.factors, low=low, high=high), cost=cost + dear, excludes=both)


def _remainders(divided: Divided, inside: Numbers, right: Numbers) -> Iterator[Candidate]:
    modulus = divided.modulus
    if len(np.unique(divided.whole[inside])) < _DISTINCT_MIN:
        return  # equality says it better
    covered = np.bincount(divided.values[inside], minlength=modulus)
    others = np.bincount(divided.values[right], minlength=modulus)
    kept = np.flatnonzero(covered)
    if not others[covered == 0].any():
        return
    odd = 0.0 if modulus & (modulus - 1) == 0 else 0.3
    cost = 1.2 + odd + 0.4 * (len(divided.factors) - 1)
    if len(kept) <= _LISTED_MAX and len(inside) >= 3 * len(kept) + 1:
        yield _kept(divided, kept, right, cost=cost + 0.5 * (len(kept) - 1))
    shut = int(np.argmax(np.where(covered == 0, others, 0)))
    for residue in {0, shut} if covered[0] == 0 and others[0] else {shut}:
        rest = np.delete(np.arange(modulus), residue)
        yield _kept(divided, rest, right, cost=cost + (0.3 if residue else 0.0))
    first, last = int(kept[0]), int(kept[-1])
    if 4 <= modulus <= _RUN_MODULUS_MAX and len(inside) >= 6 and last - first + 1 < modulus:
        yield _kept(divided, np.arange(first, last + 1), right, cost=cost + 0.8)


def _kept(divided: Divided, residues: Numbers, right: Numbers, *, cost: float) -> Candidate:
    atom = Modulo(factors=divided.factors, modulus=divided.modulus, remainders=tuple(map(int, residues)))
    allowed = np.zeros(divided.modulus, dtype=np.bool_)
    allowed[residues] = True
    return Candidate(atom=atom, cost=cost, excludes=~allowed[divided.values[right]])
