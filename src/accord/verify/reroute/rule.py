"""A region as a condition in a program's text: Python for the dispatcher's hooks, C++ for the compiled ones.

In: a region, and what a hook can see of a call. Out: text. Invariant: the text holds nothing of a quirk but integers
and texts of our own tables; what a hook can't see is taken to be as the fault needs it.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from accord.terms.quirk import Atom, Is, Modulo, Range, Region

TRUE, FALSE = "True", "False"


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """How a program joins conditions, and what it calls true and false."""

    both: str
    either: str
    true: str
    false: str


PYTHON = Language(both=" and ", either=" or ", true="True", false="False")
CPP = Language(both=" && ", either=" || ", true="true", false="false")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What a hook sees: facts as expressions, words of traits as conditions. Both languages can read them all."""

    facts: Mapping[str, str]
    words: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One of an operator's `count` arguments, at `position`; a tensor, or else an integer."""

    name: str
    position: int
    count: int
    tensor: bool


def condition(region: Region, sight: Sight, language: Language = PYTHON) -> str:
    """Whether a call lies in the region, as an expression of this language."""
    cases = [_all((_atom(atom, sight, language) for atom in ordered(case)), language) for case in region.cases]
    if language.true in cases:
        return language.true
    left = list(dict.fromkeys(case for case in cases if case != language.false))
    return left[0] if len(left) == 1 else language.either.join(f"({case})" for case in left) or language.false


def ordered(case: Iterable[Atom]) -> list[Atom]:
    """Words first: a dtype is the cheapest thing to look at, and turns most calls away."""
    return sorted(case, key=lambda atom: (not isinstance(atom, Is), isinstance(atom, Range) and len(atom.factors) > 1))


def unseen(region: Region, sight: Sight) -> tuple[str, ...]:
    """Facts and traits of the region that a hook can't see."""
    names: dict[str, None] = {}
    for atom in (atom for case in region.cases for atom in case):
        match atom:
            case Is():
                missing: tuple[str, ...] = () if atom.trait in sight.words else (atom.trait,)
            case Range() | Modulo():
                missing = tuple(name for name in atom.factors if name not in sight.facts)
        names.update(dict.fromkeys(missing))
    return tuple(names)


def with_shapes(text: str) -> tuple[tuple[str, ...], str]:
    """Python only: each `x.size(i)` becomes `x_shape[i]`, since one read of a shape is cheaper than several of sides.

    Returns the names whose shapes are wanted, and the text.
    """
    names = tuple(dict.fromkeys(re.findall(r"\b(\w+)\.size\(-?\d+\)", text)))
    return names, re.sub(r"\b(\w+)\.size\((-?\d+)\)", r"\1_shape[\2]", text)


def _all(conditions: Iterable[str], language: Language) -> str:
    kept = [item for item in conditions if item != language.true]
    return language.false if language.false in kept else language.both.join(kept) or language.true


def _atom(atom: Atom, sight: Sight, language: Language) -> str:
    match atom:
        case Is():
            return _is(atom, sight, language)
        case Range() | Modulo():
            if any(name not in sight.facts for name in atom.factors):
                return language.true
            texts = [sight.facts[name] for name in atom.factors]
            value = " * ".join(f"({text})" if " " in text else text for text in texts)
            return _range(atom, value, language) if isinstance(atom, Range) else _modulo(atom, value, language)


def _is(atom: Is, sight: Sight, language: Language) -> str:
    known = sight.words.get(atom.trait)
    if known is None:
        return language.true
    found = [known[word] for word in atom.words if word in known]
    if TRUE in found:
        return language.true
    found = [item for item in found if item != FALSE]
    return f"({language.either.join(found)})" if found else language.false


def _range(atom: Range, value: str, language: Language) -> str:
    bounds = []
    if atom.low is not None:
        bounds.append(f"{value} >= {int(atom.low)}")
    if atom.high is not None:
        bounds.append(f"{value} <= {int(atom.high)}")
    return language.both.join(bounds) or language.true


def _modulo(atom: Modulo, value: str, language: Language) -> str:
    """A set of remainders, or of those that are missing where they are fewer."""
    modulus = int(atom.modulus)
    wanted = {int(item) for item in atom.remainders} & set(range(modulus))
    others = set(range(modulus)) - wanted
    if not others:
        return language.true
    if not wanted:
        return language.false
    text = f"{value} % {modulus}" if " " not in value else f"({value}) % {modulus}"
    if len(others) < len(wanted):
        return language.both.join(f"{text} != {item}" for item in sorted(others))
    return f"({language.either.join(f'{text} == {item}' for item in sorted(wanted))})"
