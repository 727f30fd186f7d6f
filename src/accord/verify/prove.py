"""Failing points of one operator -> a quirk with its region, its evidence and its smallest failure.

In: an oracle over one kind of fault, the points that failed, what is known of the device. Out: `Quirk`.
Invariant: a quirk says of itself how it was tested; what a budget cut short is written in its remarks.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from accord.terms.quirk import Evidence, FaultKind, Point, Quirk
from accord.verify.learn import Learned, learn
from accord.verify.oracle import Oracle
from accord.verify.ports import Description
from accord.verify.quirks import named
from accord.verify.space import Space


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What one failing point shows: how wrong it is, in words, and a script that shows it again."""

    worst: str
    probes: tuple[str, ...]
    reproducer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What a quirk says besides its region. `look` examines the smallest failing point once more."""

    device: Description
    fault: FaultKind
    witnesses: tuple[str, ...]
    today: str  # YYYY-MM-DD
    look: Callable[[Point], Sight]


def prove(oracle: Oracle, failing: Sequence[Point], space: Space, about: About, *, rng: random.Random) -> Quirk:
    """Learns the region and writes the quirk down."""
    learned = learn(oracle, failing, space, rng=rng)
    seen = about.look(learned.smallest)
    quirk = Quirk(
        name="",
        device=about.device.name,
        operator=space.operator,
        fault=about.fault,
        region=learned.region,
        evidence=Evidence(
            points=learned.points,
            failing=learned.failing,
            fresh=learned.fresh,
            missed=learned.missed,
            over_cover=round(learned.over_cover, 4),
            worst=seen.worst,
            probes=seen.probes,
            witnesses=about.witnesses,
        ),
        reproducer=seen.reproducer,
        found=about.today,
        smallest=learned.smallest,
        versions=about.device.versions,
        remarks=_remarks(learned, about.device),
    )
    return named(quirk, ())


def _remarks(learned: Learned, device: Description) -> tuple[str, ...]:
    told = []
    if not learned.complete:
        told.append(f"the budget ended after {learned.asked} questions: sweep again with more to trust the region")
    if device.features:
        told.append(f"seen on a processor with {', '.join(device.features)}")
    return tuple(told)
