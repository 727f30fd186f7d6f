"""The made-up vendor's device for tests: how it is opened, what was planted in it, where learned regions are judged.

In: names of planted faults. Out: a device in a process of its own, its faults, points held out. Invariant: a held-out
point is drawn here from the truth alone, with other randomness than a sweep's, so no learner chose it.
"""

import importlib
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from accord.terms.quirk import Point, Region
from accord.terms.quirk_text import parse_region
from accord.verify.devices.child import ChildDevice
from accord.verify.operators.row import OperatorRow
from accord.verify.points import boundaries

SITE = Path(__file__).parent / "vendor_site"
_DRAWS = 6000


def vex(*faults: str, call_s: float = 10.0) -> ChildDevice:
    """The device with these faults; none: as right as the CPU."""
    return ChildDevice("torch:vex", environment=environment(*faults), call_s=call_s)


def environment(*faults: str) -> Mapping[str, str]:
    """What the plug-in reads."""
    return {"PYTHONPATH": str(SITE), "VEX_FAULTS": ",".join(faults) or "none"}


def planted() -> Sequence[Any]:
    """All rows of the plug-in's table."""
    import torch  # noqa: F401 - first, for a path with the plug-in would have it loaded here, too

    sys.path.insert(0, str(SITE))
    try:
        faults: Sequence[Any] = importlib.import_module("torch_vex.faults").FAULTS
    finally:
        sys.path.remove(str(SITE))
    return faults


def truth(fault: Any) -> Region:
    """Where the fault is."""
    return parse_region(fault.truth)


def held_out(row: OperatorRow, regions: Sequence[Region], *, count: int, seed: int) -> tuple[list[Point], list[Point]]:
    """Up to `count` points inside at least one region, and as many outside all of them."""
    inside: list[Point] = []
    outside: list[Point] = []
    for point in _drawn(row, regions, random.Random(f"held out {seed} {row.name}")):
        kept = inside if any(region.holds(point) for region in regions) else outside
        if len(kept) < count:
            kept.append(point)
        if len(inside) == len(outside) == count:
            break
    return inside, outside


def _drawn(row: OperatorRow, regions: Sequence[Region], rng: random.Random) -> Iterator[Point]:
    """Random points; around those that lie inside, ones that differ in one side; boundaries."""
    yield from boundaries(row, rng)
    for _ in range(_DRAWS):
        point = row.space.random_point(rng)
        if point is None:
            continue
        yield point
        if any(region.holds(point) for region in regions):
            axis = rng.choice(row.space.axes)
            near = axis.nearest((point.fact(axis.name) or axis.low) + rng.choice((-33, -1, 1, 32)))
            if (changed := row.space.changed(point, {axis.name: near})) is not None:
                yield changed
