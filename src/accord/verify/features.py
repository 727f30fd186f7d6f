"""Labelled points -> columns of numbers and words that conditions can be made of.

In: points of one operator. Out: `Table`. Invariant: a column stands for facts that every point has; products are exact
as long as they stay below 2^63, and columns that would not are left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from accord.terms.quirk import Point
from accord.verify.space import Space

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

MODULI = (
    *range(2, 17), 18, 20, 24, 28, 30, 32, 36, 40, 48, 56, 60, 64, 72, 80, 96, 100, 112, 120, 128, 144, 160, 192, 224,
    256, 320, 384, 512, 768, 1024, 2048, 4096,
)  # fmt: skip
_BYTES = "itemsize"  # the fact that turns counts of items into counts of bytes
_PRODUCT_MAX = float(1 << 62)
_TRIPLES_MAX = 5  # with more sides than this, products of three would be too many


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """The product of some facts at every point."""

    factors: tuple[str, ...]
    values: Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Divided:
    """What a column (`whole`) leaves when divided by `modulus`."""

    factors: tuple[str, ...]
    modulus: int
    whole: Numbers
    values: Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """A trait at every point: the place of its word in `words`."""

    trait: str
    words: tuple[str, ...]
    codes: Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """All columns, and which points fail."""

    columns: tuple[Column, ...]
    divided: tuple[Divided, ...]
    words: tuple[Words, ...]
    fails: Mask


def tabulate(points: Sequence[Point], fails: Sequence[bool], space: Space) -> Table:
    """The columns of these points. Products are of sides; remainders are of single facts, and of their bytes."""
    names = _common([tuple(fact.name for fact in point.facts) for point in points])
    traits = _common([tuple(trait.name for trait in point.traits) for point in points])
    single = {name: np.array([point.fact(name) for point in points], dtype=np.int64) for name in names}
    sides = tuple(axis.name for axis in space.axes if axis.name in single and not axis.values)
    columns = [made for factors in _products(names, sides) if (made := _column(factors, single)) is not None]
    divisible = [column for column in columns if len(column.factors) == 1 or _BYTES in column.factors]
    return Table(
        columns=tuple(columns),
        divided=tuple(
            Divided(factors=column.factors, modulus=modulus, whole=column.values, values=column.values % modulus)
            for column in divisible
            for modulus in MODULI
            if modulus <= column.values.max()
        ),
        words=tuple(_words(name, points) for name in traits),
        fails=np.array(fails, dtype=np.bool_),
    )


def _words(trait: str, points: Sequence[Point]) -> Words:
    told = [point.trait(trait) or "" for point in points]
    known = tuple(sorted(set(told)))
    places = {word: place for place, word in enumerate(known)}
    return Words(trait=trait, words=known, codes=np.array([places[word] for word in told], dtype=np.int64))


def _products(names: tuple[str, ...], sides: tuple[str, ...]) -> list[tuple[str, ...]]:
    sizes = range(2, (3 if len(sides) <= _TRIPLES_MAX else 2) + 1)
    several = [factors for size in sizes for factors in combinations(sides, size)]
    if len(sides) > max(sizes):
        several.append(sides)
    in_bytes = [(name, _BYTES) for name in names if name != _BYTES] if _BYTES in names else []
    return [(name,) for name in names] + in_bytes + several


def _column(factors: tuple[str, ...], single: dict[str, Numbers]) -> Column | None:
    size = np.prod([single[name].astype(np.float64) for name in factors], axis=0)
    if size.max() >= _PRODUCT_MAX:
        return None
    values = np.prod([single[name] for name in factors], axis=0)
    return None if len(factors) > 1 and (values == values[0]).all() else Column(factors=factors, values=values)


def _common(names: list[tuple[str, ...]]) -> tuple[str, ...]:
    shared = set.intersection(*(set(found) for found in names)) if names else set()
    return tuple(name for name in (names[0] if names else ()) if name in shared)
