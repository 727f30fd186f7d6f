"""The intents in examples/ are planned, and reach what they ask for."""

from pathlib import Path

import pytest

from accord.terms.fleet_plan import FleetPlan
from tests.plan.golden_plans import asked_at, compiled

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "intents").glob("*.yaml"))
SLOW = {"voice-assistant"}


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[pytest.mark.slow] if path.stem in SLOW else [], id=path.stem) for path in EXAMPLES],
)
def test_an_example_is_planned(path):
    wanted = asked_at(path)
    found = compiled(wanted)
    assert isinstance(found, FleetPlan)
    assert found.seats
    assert [item.objective for item in found.account.predicted] == list(wanted.intent.objectives)
    assert all(item.value <= item.objective.bound for item in found.account.predicted)
    assert found.account.rate_rps_max >= wanted.intent.workload.rate_rps


def test_what_is_not_counted_is_said():
    wanted = asked_at(EXAMPLES[0]).with_override(
        "agents={concurrent: 20, sandbox: {language: javascript, memory: 64MiB, cpu: 0.2, wall: 30s}}"
    )
    found = compiled(wanted)
    assert isinstance(found, FleetPlan)
    assert "agents: their sandboxes, states and wakes are not counted in this plan" in found.account.remarks
