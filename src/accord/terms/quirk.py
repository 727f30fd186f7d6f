"""A quirk: where a device computes wrong numbers, said so that people and programs can both use it.

In: nothing. Out: `Quirk`, `Region` and their parts, `Point`. Invariant: a region is data; whether a point lies in it
is a pure function of the point (`Region.holds`), and a feature that a point lacks is in no atom's range.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class FaultKind(StrEnum):
    """What is wrong."""

    WRONG = "wrong values"
    LEAK = "poison leaks"  # NaN or Inf of rows that must not matter
    UNSTABLE = "not repeatable"
    STATE = "depends on state"  # the first call differs from later ones, or a cold cache from a warm one
    CRASH = "crash"
    HANG = "hang"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One number of a point: a side (`M`), a stride, an alignment, bytes of an item."""

    name: str
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trait:
    """One word of a point: `dtype` bf16, `overload` out, `layout` transposed, `data` nan, `mode` eager."""

    name: str
    word: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One call of one operator, as far as a region may speak of it."""

    operator: str
    facts: tuple[Fact, ...]
    traits: tuple[Trait, ...] = ()

    def fact(self, name: str) -> int | None:
        """The number of this name; None if the point has none."""
        return next((fact.value for fact in self.facts if fact.name == name), None)

    def trait(self, name: str) -> str | None:
        """The word of this name; None if the point has none."""
        return next((trait.word for trait in self.traits if trait.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The product of some facts (`M*N*K`) is at least `low` and at most `high`; None: no bound."""

    factors: tuple[str, ...]
    low: int | None = None
    high: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Modulo:
    """The product of some facts leaves one of these `remainders` when divided by `modulus`."""

    factors: tuple[str, ...]
    modulus: int
    remainders: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Is:
    """A trait is one of these words."""

    trait: str
    words: tuple[str, ...]


Atom = Range | Modulo | Is


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """Points for which, in at least one of `cases`, all atoms hold. A case without atoms holds everywhere."""

    cases: tuple[tuple[Atom, ...], ...]

    def holds(self, point: Point) -> bool:
        """Whether the point lies inside."""
        facts = {fact.name: fact.value for fact in point.facts}
        words = {trait.name: trait.word for trait in point.traits}
        return any(all(_holds(atom, facts, words) for atom in case) for case in self.cases)


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A library as it was when the fault was seen. `fixed_in`: the first version that is known to be right."""

    library: str
    version: str
    fixed_in: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the verdict stands on. `over_cover`: part of fresh points inside the region that were right, 0 to 1.

    `missed` counts fresh failing points outside it (0, or the quirk isn't written). `witnesses` are the independent
    library families that agreed with each other against the device.
    """

    points: int
    failing: int
    fresh: int
    missed: int
    over_cover: float
    worst: str
    probes: tuple[str, ...]
    witnesses: tuple[str, ...]


class Way(StrEnum):
    """Kinds of workarounds."""

    PAD = "pad"
    SPLIT = "split"
    UPCAST = "upcast"
    CONTIGUOUS = "contiguous"
    OVERLOAD = "overload"
    ALGORITHM = "algorithm"
    BACKEND = "backend"
    REPEAT = "repeat"  # a warm-up call first
    CPU = "cpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workaround:
    """A way round that was verified on points of `region` (a class of shapes inside the quirk's).

    `detail` is the way's own figure, such as "K to 32". `cost_ratio`: its time over the native call's.
    """

    way: Way
    detail: str
    region: Region
    cost_ratio: float
    verified: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Quirk:
    """One fault of one kind of device (`device` is a name of the catalog or of a device port) in one operator.

    `smallest`: the smallest call that failed; None if nobody shrank it.
    """

    name: str
    device: str
    operator: str
    fault: FaultKind
    region: Region
    evidence: Evidence
    reproducer: str
    found: str  # a date, YYYY-MM-DD
    smallest: Point | None = None
    versions: tuple[Version, ...] = ()
    workarounds: tuple[Workaround, ...] = ()
    remarks: tuple[str, ...] = ()


def _holds(atom: Atom, facts: Mapping[str, int], words: Mapping[str, str]) -> bool:
    match atom:
        case Range():
            value = _product(atom.factors, facts)
            return value is not None and _within(value, atom)
        case Modulo():
            value = _product(atom.factors, facts)
            return value is not None and value % atom.modulus in atom.remainders
        case Is():
            return words.get(atom.trait) in atom.words


def _within(value: int, atom: Range) -> bool:
    return (atom.low is None or atom.low <= value) and (atom.high is None or value <= atom.high)


def _product(factors: tuple[str, ...], facts: Mapping[str, int]) -> int | None:
    values = [facts.get(factor) for factor in factors]
    return None if None in values else math.prod(value for value in values if value is not None)
