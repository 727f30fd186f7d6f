"""Percentiles along trails: against samples, and as laws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.edges.intent_file import intent_from_text
from accord.edges.model_card import find_card
from accord.models.read import read_card
from accord.plan.fleet.demand import demand_of
from accord.plan.fleet.menu import COLUMNS
from accord.plan.fleet.path import RoleOf, path_of, percentile
from accord.plan.fleet.size import Moments
from accord.terms.fleet_plan import Role

POSITIVE = st.floats(1e-3, 10.0)


def moments(mean, deviation):
    return Moments(mean=np.array([mean]), variance=np.array([deviation**2]))


@pytest.mark.parametrize("percent", [50.0, 90.0, 99.0])
def test_a_percentile_is_that_of_samples(percent):
    """Log-normal samples by numpy; at the median the mean counts, which wide times have above it."""
    random = np.random.default_rng(7)
    parts, samples = [], []
    for share, mean, deviation in ((0.7, 0.2, 0.1), (0.3, 0.5, 0.2)):
        sigma = np.sqrt(np.log1p((deviation / mean) ** 2))
        samples.append(random.lognormal(np.log(mean) - sigma**2 / 2, sigma, round(share * 400_000)))
        parts.append((share, moments(mean, deviation)))
    found, wanted = float(percentile(parts, percent)[0]), float(np.percentile(np.concatenate(samples), percent))
    if percent == 50.0:
        assert wanted <= found <= wanted * 1.3
    else:
        assert found == pytest.approx(wanted, rel=0.02)


@given(st.lists(st.tuples(POSITIVE, POSITIVE), min_size=1, max_size=3), st.sampled_from([50.0, 90.0, 95.0, 99.0]))
def test_longer_and_wider_times_never_have_a_smaller_percentile(items, percent):
    parts = [(1 / len(items), moments(mean, deviation)) for mean, deviation in items]
    before = float(percentile(parts, percent)[0])
    for longer, wider in ((1.5, 1.0), (1.0, 1.5), (3.0, 2.0)):
        mean, deviation = items[0]
        slower = [(1 / len(items), moments(mean * longer, deviation * wider)), *parts[1:]]
        # In a mixture, the tail of a kind that isn't the slowest gets lighter as its mean grows past its deviation.
        ease = 1e-4 if len(items) == 1 else 0.03
        assert float(percentile(slower, percent)[0]) >= before * (1 - ease)


def omni():
    found = find_card("qwen3-omni-30b-a3b")
    architecture = read_card(found.values, name=found.name)
    intent = intent_from_text(
        """
accord: 1
name: voice
model: qwen3-omni-30b-a3b
workload:
  rate_rps: 10
  inputs: {text: 1.0, audio: 0.6, image: 0.2}
  outputs: {text: 1.0, audio: 0.6}
objectives: {ttft_p99: 1s, tpot_p99: 50ms, first_audio_p99: 2s, latency_p99: 30s}
fleet: local
"""
    )
    demand = demand_of(architecture, intent)
    roles = tuple(RoleOf(stage=item.stage, role=Role.WHOLE) for item in demand.stages)
    return path_of(architecture, demand, roles, intent.objectives)


@given(st.data())
def test_slower_roles_never_look_better(data):
    path = omni()
    columns = [np.array([[data.draw(POSITIVE) for _ in range(COLUMNS)]]) for _ in path.roles]
    slower = [table * (1 + data.draw(st.floats(0, 2))) for table in columns]
    quick, slow = (
        sum(path.figures(number, table) for number, table in enumerate(tables)) for tables in (columns, slower)
    )
    assert (path.ratios(slow) >= path.ratios(quick) * (1 - 1e-4)).all()
    assert path.meets(quick)[0] or not path.meets(slow)[0]


@given(st.data())
def test_what_meets_is_what_has_no_ratio_above_one(data):
    path = omni()
    columns = [np.array([[data.draw(st.floats(1e-4, 1.0)) for _ in range(COLUMNS)]]) for _ in path.roles]
    figures = sum(path.figures(number, table) for number, table in enumerate(columns))
    worst = float(path.ratios(figures).max())
    if abs(worst - 1) > 1e-3:
        assert bool(path.meets(figures)[0]) == (worst < 1)


def test_a_spoken_answer_waits_for_what_comes_before_it():
    """The talker and the vocoder count for the first sound, and not for the first token."""
    path = omni()
    names = [role.stage for role in path.roles]
    figures = np.zeros((1, 2 * len(path.trails)))
    for number, stage in enumerate(names):
        table = np.zeros((1, COLUMNS))
        table[0, 0] = {"thinker": 0.1, "talker": 0.2}.get(stage, 0.0)
        figures = figures + path.figures(number, table)
    ttft, _, sound, _ = (
        float(value) * item.bound for value, item in zip(path.ratios(figures)[0], path.objectives, strict=True)
    )
    assert ttft == pytest.approx(0.1)
    assert sound == pytest.approx(0.3)
