"""Calibration files: what is written is read back, and what a person breaks is named."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.edges.calibration_file import (
    calibration_from_text,
    dump_calibration,
    kept,
    kept_at,
    load_calibration,
    save_calibration,
)
from accord.terms.calibration import Calibration, Kernel, MathRate, Reached, Sample
from accord.terms.errors import BadInput, BrokenEdge
from accord.terms.estimate import Estimate, Source
from accord.terms.speed import Cost, Quantity, StageSpeed
from accord.terms.tensors import Math

above = st.floats(1e-3, 1e18)
small = st.floats(0, 0.5)
WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=30)


@st.composite
def calibrations(draw):
    samples = st.builds(
        Sample,
        kernel=st.just(Kernel.GEMM),
        words=WORDS,
        flops=above,
        moved_bytes=above,
        seconds=st.floats(1e-9, 10),
        spread=small,
        math=st.sampled_from(Math),
    )
    speed = StageSpeed(
        stage="s",
        threads=2,
        costs=(Cost(quantity=Quantity.PICTURE, alone_s=0.1, shared_s=0.1),),
        work=Estimate(value=1.0, unit="ms", source=Source.MEASURED, uncertainty=0.1),
    )
    found = Reached(
        rates=tuple(MathRate(math=math, flops_per_s=draw(above)) for math in draw(st.sets(st.sampled_from(Math)))),
        bandwidth_bytes_per_s=draw(st.none() | above),
        launch_s=draw(st.none() | small),
        sharpness=draw(st.none() | st.floats(1, 9)),
        uncertainty=draw(small),
    )
    return Calibration(
        kind="my-card.1",
        engine=draw(st.none() | st.just("vllm")),
        machine=draw(WORDS),
        tool=draw(WORDS),
        taken="2026-12-01",
        reached=found,
        samples=tuple(draw(st.lists(samples, max_size=3))),
        memory_bytes=draw(st.none() | st.integers(1, 1 << 42)),
        stages=draw(st.sampled_from(((), (speed,)))),
    )


PLAIN = Calibration(
    kind="cpu",
    engine=None,
    machine="a laptop",
    tool="accord profile",
    taken="2026-12-01",
    reached=Reached(rates=(MathRate(math=Math.F32, flops_per_s=1e11),), launch_s=1e-6),
    samples=(Sample(kernel=Kernel.COPY, words="4 bytes", flops=0.0, moved_bytes=8.0, seconds=1e-6),),
)


@given(calibrations())
@settings(max_examples=60)
def test_what_is_written_is_read_back(calibration):
    assert calibration_from_text(dump_calibration(calibration)) == calibration


def test_they_are_kept_by_kind_and_engine(tmp_path):
    assert kept(tmp_path) == ()
    for engine in (None, "vllm"):
        path = kept_at(tmp_path, "cpu", engine)
        save_calibration(PLAIN, path)
        assert load_calibration(path) == PLAIN
    assert kept(tmp_path) == (PLAIN, PLAIN)
    assert sorted(path.name for path in (tmp_path / "calibrations").iterdir()) == ["cpu.yaml", "cpu@vllm.yaml"]


def test_a_folder_that_cannot_be_made_is_a_broken_edge(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(BrokenEdge, match="--out"):
        save_calibration(PLAIN, tmp_path / "file" / "below" / "c.yaml")


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("accord: 1", "accord: 2", "accord"),
        ("  kind: cpu", "  kind: c p u", "calibration.kind"),
        ("  kind: cpu", "  kind: cpu\n  kinds: 2", "calibration.kinds"),
        ("taken: '2026-12-01'", "taken: yesterday", "calibration.taken"),
        ("flops_per_s: 100000000000.0", "flops_per_s: -1", "calibration.reached.rates[0].flops_per_s"),
        ("launch_s: 1.0e-06", "launch_s: 3", "calibration.reached.launch_s"),
        ("launch_s: 1.0e-06", "launch_s: 3us", "calibration.reached.launch_s"),
        ("sharpness: null", "sharpness: 0.5", "calibration.reached.sharpness"),
        ("uncertainty: 0.0", "uncertainty: .inf", "calibration.reached.uncertainty"),
        ('"seconds":1e-6', '"seconds":0', "calibration.samples[0].seconds"),
        ('"kernel":"copy"', '"kernel":"gemm"', "calibration.samples[0].math"),
        ('"kernel":"copy"', '"kernel":"copies"', "calibration.samples[0]"),
        ('"kernel":"copy"', '"kernel":"copy","colour":1', "calibration.samples[0].colour"),
        ("samples: |", "samples: [1]\n  more: |", "calibration.samples"),
        ("  steps: ''", "  steps: 'x'", "calibration.steps[0]"),
    ],
)
def test_what_is_wrong_is_named(old, new, field):
    text = dump_calibration(PLAIN)
    assert old in text
    with pytest.raises(BadInput) as caught:
        calibration_from_text(text.replace(old, new))
    assert caught.value.field == field
    assert caught.value.fix
