"""What goes into a render and what comes out.

In: nothing. Out: `Options`, `Rendered`. Invariant: a wish of the plan is in the text or in `lost`, never neither.
"""

from collections.abc import Callable
from dataclasses import dataclass

from accord.terms.fleet import Fleet
from accord.terms.fleet_plan import FleetPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """One file. `name` is relative, without folders."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """`what` the plan wants and this target can't express, in words, and `why`."""

    what: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """The text for one target, and what it can't express. `notes` say where it gives more than what was asked."""

    files: tuple[File, ...]
    lost: tuple[Lost, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to render.

    `pinned`: node names and device UUIDs stand as Accord placed them; else the cluster decides within the plan's
    relations. `images` holds (pool or engine, image) pairs that replace the usual image, a pool's name before an
    engine's. `replicas_max`: pools may grow to so many replicas by an autoscaler; None: none is written.
    """

    pinned: bool = False
    namespace: str = "default"
    images: tuple[tuple[str, str], ...] = ()
    replicas_max: int | None = None


Render = Callable[[FleetPlan, Fleet | None, Options], Rendered]
