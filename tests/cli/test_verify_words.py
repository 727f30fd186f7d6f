"""Names of devices, shapes of a model, and what a sweep says on a terminal.

In: names, cards of the catalog, made-up findings. Out: failures. Invariant: shapes are compared with the card's own
figures, and every wrong name is refused with a way out.
"""

import sys
from dataclasses import replace

import pytest

from accord.cli.verify_devices import Named, parse_device
from accord.cli.verify_model import model_points
from accord.cli.verify_words import duration, findings_lines
from accord.models import catalog
from accord.terms.errors import BadInput
from accord.terms.quirk import Evidence, Fact, FaultKind, Point, Quirk, Trait, Version, Way, Workaround
from accord.terms.quirk_text import parse_region
from accord.verify.findings import Findings, Mark, OperatorFindings, Verdict
from accord.verify.ports import Description
from accord.verify.space import Axis, Choice, Space

SPACE = Space(operator="linear", axes=(Axis(name="M"), Axis(name="N")), choices=(Choice(name="dtype", words=("f16",)),))
POINT = Point(
    operator="linear",
    facts=(Fact(name="M", value=1), Fact(name="N", value=131_073)),
    traits=(Trait(name="dtype", word="f16"),),
)
QUIRK = Quirk(
    name="card-linear",
    device="card",
    operator="linear",
    fault=FaultKind.WRONG,
    region=parse_region("dtype is f16 and M == 1 and N > 131072"),
    evidence=Evidence(
        points=900,
        failing=100,
        fresh=230,
        missed=0,
        over_cover=0.02,
        worst="64 of 131,073 numbers are wrong",
        probes=("integers",),
        witnesses=("numpy", "onnxruntime"),
    ),
    reproducer="raise SystemExit(1)",
    found="2026-12-01",
    smallest=POINT,
    workarounds=(
        Workaround(way=Way.SPLIT, detail="N by 131072", region=parse_region("always"), cost_ratio=1.03, verified=40),
    ),
)
DEVICE = Description(name="card", families=("card",), versions=(Version(library="sdk", version="1"),))


def _lines(*operators: OperatorFindings) -> str:
    findings = Findings(device=DEVICE, witnesses=("numpy",), operators=operators, found="2026-12-01", took_s=372.4)
    return "\n".join(findings_lines(findings))


def test_a_fault_is_told_with_where_the_smallest_failure_and_the_way_round() -> None:
    told = _lines(OperatorFindings(space=SPACE, marks=(Mark(point=POINT, verdict=Verdict.FAULT),), quirks=(QUIRK,)))
    for words in (
        "swept 1 point over 1 operator   6 min 12 s",
        "FAULT  linear f16  wrong values",
        "dtype is f16 and M == 1 and N > 131072",
        "smallest: M 1, N 131073, f16   (64 of 131,073 numbers are wrong)",
        "0 missed and 2.0% over-cover on 230 fresh points; numpy, onnxruntime agree against it",
        "workarounds: split N by 131072 (1 x the time)",
    ):
        assert words in told


def test_drift_is_not_a_fault_and_the_undecided_are_counted() -> None:
    marks = (Mark(point=POINT, verdict=Verdict.PRECISION), Mark(point=POINT, verdict=Verdict.UNDECIDED))
    told = _lines(OperatorFindings(space=SPACE, marks=marks, drift="as bf16 gives"))
    assert "drift  linear  precision only, not a fault: as bf16 gives" in told
    assert "undecided  1 point" in told
    assert "no fault found" in told
    assert "FAULT" not in told


def test_a_long_region_gets_a_line_for_each_case() -> None:
    cases = " or ".join(f"(dtype is f16 and {low} <= N <= {low + 9} and M % 32 != 0)" for low in (100, 200, 300))
    quirk = replace(QUIRK, region=parse_region(cases))
    told = _lines(OperatorFindings(space=SPACE, marks=(), quirks=(quirk,))).splitlines()
    assert sum(line.strip().startswith("or (dtype is f16") for line in told) == 2


@pytest.mark.parametrize(("seconds", "told"), [(0.4, "0 s"), (59.4, "59 s"), (59.6, "1 min 0 s"), (372, "6 min 12 s")])
def test_durations(seconds: float, told: str) -> None:
    assert duration(seconds) == told


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("cpu", Named(port="torch:cpu")),
        ("torch:cpu+compile", Named(port="torch:cpu+compile")),
        ("numpy", Named(port="numpy")),
        (f"python@{sys.executable}:jax", Named(port="jax", python=sys.executable)),
        (f"python@{sys.executable}:torch:vex:0", Named(port="torch:vex:0", python=sys.executable)),
    ],
)
def test_names_of_devices(name: str, named: Named) -> None:
    assert parse_device(name) == named


@pytest.mark.parametrize(
    "name", ["python@/no/such/python:jax", f"python@{sys.executable}", f"python@{sys.executable}:"]
)
def test_a_python_that_is_not_there_is_refused(name: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_device(name)
    assert caught.value.field == "DEVICE"


def test_the_calls_of_a_model_are_those_of_its_card() -> None:
    """Qwen3-32B's card: hidden 5120, intermediate 25600, 64 heads and 8 key heads of 128, vocabulary 151936."""
    points = model_points("qwen3-32b")
    linear = {tuple(point.fact(name) for name in "MNK") for point in points if point.operator == "linear"}
    assert {(1, 25_600, 5120), (512, 5120, 25_600), (1, 8192, 5120), (8, 151_936, 5120)} <= linear
    attention = [point for point in points if point.operator == "sdpa"]
    assert {(point.fact("H"), point.fact("G"), point.fact("D")) for point in attention} == {(8, 8, 128)}
    assert {point.trait("dtype") for point in points} == {"bf16", "f16", "f32"}


def test_a_model_without_operators_is_refused() -> None:
    with pytest.raises(BadInput) as caught:
        model_points(next(iter(catalog.MODELS)))
    assert caught.value.field == "--model"
