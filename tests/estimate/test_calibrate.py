"""Calibrations: known devices are found again from their calls, and a step is then as long as its calls together."""

import importlib.util
import math
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.edges.kernel_tables import kernel_calibration
from accord.estimate.calibrate import calibrated, calibration_of, predicted_s, reached
from accord.estimate.performance import Tuning, performance
from accord.terms.calibration import Calibration, Kernel, MathRate, Reached, Sample
from accord.terms.errors import BadInput
from accord.terms.estimate import Source
from accord.terms.fleet import DeviceKind, Figure, Rate, Tag, Vendor
from accord.terms.tensors import Math

SHAPES = [(rows, side) for rows in (1, 8, 64, 512, 4096) for side in (1024, 4096, 8192)]


def device_samples(*, rate, fp8, speed, launch_s, quantize_s, attention, cache, attention_s, noise=0.0, seed=0):
    """Calls of a device that follows the roofline to the letter, with its harder corner (the longer one alone)."""
    told = random.Random(seed)
    samples = []

    def add(kernel, math_, flops, moved, seconds):
        wrong = math.exp(told.gauss(0, noise)) if noise else 1.0
        samples.append(
            Sample(kernel=kernel, math=math_, words="", flops=flops, moved_bytes=moved, seconds=seconds * wrong)
        )

    for rows, side in SHAPES:
        for math_, peak, size in ((Math.BF16, rate, 2), (Math.FP8, fp8, 1)):
            flops, moved = 2.0 * rows * side * side, size * side * side + 4.0 * rows * side
            floor = launch_s + (quantize_s if math_ is Math.FP8 else 0.0)
            add(Kernel.GEMM, math_, flops, moved, floor + max(flops / peak, moved / speed))
    for size in (1 << 24, 1 << 28):
        add(Kernel.COPY, None, 0.0, 2.0 * size, launch_s + 2.0 * size / speed)
    for count in (128, 1024, 8192):
        for kernel, flops, moved in (
            (Kernel.PREFILL, 2e3 * count**2, 8e3 * count),
            (Kernel.DECODE, 4e3 * count, 1e6 * count),
        ):
            add(kernel, None, flops, moved, attention_s + max(flops / attention, moved / cache))
    return samples


KNOWN = {
    "rate": 7e14, "fp8": 1.2e15, "speed": 4e12, "launch_s": 4e-6, "quantize_s": 1e-5, "attention": 4e14,
    "cache": 2.5e12, "attention_s": 1e-5,
}  # fmt: skip


@given(
    st.fixed_dictionaries(
        {
            "rate": st.floats(1e13, 3e15),
            "fp8": st.floats(1e13, 6e15),
            "speed": st.floats(2e11, 1e13),
            "launch_s": st.floats(1e-6, 3e-5),
            "quantize_s": st.floats(1e-6, 6e-5),
            "attention": st.floats(1e13, 1e15),
            "cache": st.floats(1e11, 8e12),
            "attention_s": st.floats(2e-6, 5e-5),
        }
    )
)
@settings(max_examples=12, deadline=None)
def test_a_device_that_follows_the_formulas_is_predicted(figures):
    samples = device_samples(**figures)
    found = reached(samples)
    errors = [abs(predicted_s(sample, found) / sample.seconds - 1) for sample in samples]
    assert float(np.median(errors)) < 0.02
    assert max(errors) < 0.25  # where compute and memory are equally long, a soft corner stands for a sharp one


def test_figures_are_found_again_in_spite_of_noise():
    found = reached(device_samples(**KNOWN, noise=0.08))
    rates = {rate.math: rate.flops_per_s for rate in found.rates}
    assert rates[Math.BF16] == pytest.approx(7e14, rel=0.15)
    assert rates[Math.FP8] == pytest.approx(1.2e15, rel=0.15)
    assert found.bandwidth_bytes_per_s == pytest.approx(4e12, rel=0.15)
    assert found.launch_s == pytest.approx(4e-6, rel=0.25)
    assert found.quantize_s == pytest.approx(1e-5, rel=0.25)
    assert found.cache_bytes_per_s == pytest.approx(2.5e12, rel=0.15)
    assert 0.04 < found.uncertainty < 0.16


def test_one_bad_kernel_does_not_move_the_others():
    samples = device_samples(**KNOWN)
    samples[5] = replace(samples[5], seconds=samples[5].seconds * 20)
    found = reached(samples)
    assert found.bandwidth_bytes_per_s == pytest.approx(4e12, rel=0.05)


def test_all_reduces_tell_links_apart_from_latency():
    """310 GB/s one way, 4 us and 1 us a doubling of the ranks."""
    samples = [
        Sample(
            kernel=Kernel.ALL_REDUCE, words="", flops=0.0, moved_bytes=float(size), ranks=ranks,
            seconds=4e-6 + 1e-6 * math.log2(ranks) + 2 * (ranks - 1) / ranks * size / 310e9,
        )
        for ranks in (2, 4, 8)
        for size in (1 << 10, 1 << 16, 1 << 20, 1 << 24, 1 << 28)
    ]  # fmt: skip
    found = reached(samples)
    assert found.link_bytes_per_s == pytest.approx(310e9, rel=0.02)
    assert found.link_latency_s == pytest.approx(4e-6, rel=0.1)
    assert found.collective_s == pytest.approx(1e-6, rel=0.2)
    assert found.rates == ()
    assert predicted_s(samples[0], found) == pytest.approx(samples[0].seconds, rel=0.05)


