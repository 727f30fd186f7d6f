"""From what is known of a replica to what its engine reaches.

In: `Tunings` (basic figures, and effects with the tags they hold for), the tags of a replica. Out: `Tuning` and
`Serving`. Invariant: an effect is a factor on a named figure, and holds where all its tags are; a replica of which
nothing is known gets the basic figures.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TypeVar

from accord.estimate.performance import Tuning
from accord.estimate.steady import Serving
from accord.terms.estimate import Source

Made = TypeVar("Made")

# One factor for all that a kernel costs apart from its work.
KERNELS = ("launch_s", "quantize_s", "layer_s", "experts_s", "scan_s")
TUNED = tuple(item.name for item in fields(Tuning) if item.name not in ("uncertainty", "source"))
SERVED = tuple(item.name for item in fields(Serving))


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """Factors on figures, where all of `tags` hold."""

    tags: frozenset[str]
    factors: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tunings:
    """Figures and effects. `uncertainty` is relative, for engines that were measured; others get that of `Tuning`.

    `kinds` has the tags of device kinds.
    """

    base: Mapping[str, float]
    effects: tuple[Effect, ...]
    engines: frozenset[str]
    kinds: Mapping[str, tuple[str, ...]]
    uncertainty: float


def tuned(tunings: Tunings, tags: frozenset[str]) -> tuple[Tuning, Serving]:
    """The figures of a replica with these tags."""
    found = dict(tunings.base)
    for effect in tunings.effects:
        if effect.tags <= tags:
            for name, factor in effect.factors.items():
                for one in KERNELS if name == "kernels" else (name,):
                    found[one] *= factor
    known = bool(tunings.engines & tags) and any(set(own) & tags for own in tunings.kinds.values())
    tuning = _filled(Tuning, found, TUNED)
    if known:
        tuning = replace(tuning, uncertainty=tunings.uncertainty, source=Source.MODELLED)
    return tuning, _filled(Serving, found, SERVED)


def _filled(make: Callable[..., Made], figures: Mapping[str, float], names: tuple[str, ...]) -> Made:
    return make(**{name: figures[name] for name in names if name in figures})
