"""Ways tried on real devices: behind the port for any of them, through the reroute itself for PyTorch in this process.

In: a device, what judges a point on a device, how a point is called. Out: `Trial`s, a `Kit`. Invariant: both judge with
the very probes that found the fault; for PyTorch what is timed is what runs later.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from accord.terms.errors import AccordError
from accord.terms.quirk import Point, Quirk, Region, Way, Workaround
from accord.verify.attempts import Attempt, Kit
from accord.verify.call_sides import side_names
from accord.verify.mended import ColdDevice, MendedDevice, detour
from accord.verify.ports import Answer, Call, Description, Device

Judge = Callable[[Device, Point], bool | None]  # whether the device is right; None where nobody can tell
Build = Callable[[Point], Call | None]

_REPEATS = 16
_ROUNDS = 3
_ONE_DNN = "oneDNN off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What a trial stands on. `cpu`: where Way.CPU leads, if the device isn't one."""

    device: Device
    judge: Judge
    build: Build
    cpu: Device | None = None


def kit(operator: str, about: Description, *, overloads: Sequence[str] = (), cpu: bool = False) -> Kit:
    """What can be tried behind the port."""
    return Kit(
        pads=side_names(operator, pads=True),
        splits=side_names(operator, pads=False),
        overloads=tuple(overloads),
        backends=about.modes,
        cpu=cpu,
    )


def torch_kit(operator: str, about: Description) -> Kit:
    """What can be tried through the reroute: other operators of PyTorch, too."""
    base = kit(operator, about, cpu=not about.name.startswith("torch:cpu"))
    others = ("bmm", "addmm", "mm", "transposed")
    algorithms = ("math", *((_ONE_DNN,) if about.name.startswith("torch:cpu") else ()))
    return replace(base, overloads=others, algorithms=algorithms, backends=())


class PortTrial:
    """Tries ways behind the port: a way that kills the device's process is wrong, and the search goes on.

    `cold`: each way is judged on a device that remembers nothing; time is taken on a warm one all the same.
    """

    def __init__(self, bench: Bench, *, cold: bool = False) -> None:
        self._bench = bench
        self._cold = cold

    def right(self, point: Point, attempt: Attempt) -> bool | None:
        """Judged with the device behind the way."""
        call = self._bench.build(point)
        if call is None or (attempt.way is not Way.CPU and detour(call, attempt) is None):
            return None
        device = ColdDevice(self._bench.device) if self._cold else self._bench.device
        mended = MendedDevice(device, attempt, cpu=self._bench.cpu)
        return self._bench.judge(mended, point)

    def seconds(self, point: Point, attempt: Attempt | None) -> float | None:
        """The best of a few rounds; the way to the device's process and back is in it, for the native call, too."""
        call = self._bench.build(point)
        if call is None:
            return None
        device = self._bench.device
        if attempt is not None:
            device = MendedDevice(device, attempt, cpu=self._bench.cpu)
        best: float | None = None
        for _ in range(_ROUNDS):
            began_s = time.perf_counter()
            outcome = device.run(call)
            taken_s = time.perf_counter() - began_s
            if not isinstance(outcome, Answer):
                return None
            best = taken_s if best is None else min(best, taken_s)
        return best


# Opens a call's operands on a device of this process, as a function that computes it once.
Prepare = Callable[[Call], Callable[[], object]]


class TorchTrial:
    """Tries ways through `apply` on a device of PyTorch in this process. `torch_device`: its type, such as `cpu`."""

    def __init__(self, bench: Bench, quirk: Quirk, *, torch_device: str, prepare: Prepare) -> None:
        self._bench = bench
        self._quirk = replace(quirk, device="*", region=Region(cases=((),)), versions=())
        self._type = torch_device
        self._prepare = prepare

    def right(self, point: Point, attempt: Attempt) -> bool | None:
        """Judged with the reroute in force."""
        try:
            with self._rerouted(attempt):
                return self._bench.judge(self._bench.device, point)
        except AccordError:
            return None  # this operator has no such way

    def seconds(self, point: Point, attempt: Attempt | None) -> float | None:
        """One call from Python, the reroute's own cost included."""
        call = self._bench.build(point)
        if call is None:
            return None
        try:
            compute = self._prepare(call)
            if attempt is None:
                return _timed(compute)
            with self._rerouted(attempt):
                return _timed(compute)
        except (AccordError, RuntimeError, NotImplementedError):
            return None

    def _rerouted(self, attempt: Attempt) -> AbstractContextManager[object]:
        from accord.verify.reroute.apply import apply

        way = Workaround(way=attempt.way, detail=attempt.detail, region=Region(cases=((),)), cost_ratio=1.0, verified=0)
        return apply([replace(self._quirk, workarounds=(way,))], device=self._type)


def _timed(compute: Callable[[], object]) -> float:
    """Seconds of one call: the best of a few rounds, each as long as needed to be measured."""
    began_s = time.perf_counter()
    compute()
    once_s = time.perf_counter() - began_s
    count = max(1, min(_REPEATS * 64, int(0.002 / max(once_s, 1e-7))))
    best = float("inf")
    for _ in range(_ROUNDS + 2):
        began_s = time.perf_counter()
        for _ in range(count):
            compute()
        best = min(best, (time.perf_counter() - began_s) / count)
    return best
