"""Forms and steps: held against operator-by-operator counts, and against laws of physics."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.edges.fleet_kinds import catalog_kind
from accord.edges.model_catalog import entry
from accord.estimate import keys
from accord.estimate.form import Form, form
from accord.estimate.performance import Performance, Tuning, performance
from accord.estimate.step import Step, step_times
from accord.estimate.traffic import keys_seen
from accord.estimate.work import flops_table, pairs
from accord.models.read import read_card
from accord.terms.layout import Layout
from accord.terms.refusal import Refusal
from accord.terms.work import Attention, Load, OperatorClass, Phase, Reach

MODELS = ("qwen3-32b", "deepseek-v3", "gpt-oss-120b", "gemma-3-27b", "qwen3-next-80b-a3b", "flux.1-dev")


def _rows(name: str):
    return read_card(entry(name).card, name=name).rows()


def _h200() -> Performance:
    found = performance(catalog_kind("h200"), Tuning(), engine="vllm")
    assert isinstance(found, Performance)
    return found


def _form(needs, stored, layout: Layout) -> Form:
    made = form(needs, stored, layout)
    assert isinstance(made, Form)
    return made


@pytest.mark.parametrize("name", MODELS)
def test_dense_flops_are_those_of_the_operators(name: str) -> None:
    for _, needs, stored in _rows(name):
        made = _form(needs, stored, Layout())
        for load in (Load(new=1, context=700, batch=5), Load(new=300, context=20, batch=2)):
            phase = Phase.DECODE if load.new == 1 else Phase.PREFILL
            units = {
                "unit": load.new,
                "context": load.context,
                "both": load.new + load.context,
                "sequence": 1,
            }
            ours = sum(
                row.flops * units[row.per] * load.batch for row in made.dense if row.phase in (Phase.ALWAYS, phase)
            )
            wanted = sum(
                row.flops
                for row in flops_table(needs.operators, load)
                if row.kind in (OperatorClass.GEMM, OperatorClass.CONVOLUTION)
            )
            assert ours == pytest.approx(wanted, rel=1e-12)


@given(new=st.integers(1, 3000), old=st.integers(0, 5000), span=st.integers(1, 2000), reach=st.sampled_from(Reach))
def test_smooth_pairs_and_keys_are_exact_where_nothing_is_rounded(new: int, old: int, span: int, reach: Reach) -> None:
    asked = Attention(name="a", layers=(0,), heads=1, key_heads=1, key_dim=1, value_dim=1, reach=reach, span=span)
    load = Load(new=new, context=old)
    arrays = np.asarray(float(new)), np.asarray(float(old))
    if reach is not Reach.BLOCK:  # whole blocks; a stage's units are cut into them before
        assert float(keys.pairs(asked, *arrays)) == pytest.approx(pairs(asked, load), rel=1e-9)
    assert float(keys.keys(asked, *arrays)) == pytest.approx(keys_seen(asked, load), rel=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_more_work_is_never_faster(name: str) -> None:
    _, needs, stored = _rows(name)[-1]
    made, device = _form(needs, stored, Layout()), _h200()
    more = np.array([1.0, 2, 7, 30, 200, 1500])
    for step in (
        Step(decode=more, context=900.0),
        Step(decode=8.0, context=more),
        Step(prompts=1.0, new=more),
        Step(decode=16.0, context=500.0, prompts=more, new=100.0),
    ):
        total = np.broadcast_to(step_times(made, device, step).total, more.shape)
        assert (np.diff(total) >= 0).all()
        assert (total > 0).all()


def test_no_step_beats_the_device() -> None:
    """Neither the peak rate nor the peak bandwidth, at any size, of the catalog's figures."""
    _, needs, stored = _rows("qwen3-32b")[-1]
    made, device = _form(needs, stored, Layout(tensor=4)), _h200()
    for count in (1.0, 64.0, 4096.0):
        seconds = float(step_times(made, device, Step(decode=count, context=10.0)).gemm)
        read = sum(row.weight_bytes for row in made.dense)
        asked = sum(row.flops * count for row in made.dense)
        assert seconds >= read / 4.8e12
        assert seconds >= asked / 989e12


def test_tensor_ranks_divide_work_and_pay_for_it() -> None:
    _, needs, stored = _rows("llama-3.1-70b")[-1]
    device, step = _h200(), Step(prompts=1.0, new=2048.0)
    alone, shared = (step_times(_form(needs, stored, Layout(tensor=ranks)), device, step) for ranks in (1, 8))
    assert float(shared.gemm) == pytest.approx(float(alone.gemm) / 8, rel=0.05)
    assert float(alone.collectives) == 0.0 < float(shared.collectives)


def test_a_kind_without_figures_is_refused_by_name() -> None:
    refusal = performance(catalog_kind("metax-c550"), Tuning(), engine="vllm")
    assert isinstance(refusal, Refusal)
    assert refusal.field == "devices.metax-c550.rates"
    assert "metax-c550" in refusal.fix[0]
