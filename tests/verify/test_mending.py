"""Quirks get their workarounds: planted faults on devices of two kinds, from the quirk alone."""

import random
import time
from dataclasses import replace

import pytest

from accord.terms.quirk import FaultKind, Range, Way
from accord.verify.devices.with_numpy import NumpyDevice
from accord.verify.devices.with_torch import TorchDevice
from accord.verify.mending import Effort, mended
from accord.verify.operators.table import operators
from accord.verify.ports import Answer, Call, FakeDevice, Outcome, State
from accord.verify.tensor import of_bits
from accord.verify.trial import Bench
from tests.verify.judged import call_of, judged, point_of
from tests.verify.planted import planted, quirk, r1

# Points are drawn from the whole region; a small one keeps tests short.
SMALL = (Range(factors=("N",), low=3, high=64), Range(factors=("rows",), high=64))


def _effort(seconds_max: float = 60.0) -> Effort:
    return Effort(seconds_max=seconds_max, rng=random.Random(3), now_s=time.monotonic)


@pytest.mark.slow
def test_r1_planted_in_pytorch_is_mended_from_its_quirk():
    """The cures that are public, padding K and fp32, are among what is found; nothing else that is offered is wrong."""
    faulty = r1("mm")
    seeds = [point_of("mm", {"dtype": "bf16"}, M=17, K=33, N=64)]
    bench = Bench(device=TorchDevice("cpu"), judge=judged, build=call_of)
    with planted("mm", "mm.out", "addmm", "bmm"):
        made = mended(faulty, seeds, operators()["mm"], bench, effort=_effort())
        assert made.workarounds
        for way in made.workarounds:
            assert (way.way, way.detail.partition(" ")[0]) in {
                (Way.PAD, "K"), (Way.UPCAST, "f32"), (Way.UPCAST, "f64"), (Way.SPLIT, "M"), (Way.SPLIT, "N"),
                (Way.ALGORITHM, "oneDNN"),
            }  # fmt: skip
            assert way.verified >= 2


def _clumsy(wrong, spoil) -> FakeDevice:
    healthy = NumpyDevice()

    def compute(call: Call) -> Outcome:
        outcome = healthy.run(call)
        if not isinstance(outcome, Answer) or not wrong(call):
            return outcome
        runs = []
        for run in outcome.runs:
            bits = run[0].bits().copy()
            spoil(bits)
            runs.append((of_bits(bits, run[0].dtype), *run[1:]))
        return Answer(runs=tuple(runs))

    return FakeDevice(compute)


def test_a_wide_head_is_cut():
    """vLLM-Kunlun#387: a linear layer with M=1 and a very wide N is wrong; chunking N cures it."""
    device = _clumsy(lambda call: call.operands[1].shape[0] > 4096, lambda bits: bits.__setitem__((0, 0), 3))
    faulty = quirk("linear", Range(factors=("N",), low=4097, high=5000), Range(factors=("M", "K"), high=64))
    seeds = [point_of("linear", M=1, K=8, N=4097)]
    made = mended(
        faulty, seeds, operators()["linear"], Bench(device=device, judge=judged, build=call_of), effort=_effort()
    )
    assert {(way.way, way.detail) for way in made.workarounds} == {(Way.SPLIT, "N by 4096")}


def test_what_nothing_cures_is_said():
    device = _clumsy(lambda _: True, lambda bits: bits.fill(1))
    faulty = quirk("softmax", *SMALL)
    bench = Bench(device=device, judge=judged, build=call_of)
    made = mended(faulty, [point_of("softmax", rows=2, N=5)], operators()["softmax"], bench, effort=_effort())
    assert made.workarounds == ()
    assert "ways round it was right; avoid the device" in made.remarks[-1]


def test_another_device_is_a_way_where_there_is_one():
    device = _clumsy(lambda _: True, lambda bits: bits.fill(1))
    bench = Bench(device=device, judge=judged, build=call_of, cpu=NumpyDevice())
    faulty = quirk("softmax", *SMALL)
    made = mended(faulty, [point_of("softmax", rows=2, N=5)], operators()["softmax"], bench, effort=_effort())
    assert {way.way for way in made.workarounds} == {Way.CPU}


def test_a_cold_fault_is_cured_by_a_warm_up_alone():
    """FlagGems#6420: a cold tuning cache gives wrong results; whatever else is tried on a warm one looks right."""
    healthy = NumpyDevice()

    def compute(call: Call) -> Outcome:
        outcome = healthy.run(call)
        if not isinstance(outcome, Answer) or call.state is State.WARM:
            return outcome
        first = of_bits(0 * outcome.runs[0][0].bits(), outcome.runs[0][0].dtype)
        return Answer(runs=((first,), *outcome.runs[1:]))

    faulty = replace(quirk("softmax", *SMALL), fault=FaultKind.STATE)
    bench = Bench(device=FakeDevice(compute), judge=judged, build=call_of)
    made = mended(faulty, [point_of("softmax", rows=2, N=5)], operators()["softmax"], bench, effort=_effort())
    assert {way.way for way in made.workarounds} == {Way.REPEAT}
