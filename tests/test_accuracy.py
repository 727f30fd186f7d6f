"""The accuracy benchmark: its labels, that it never looks at what was measured, and that it asks the shipped code."""

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from _accuracy_fit import FIXED, START, effects, fitted, predicted, problem
from _accuracy_roofs import Made, stacked, tags
from _accuracy_rows import Row, Side, path, rows
from accord.edges.fleet_kinds import catalog_kind
from accord.estimate.performance import Performance, Tuning, performance
from accord.estimate.roof import Step
from accord.estimate.step import step_times, timed
from accord.estimate.tuned import TUNED

FILE = path()
pytestmark = pytest.mark.skipif(FILE is None, reason="aiconfigurator-core isn't installed")


@pytest.fixture(scope="module")
def found() -> list[Row]:
    assert FILE is not None
    return rows(FILE)


def test_every_row_is_there(found: list[Row]) -> None:
    assert FILE is not None
    with FILE.open(encoding="utf-8", newline="") as lines:
        written = list(csv.DictReader(lines))
    assert [row.name for row in found] == [line["id"] for line in written]
    assert [row.ttft_ms for row in found] == [float(line["silicon_ttft_ms"]) for line in written]
    assert len(found) == 5221


def test_configurations_are_read_without_what_was_measured(found: list[Row], tmp_path: Path) -> None:
    """The same file with other TTFTs and TPOTs gives the same configurations."""
    assert FILE is not None
    with FILE.open(encoding="utf-8", newline="") as lines:
        written = list(csv.DictReader(lines))
    blind = tmp_path / "blind.csv"
    with blind.open("w", encoding="utf-8", newline="") as out:
        writer = csv.DictWriter(out, fieldnames=list(written[0]))
        writer.writeheader()
        for number, line in enumerate(written):
            writer.writerow({**line, "silicon_ttft_ms": str(1 + number % 7), "silicon_tpot_ms": "1"})
    hidden = [replace(row, ttft_ms=0.0, tpot_ms=0.0) for row in rows(blind)]
    assert hidden == [replace(row, ttft_ms=0.0, tpot_ms=0.0) for row in found]


def test_labels_that_are_products_are_taken_apart(found: list[Row]) -> None:
    """Rows of one recipe in two dumps: "tp 64 ep 8" and "tp 8 ep 8"; "dp 64 ep 8" and "dp 8 ep 8"."""
    alike = [
        row
        for row in found
        if (row.model, row.kind, row.engine, row.form, row.everyone) == ("deepseek-r1", "b200", "trtllm", "fp4", 128)
        and row.reader is None
        and row.release == "1.2.0rc6.post3"
        and row.inputs < 1000
    ]
    assert {row.writer for row in alike} == {
        Side(tensor=8, data=1, experts=1),
        Side(tensor=8, data=1, experts=8),
        Side(tensor=1, data=8, experts=8),
    }
    assert all(row.writer.ranks in (1, 2, 4, 8) for row in found if row.reader is None and row.described)


def test_a_whole_rack_is_a_service_of_two_roles(found: list[Row]) -> None:
    racks = [row for row in found if row.kind == "gb200" and row.everyone == 1075 and row.engine == "trtllm"]
    assert racks
    assert all(row.reader is not None for row in racks)


def test_a_stack_is_what_steps_are(found: list[Row]) -> None:
    """Row by row, the stacked and fitted work is `step_times` of the form and the figures."""
    some = [row for row in found if row.reader is None and row.model in ("llama-3.1-70b", "gpt-oss-120b")][::97]
    stack = stacked(some)
    figures: dict[str, Any] = {name: value for name, value in START.items() if name in TUNED}
    tuning = Tuning(**FIXED, **figures)
    together = timed(stack.writing, tuning).total
    for number, row in enumerate(some):
        made = Made(row)
        device = performance(catalog_kind(row.kind), tuning, engine=row.engine)
        assert isinstance(device, Performance)
        step = Step(decode=made.batches[:1], context=np.array([row.inputs + row.outputs / 2]))
        alone = step_times(made.writer, device, step).total
        assert together[number, 0] == pytest.approx(float(alone[0]), rel=1e-9)


@pytest.mark.slow
def test_a_fit_finds_figures_that_rows_were_made_with(found: list[Row]) -> None:
    """Rows whose times the model itself says, with other figures: predicted to a few percent from half of them."""
    some = [row for row in found if row.reader is None and row.engine == "vllm" and row.kind == "b200"][::3]
    known = [tags(row) for row in some]
    named = effects(known, widths={"base": 0.3, "usual": 0.1, "release": 0.1, "made": 0.1})
    ones = np.ones(len(some))
    blank = problem((stacked(some),), known, named, ttft_s=ones, tpot_s=ones)
    truth = np.random.default_rng(1).normal(0, [effect.width / 2 for effect in named])
    ttft_s, tpot_s = predicted(blank, truth)
    asked = problem(blank.stacks, known, named, ttft_s=ttft_s, tpot_s=tpot_s)
    half = (np.arange(len(some)) % 2).astype(float)
    said_ttft, said_tpot = predicted(asked, fitted(asked, half).values)
    unseen = half == 0
    assert np.abs(said_tpot / tpot_s - 1)[unseen].mean() < 0.03
    assert np.abs(said_ttft / ttft_s - 1)[unseen].mean() < 0.06
