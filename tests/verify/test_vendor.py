"""The made-up vendor's device: right without faults; wrong just where each planted fault says; all of it found.

The truths are what the planted rows say of themselves; `slow` sweeps the whole device as a person would.
"""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from accord.terms.quirk import FaultKind
from accord.verify.devices import open_here
from accord.verify.examine import Examiner, numbers_of
from accord.verify.findings import Verdict
from accord.verify.operators.row import Fill
from accord.verify.operators.table import operators
from accord.verify.points import usual
from accord.verify.ports import Answer
from tests.verify.vendor import held_out, judged, planted, swept, truth, vex

ROWS = operators()
FAULTS = planted()
DEADLY = (FaultKind.CRASH, FaultKind.HANG)


@pytest.fixture(scope="module")
def all_faults() -> Iterator[Examiner]:
    device = vex("all", call_s=5.0)
    yield Examiner(device, (open_here("numpy"), open_here("torch:cpu"), open_here("onnxruntime")), ROWS)
    device.close()


def test_there_are_twenty_faults_of_many_kinds():
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 20
    assert {fault.kind for fault in FAULTS} == set(FaultKind)
    assert len({fault.operator for fault in FAULTS}) >= 20


# One element was seen to differ in its last bit: how vectors end may depend on where a store begins.
ROUNDED = ("gelu", "gelu_tanh")


def test_without_faults_its_bits_are_the_cpus():
    right, device = open_here("torch:cpu"), vex()
    try:
        compared = 0
        for name, row in ROWS.items():
            eager = (point for point in usual(row) if point.trait("mode") != "compile")
            for point in itertools.islice(eager, 6):
                case = next(made for made in _cases(row, point) if made is not None)
                theirs, ours = device.run(case.call), right.run(case.call)
                assert isinstance(theirs, Answer) == isinstance(ours, Answer), (name, point, theirs)
                if isinstance(theirs, Answer) and isinstance(ours, Answer):
                    for one, two in zip(theirs.runs[0], ours.runs[0], strict=True):
                        if name in ROUNDED:
                            np.testing.assert_allclose(one.floats(), two.floats(), rtol=4e-7, atol=4e-7)
                        else:
                            assert one.bits().tobytes() == two.bits().tobytes(), (name, point)
                    compared += 1
        assert compared > 100
    finally:
        device.close()


def _cases(row, point):
    return (row.build(point, numbers_of(point, fill), fill) for fill in Fill)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_shows_where_its_truth_says(fault, all_faults):
    theirs = [truth(other) for other in FAULTS if other.operator == fault.operator]
    inside, _ = held_out(ROWS[fault.operator], [truth(fault)], count=3, seed=1)
    _, outside = held_out(ROWS[fault.operator], theirs, count=3, seed=1)
    for point in inside[:1] if fault.kind in DEADLY else inside:
        found = all_faults.examine(point)
        if found.verdict is not Verdict.UNSUPPORTED:
            assert fault.kind in [seen.fault for seen in found.seen], (fault.truth, found)
    for point in outside:
        assert all_faults.examine(point).seen == (), point


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_sweep_of_ten_minutes_finds_them_all(tmp_path):
    quirks, said = swept(tmp_path, budget="10m")
    scores = judged(quirks, count=100)
    lost = {score.fault.name: score.missed / max(1, score.inside) for score in scores if not score.found}
    assert not lost, (lost, said[-3000:])
    loose = {score.fault.name: score.over / max(1, score.covered) for score in scores}
    assert sum(part < 0.10 for part in loose.values()) >= 0.8 * len(loose), loose
