"""A quirk as it was proved -> the same quirk with its workarounds.

In: a quirk, points that failed, a bench, the operator's row. Out: `Quirk`. Invariant: faults that end a device's
process, or lie in its memory, are tried behind the port alone; others of PyTorch through the reroute, in this process.
"""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec

from accord.terms.quirk import FaultKind, Point, Quirk, Region
from accord.verify.attempts import Kit, attempts
from accord.verify.mend import Search, Trial, mend
from accord.verify.operators.row import OperatorRow
from accord.verify.ports import Description
from accord.verify.reroute.apply import hookable
from accord.verify.sample import draw, wishes
from accord.verify.trial import Bench, PortTrial, TorchTrial, kit, torch_kit

POINTS = 16  # tried with every way
FRESH = 8  # tried with the way that won a class
_DEADLY = (FaultKind.CRASH, FaultKind.HANG)
_DEAR = (*_DEADLY, FaultKind.STATE)
_SLOW_POINTS = 4  # where each trial costs a process


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How long to search, by which clock, with which dice."""

    seconds_max: float
    rng: random.Random
    now_s: Callable[[], float] = time.monotonic


def mended(quirk: Quirk, failing: Sequence[Point], row: OperatorRow, bench: Bench, *, effort: Effort) -> Quirk:
    """The quirk with workarounds; a remark where none was found."""
    trial, kit = _trial(quirk, row, bench)

    def fails(point: Point) -> bool:
        """A way is proved where the native call is wrong; what costs a process is taken as it is labelled."""
        return quirk.fault in _DEAR or bench.judge(bench.device, point) is False

    def fresh(region: Region) -> list[Point]:
        return [point for point in _drawn(region, failing, row, effort.rng) if fails(point)]

    search = Search(
        attempts=attempts(quirk, kit),
        factors=row.sides,
        fresh=fresh,
        deadline_s=effort.now_s() + effort.seconds_max,
        now_s=effort.now_s,
        deadly=quirk.fault in _DEADLY,
    )
    found = mend(quirk, _chosen(quirk, failing, row, effort.rng, fails=fails), trial, search)
    if not found:
        told = f"none of {len(search.attempts)} ways round it was right; avoid the device for these shapes"
        return replace(quirk, workarounds=(), remarks=(*quirk.remarks, told))
    return replace(quirk, workarounds=found)


def _trial(quirk: Quirk, row: OperatorRow, bench: Bench) -> tuple[Trial, Kit]:
    about = bench.device.describe()
    overloads = next((choice.words for choice in row.space.choices if choice.name == "overload"), ())
    cold = quirk.fault is FaultKind.STATE  # warm, any way would look right
    if cold or quirk.fault in _DEADLY or not _here(about, row.name):
        return PortTrial(bench, cold=cold), kit(row.name, about, overloads=overloads, cpu=bench.cpu is not None)
    from accord.verify.devices.with_torch import TorchDevice

    target = about.name.removeprefix("torch:")
    here = TorchDevice(target)
    own = replace(bench, device=here)
    trial = TorchTrial(own, quirk, torch_device=target.partition(":")[0], prepare=here.prepare)
    return trial, torch_kit(row.name, about)


def _here(about: Description, operator: str) -> bool:
    """Whether this process has the same PyTorch, without settings for all of the process, and can hook the operator."""
    if not about.name.startswith("torch:") or "+" in about.name or find_spec("torch") is None:
        return False
    import torch

    version = torch.__version__.partition("+")[0]
    target = about.name.removeprefix("torch:").partition(":")[0]
    same = any(item.library == "torch" and item.version == version for item in about.versions)
    return same and hookable(operator, target)


def _chosen(
    quirk: Quirk, failing: Sequence[Point], row: OperatorRow, rng: random.Random, *, fails: Callable[[Point], bool]
) -> list[Point]:
    """Failing points of all sizes, and drawn ones where there are few."""
    count = _SLOW_POINTS if quirk.fault in _DEAR else POINTS
    inside = [point for point in dict.fromkeys(failing) if quirk.region.holds(point)]
    if len(inside) < count:
        drawn = _drawn(quirk.region, inside, row, rng, count=count - len(inside))
        inside += [point for point in drawn if fails(point)]
    return inside if len(inside) <= count else rng.sample(inside, count)


def _drawn(
    region: Region, seeds: Sequence[Point], row: OperatorRow, rng: random.Random, *, count: int = FRESH
) -> list[Point]:
    cases = [region.cases[number % len(region.cases)] for number in range(count)] if region.cases else []
    found = (draw(row.space, wishes(case), seeds, rng) for case in cases)
    return list(dict.fromkeys(point for point in found if point is not None and region.holds(point)))
