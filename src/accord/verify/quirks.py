"""Quirks over time: new ones join those known, versions make them old, and a test says whether they still hold.

In: quirks, installed versions, an oracle. Out: quirks, and what stands of each. Invariant: joining never forgets a
fault that the newer sweep didn't reach; a quirk is called gone only after points inside it were asked and all passed.
"""

import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from accord.terms.quirk import Point, Quirk, Version
from accord.verify.oracle import Oracle
from accord.verify.sample import draw, wishes
from accord.verify.space import Space


class Standing(StrEnum):
    """What a quirk is worth with the versions that are installed."""

    CURRENT = "current"
    EXPIRED = "expired"  # a version is installed that is known to be right
    UNTESTED = "untested"  # found with another version; nobody knows of this one


@dataclass(frozen=True, slots=True, kw_only=True)
class Retest:
    """Points inside the quirk's region that were asked again, and how many still fail."""

    asked: int
    failing: int

    @property
    def gone(self) -> bool:
        """Whether points were asked and none fails any more."""
        return self.asked > 0 and self.failing == 0


def named(quirk: Quirk, taken: Iterable[str]) -> Quirk:
    """The quirk with a name made of device, operator and fault that isn't taken."""
    stem = re.sub(r"[^a-z0-9]+", "-", f"{quirk.device} {quirk.operator} {quirk.fault.value}".lower()).strip("-")
    names, number, name = set(taken), 1, stem
    while name in names:
        number += 1
        name = f"{stem}-{number}"
    return replace(quirk, name=name)


def merge(known: Sequence[Quirk], found: Sequence[Quirk]) -> tuple[Quirk, ...]:
    """All faults, each once: a newer quirk takes the place of the one whose smallest failure it covers."""
    kept = list(known)
    for quirk in found:
        places = [place for place, old in enumerate(kept) if _replaces(quirk, old)]
        if not places:
            kept.append(named(quirk, (old.name for old in kept)))
            continue
        old = kept[places[0]]
        ways = quirk.workarounds or (old.workarounds if old.region == quirk.region else ())
        remarks = tuple(dict.fromkeys((*old.remarks, *quirk.remarks)))
        kept[places[0]] = replace(quirk, name=old.name, workarounds=ways, remarks=remarks)
        for place in reversed(places[1:]):
            del kept[place]
    return tuple(kept)


def standing(quirk: Quirk, installed: Iterable[Version]) -> Standing:
    """What the quirk is worth here. A library that isn't installed says nothing against it."""
    here = {version.library: version.version for version in installed}
    seen = [version for version in quirk.versions if version.library in here]
    if any(version.fixed_in and _order(here[version.library]) >= _order(version.fixed_in) for version in seen):
        return Standing.EXPIRED
    if any(_order(here[version.library]) != _order(version.version) for version in seen):
        return Standing.UNTESTED
    return Standing.CURRENT


def retest(quirk: Quirk, oracle: Oracle, space: Space, *, rng: random.Random, each: int = 25) -> Retest:
    """Asks the smallest failure and `each` points of every case again. Undecided points don't count."""
    seeds = (quirk.smallest,) if quirk.smallest else ()
    drawn = [draw(space, wishes(case), seeds, rng) for case in quirk.region.cases for _ in range(each)]
    points: list[Point] = [point for point in dict.fromkeys((*seeds, *drawn)) if point is not None]
    answers = [answer for answer in map(oracle.ask, points) if answer is not None]
    return Retest(asked=len(answers), failing=sum(answers))


def retested(quirk: Quirk, result: Retest, installed: Iterable[Version], *, today: str) -> Quirk:
    """The quirk after a test: dated anew with these versions if it still holds, else fixed in those that changed."""
    here = {version.library: version.version for version in installed}
    if not result.asked:
        return quirk
    if not result.gone:
        versions = tuple(replace(seen, version=here.get(seen.library, seen.version)) for seen in quirk.versions)
        return replace(quirk, versions=versions, found=today)
    changed = [_order(here.get(seen.library, seen.version)) > _order(seen.version) for seen in quirk.versions]
    versions = tuple(
        replace(seen, fixed_in=here[seen.library]) if new else seen
        for seen, new in zip(quirk.versions, changed, strict=True)
    )
    told = f"{today}: {result.asked} points inside were asked again, and all were right"
    return replace(quirk, versions=versions, remarks=(*quirk.remarks, told))


def _replaces(new: Quirk, old: Quirk) -> bool:
    if (new.device, new.operator, new.fault) != (old.device, old.operator, old.fault):
        return False
    if {seen.library: seen.version for seen in new.versions} != {seen.library: seen.version for seen in old.versions}:
        return False
    return new.region == old.region or (old.smallest is not None and new.region.holds(old.smallest))


def _order(version: str) -> tuple[int, ...]:
    """What versions are compared by: the numbers before the first letter, as in 2.13.0 of 2.13.0+cpu."""
    leading = re.match(r"v?(\d+(?:\.\d+)*)", version)
    numbers = [int(part) for part in leading[1].split(".")] if leading else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
