"""Whole steps that are known: the corrected formula goes through them, and stays sane elsewhere."""

from dataclasses import replace

import numpy as np
import pytest

from accord.edges.fleet_kinds import catalog_kind
from accord.edges.kernel_steps import kernel_steps
from accord.edges.model_card import find_card
from accord.estimate.form import Form, form
from accord.estimate.known_steps import grid_of, unit_flops
from accord.estimate.performance import Performance, Tuning, performance
from accord.estimate.step import Step, step_times
from accord.models.read import read_card
from accord.terms.calibration import StepGrid
from accord.terms.errors import BadInput
from accord.terms.layout import Layout
from accord.terms.tensors import Math

pytest.importorskip("pyarrow")

BATCHES, CONTEXTS, PROMPTS = (1.0, 8.0, 64.0), (512.0, 4096.0), (512.0, 4096.0)


@pytest.fixture(scope="module")
def model():
    card = find_card("qwen3-8b")
    return read_card(card.values, name=card.name)


def made(model, tensor=1):
    found = form(model.needs[0], model.stored[0], Layout(tensor=tensor))
    assert isinstance(found, Form)
    return found


def h200(steps=()):
    found = performance(catalog_kind("h200"), Tuning(), engine="vllm", steps=steps)
    assert isinstance(found, Performance)
    return found


def grid(model, factor=2.0, tensor=1):
    """The formula's own figures, times a factor at each point of decoding, and three times for prompts."""
    plain = h200()
    found = made(model, tensor)
    decode = [[float(step_times(found, plain, Step(decode=b, context=c)).total) for c in CONTEXTS] for b in BATCHES]
    reads = [float(step_times(found, plain, Step(prompts=1.0, new=p)).total) for p in PROMPTS]
    return StepGrid(
        tensor=tensor, experts=1, math=Math.BF16, unit_flops=unit_flops(found), batches=BATCHES, contexts=CONTEXTS,
        decode_s=tuple(tuple(factor * seconds for seconds in row) for row in decode), prompts=PROMPTS,
        prefill_s=tuple(3.0 * seconds for seconds in reads),
    )  # fmt: skip


def total(model, step, steps=(), tensor=1):
    return step_times(made(model, tensor), h200(steps), step).total


def test_known_points_are_met_and_others_keep_the_factor(model):
    known = (grid(model),)
    for decode in (1.0, 8.0, 20.0, 64.0, 500.0):
        for context in (100.0, 512.0, 2000.0, 4096.0, 50000.0):
            step = Step(decode=decode, context=context)
            assert total(model, step, known) == pytest.approx(2.0 * total(model, step))
    step = Step(prompts=1.0, new=1500.0)
    assert total(model, step, known) == pytest.approx(3.0 * total(model, step))


def test_a_step_of_both_lies_between(model):
    step = Step(decode=16.0, context=2000.0, prompts=1.0, new=1000.0)
    factor = float(total(model, step, (grid(model),)) / total(model, step))
    assert 2.0 < factor < 3.0


def test_arrays_are_corrected_one_by_one(model):
    known, batches = (grid(model),), np.array([1.0, 3.0, 8.0, 64.0])
    together = total(model, Step(decode=batches, context=1000.0), known)
    alone = [float(total(model, Step(decode=batch, context=1000.0), known)) for batch in batches]
    assert together == pytest.approx(alone)
    assert (np.diff(together) > 0).all()


def test_other_layouts_and_other_models_keep_the_formula(model):
    known = grid(model)
    assert grid_of(made(model), (known,)) == known
    assert grid_of(made(model, 2), (known,)) is None
    assert grid_of(made(model), (replace(known, unit_flops=known.unit_flops * 1.1),)) is None
    assert grid_of(made(model), (replace(known, math=Math.FP8),)) is None
    divided = form(model.needs[0], model.stored[0], Layout(pipeline=(18, 18)))
    assert isinstance(divided, Form)
    assert grid_of(divided, (known,)) is None


def test_nvidias_own_step_is_met():
    """aiconfigurator 0.12.0 counts 22.9 ms for a step of 13 sequences at 4,250 tokens of Qwen3-32B-FP8, and puts 8%
    on it; its `cli estimate` says 24.739 ms a token for 4,000 in and 500 out.
    """
    card = find_card("qwen3-32b")
    plain = read_card(card.values, name="qwen3-32b")
    grids = kernel_steps("h200", "vllm", "Qwen/Qwen3-32B-FP8")
    assert [(item.tensor, item.experts) for item in grids] == [(1, 1), (2, 1), (4, 1), (8, 1)]
    found = made(plain)
    assert grids[0].unit_flops == pytest.approx(unit_flops(found), rel=1e-9)
    row = grids[0].decode_s[grids[0].batches.index(12.0)]
    assert float(np.interp(4250.0, grids[0].contexts, row)) == pytest.approx(24.739e-3, rel=0.02)


def test_a_model_that_nobody_counted_is_said():
    with pytest.raises(BadInput) as caught:
        kernel_steps("h200", "vllm", "qwen3-32b")
    assert caught.value.field == "--steps"