def test_nothing_measured_says_nothing():
    assert reached([]) == Reached()
    sample = device_samples(**KNOWN)[0]
    assert predicted_s(sample, Reached()) is None


def kind(**changes):
    def sheet(value):
        return Figure(value=value, tag=Tag.DATASHEET, source="a sheet")

    plain = DeviceKind(
        name="card",
        vendor=Vendor.OTHER,
        memory_bytes=sheet(64 << 30),
        bandwidth_bytes_per_s=sheet(5e12),
        rates=(Rate(math=Math.BF16, flops_per_s=sheet(1e15)), Rate(math=Math.FP8, flops_per_s=sheet(2e15))),
    )
    return replace(plain, **changes)


def calibration(found, **changes):
    plain = Calibration(kind="card", engine=None, machine="m", tool="t", taken="2026-12-01", reached=found, samples=())
    return replace(plain, **changes)


def test_what_was_measured_takes_the_place_of_the_data_sheet():
    found = Reached(
        rates=(MathRate(math=Math.BF16, flops_per_s=7e14),), bandwidth_bytes_per_s=4e12, attention_flops_per_s=3.5e14,
        cache_bytes_per_s=3e12, launch_s=4e-6, attention_s=1e-5, sharpness=3.0, uncertainty=0.1,
    )  # fmt: skip
    told, tuning = calibrated(kind(), Tuning(gemm=0.6, experts=0.45), calibration(found))
    performing = performance(told, tuning, engine="vllm")
    assert performing.rate(Math.BF16) * tuning.gemm == 7e14
    assert performing.memory_bytes_per_s * tuning.memory == 4e12
    assert performing.rate(Math.BF16) * tuning.attention == pytest.approx(3.5e14)
    assert performing.memory_bytes_per_s * tuning.cache == pytest.approx(3e12)
    # What wasn't measured keeps its relation: FP8 reaches 0.6 of its peak, experts three quarters of a plain multiply.
    assert performing.rate(Math.FP8) * tuning.gemm == pytest.approx(1.2e15)
    assert tuning.experts == pytest.approx(0.75)
    assert (tuning.launch_s, tuning.layer_s) == (4e-6, pytest.approx(6e-6))
    assert told.rates[0].flops_per_s.tag is Tag.MEASURED
    assert "2026-12-01" in told.rates[0].flops_per_s.source
    assert tuning.source is Source.MODELLED
    assert tuning.uncertainty < Tuning().uncertainty


def test_an_empty_calibration_changes_no_figure():
    told, tuning = calibrated(kind(), Tuning(), calibration(Reached()))
    assert told == kind()
    assert replace(tuning, source=Tuning().source, uncertainty=Tuning().uncertainty) == Tuning()


def test_a_kind_of_which_nothing_was_known_can_be_planned_with():
    bare = kind(memory_bytes=None, bandwidth_bytes_per_s=None, rates=())
    found = Reached(rates=(MathRate(math=Math.F32, flops_per_s=9e10),), bandwidth_bytes_per_s=2e10, launch_s=1e-6)
    told, tuning = calibrated(bare, Tuning(), calibration(found, memory_bytes=16 << 30))
    performing = performance(told, tuning, engine="torch")
    assert performing.rate(Math.BF16) == 9e10
    assert performing.memory_bytes == 16 << 30


def test_the_calibration_of_the_engine_comes_first():
    any_engine = calibration(Reached())
    own = calibration(Reached(), engine="vllm", taken="2026-01-01")
    newer = calibration(Reached(), engine="vllm", taken="2026-02-01")
    assert calibration_of("card", "vllm", (newer, own, any_engine)) == newer
    assert calibration_of("card", "sglang", (own, any_engine)) == any_engine
    assert calibration_of("card", "sglang", (own,)) is None
    assert calibration_of("other", "vllm", (own, any_engine)) is None


tables = pytest.mark.skipif(importlib.util.find_spec("pyarrow") is None, reason="no kernel tables here")


@tables
def test_nvidias_kernel_times_are_predicted_from_others_of_them():
    """Half of the H200's measured kernels tell the figures, and these the other half."""
    told = kernel_calibration("h200", "vllm", taken="2026-12-01")
    found = reached(told.samples[::2])
    errors: dict[tuple[Kernel, Math | None], list[float]] = {}
    for sample in told.samples[1::2]:
        error = abs(predicted_s(sample, found) / sample.seconds - 1)
        errors.setdefault((sample.kernel, sample.math), []).append(error)
    medians = {key: float(np.median(values)) for key, values in errors.items()}
    assert medians[Kernel.GEMM, Math.BF16] < 0.08
    assert medians[Kernel.GEMM, Math.FP8] < 0.2
    assert max(medians.values()) < 0.25
    # Physics: no faster than the data sheet's 4.8 TB/s, 989 TFLOP/s and 450 GB/s one way.
    assert 0.75 * 4.8e12 < found.bandwidth_bytes_per_s < 4.8e12
    assert 0.5 * 989e12 < found.rates[0].flops_per_s < 989e12
    assert 0.5 * 450e9 < found.link_bytes_per_s < 450e9


@tables
@pytest.mark.parametrize(("device", "engine", "field"), [("h200", "ollama", "--engine"), ("mlu590", "vllm", "DEVICE")])
def test_what_has_no_tables_is_said(device, engine, field):
    with pytest.raises(BadInput) as caught:
        kernel_calibration(device, engine, taken="2026-12-01")
    assert caught.value.field == field
