"""The examiner on a device made of NumPy and one planted habit, with PyTorch and ONNX Runtime as witnesses."""

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from accord.terms.quirk import FaultKind, Point
from accord.verify.devices import open_here
from accord.verify.examine import Examined, Examiner
from accord.verify.findings import Verdict
from accord.verify.operators.table import operators
from accord.verify.ports import Answer, Call, Death, Device, Died, FakeDevice, Outcome, Unsupported
from accord.verify.tensor import Dtype, Floats, decode, encode, of_bits, plain

ROWS = operators()
Bend = Callable[[int, Floats], Floats]


def _point(operator: str = "mm", **sides: int) -> Point:
    space = ROWS[operator].space
    usual = {axis.name: 8 for axis in space.axes} | sides
    point = space.point(usual, {choice.name: choice.words[0] for choice in space.choices})
    assert point is not None
    return point


def _bent(bend: Bend) -> FakeDevice:
    """NumPy's answers, bent: `bend` gets the number of the run, counted over all calls, and its values."""
    honest, count = open_here("numpy"), itertools.count()

    def compute(call: Call) -> Outcome:
        found = honest.run(replace(call, repeat=1))
        if not isinstance(found, Answer):
            return found
        answer = found.runs[0][0]
        runs = [plain(bend(next(count), answer.floats().copy()), answer.dtype) for _ in range(call.repeat)]
        return Answer(runs=tuple((run,) for run in runs))

    return FakeDevice(compute)


def _examined(device: Device, point: Point | None = None) -> Examined:
    witnesses = [open_here("torch:cpu"), open_here("onnxruntime")]
    return Examiner(device, witnesses, ROWS).examine(point or _point())


def _wrong(_: int, values: Floats) -> Floats:
    values[2] = values[3]
    return values


def _leak(_: int, values: Floats) -> Floats:
    bad = ~np.isfinite(values).all(axis=-1)
    values[np.roll(bad, 1)] = np.nan
    return values


def _first(count: int, values: Floats) -> Floats:
    return values + (count % 3 == 0)


def _unsteady(count: int, values: Floats) -> Floats:
    return values + (count % 3 == 1)


def _jitter(count: int, values: Floats) -> Floats:
    return values * (1 + 2.0**-23 * (count % 3 == 1))


@pytest.mark.parametrize(
    ("bend", "kind"),
    [
        (_wrong, FaultKind.WRONG),
        (_leak, FaultKind.LEAK),
        (_first, FaultKind.STATE),
        (_unsteady, FaultKind.UNSTABLE),
        (_jitter, FaultKind.UNSTABLE),
    ],
)
def test_each_habit_is_named(bend: Bend, kind: FaultKind) -> None:
    found = _examined(_bent(bend))
    assert found.verdict is Verdict.FAULT
    assert found.fault(kind) is not None, found
    assert {"numpy", "onnxruntime", "torch:cpu"} >= set(found.witnesses)


def test_a_device_that_dies_twice_is_blamed_and_once_is_not() -> None:
    honest, calls = open_here("numpy"), itertools.count()
    dying = FakeDevice(lambda _: Died(death=Death.CRASH, detail="signal SIGSEGV"))
    assert _examined(dying).fault(FaultKind.CRASH) is not None
    once = FakeDevice(lambda call: Died(death=Death.CRASH, detail="x") if next(calls) == 0 else honest.run(call))
    assert _examined(once).verdict is Verdict.RIGHT


def test_low_precision_is_named_precision() -> None:
    def rounded(_: int, values: Floats) -> Floats:
        return decode(encode(values, Dtype.BF16), Dtype.BF16)

    assert _examined(_bent(rounded)).verdict is Verdict.PRECISION


def test_low_precision_at_some_shapes_alone_is_a_fault() -> None:
    def rounded(_: int, values: Floats) -> Floats:
        return decode(encode(values, Dtype.BF16), Dtype.BF16) if values.shape[0] == 8 else values

    assert _examined(_bent(rounded)).fault(FaultKind.WRONG) is not None


def test_witnesses_that_disagree_leave_it_undecided() -> None:
    liar = FakeDevice(lambda call: Answer(runs=((of_bits(np.zeros((8, 8), "<f4"), call.operands[0].dtype),),)))
    found = Examiner(_bent(_wrong), [open_here("torch:cpu"), liar], ROWS).examine(_point())
    assert found.verdict is Verdict.UNDECIDED
    assert "fake" in found.words


def test_one_library_is_not_enough() -> None:
    lacking = FakeDevice(lambda _: Unsupported(reason="no"))
    found = Examiner(_bent(_wrong), [lacking], ROWS).examine(_point())
    assert found.verdict is Verdict.UNDECIDED


def test_the_reference_is_no_witness_against_its_own_library() -> None:
    device = _bent(_wrong)
    own = FakeDevice(device._compute, families=("numpy", "openblas"))
    assert Examiner(own, [open_here("torch:cpu")], ROWS).examine(_point()).verdict is Verdict.UNDECIDED
    both = [open_here("torch:cpu"), open_here("onnxruntime")]
    assert Examiner(own, both, ROWS).examine(_point()).verdict is Verdict.FAULT


def test_a_point_is_asked_with_the_same_bits_each_time() -> None:
    device = _bent(lambda _, values: values)
    for _ in range(2):
        _examined(device)
    half = len(device.calls) // 2
    for one, two in zip(device.calls[:half], device.calls[half:], strict=True):
        assert [a.bits().tobytes() for a in one.operands] == [b.bits().tobytes() for b in two.operands]
