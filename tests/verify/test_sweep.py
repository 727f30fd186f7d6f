"""The sweep on devices that cost no time: order, shares, budget, stopping and going on; the journal on torn files."""

import itertools
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from accord.edges.sweep_journal import Journal, read_journal
from accord.terms.errors import BadInput
from accord.terms.quirk import Fact, FaultKind, Point, Trait, Version
from accord.verify.devices import open_here
from accord.verify.examine import Examined, Examiner, Seen
from accord.verify.findings import Verdict
from accord.verify.operators.row import OperatorRow
from accord.verify.operators.table import operators
from accord.verify.points import series, usual
from accord.verify.ports import Description, FakeDevice, Unsupported
from accord.verify.sweep import Order, sweep

ROWS = operators()
FAKE = Description(name="fake", families=("fake",), versions=(Version(library="fake", version="1"),))


class _Clock:
    """Each look costs this much."""

    def __init__(self, step_s: float) -> None:
        self._ticks = itertools.count()
        self._step_s = step_s

    def __call__(self) -> float:
        return next(self._ticks) * self._step_s


class _Cheap(Examiner):
    """Finds every point right, at once; `lacks` a dtype."""

    def __init__(self, lacks: str = "") -> None:
        super().__init__(FakeDevice(lambda _: Unsupported(reason="")), (), ROWS)
        self.asked: list[Point] = []
        self._lacks = lacks

    def examine(self, point: Point, **_: object) -> Examined:
        self.asked.append(point)
        lacking = point.trait("dtype") == self._lacks
        return Examined(point=point, verdict=Verdict.UNSUPPORTED if lacking else Verdict.RIGHT)


@pytest.mark.parametrize("name", ROWS)
def test_every_operator_has_points_and_each_comes_once(name: str) -> None:
    found = list(itertools.islice(series(ROWS[name], (), random.Random(0)), 400))
    assert len(found) == len(set(found)) >= 100
    words = {(trait.name, trait.word) for point in found for trait in point.traits}
    assert words == {(choice.name, word) for choice in ROWS[name].space.choices for word in choice.words}


@pytest.mark.parametrize("name", ROWS)
def test_usual_points_show_every_word_and_every_closed_side(name: str) -> None:
    space, found = ROWS[name].space, list(usual(ROWS[name]))
    for choice in space.choices:
        assert {point.trait(choice.name) for point in found} == set(choice.words)
    for axis in space.axes:
        if axis.values:
            # The largest window in three dimensions is too much work.
            wanted = set(axis.values[:-1] if (name, axis.name) == ("conv3d", "kernel") else axis.values)
            assert {point.fact(axis.name) for point in found} >= wanted


def test_boundaries_come_early() -> None:
    found = list(itertools.islice(series(ROWS["mm"], (), random.Random(0)), 600))
    for side, value in (("M", 17), ("K", 65), ("N", 4097), ("M", 1), ("K", 16384), ("N", 127)):
        assert any(point.fact(side) == value for point in found), (side, value)


def test_a_models_calls_come_first_in_its_own_sides() -> None:
    facts = (Fact(name="M", value=1), Fact(name="K", value=896), Fact(name="N", value=4864))
    call = Point(operator="linear", facts=facts, traits=(Trait(name="dtype", word="bf16"),))
    first = next(series(ROWS["linear"], (call,), random.Random(0)))
    assert (first.fact("M"), first.fact("K"), first.fact("N"), first.trait("dtype")) == (1, 896, 4864, "bf16")


def test_of_a_call_that_is_too_large_the_largest_side_stays() -> None:
    facts = (Fact(name="M", value=1), Fact(name="K", value=5120), Fact(name="N", value=248_320))
    first = next(series(ROWS["linear"], (Point(operator="linear", facts=facts),), random.Random(0)))
    assert (first.fact("M"), first.fact("K"), first.fact("N")) == (1, 160, 248_320)


def test_each_operator_gets_its_share_and_the_budget_ends_it() -> None:
    examiner = _Cheap()
    found = list(sweep(examiner, Order(rows=ROWS, budget_s=100.0), known={}, now_s=_Clock(0.05)))
    counts = Counter(examined.point.operator for examined in found)
    assert set(counts) == set(ROWS)
    assert max(counts.values()) - min(counts.values()) <= 1
    assert 600 < len(found) < 700  # three looks at the clock a point


def test_stopping_and_going_on_asks_nothing_twice_and_misses_nothing() -> None:
    rows = {name: ROWS[name] for name in ("mm", "softmax")}
    known = {one.point: one for one in itertools.islice(_started(_Cheap(), rows, {}), 25)}
    rest = _Cheap()
    list(itertools.islice(_started(rest, rows, known), 35))
    assert not set(rest.asked) & set(known)
    for name, row in rows.items():
        asked = {point for point in {*rest.asked, *known} if point.operator == name}
        whole = series(row, (), random.Random(f"0 {name}"))
        assert set(itertools.islice(whole, len(asked))) == asked


def _started(
    examiner: Examiner, rows: Mapping[str, OperatorRow], known: Mapping[Point, Examined]
) -> Iterator[Examined]:
    return sweep(examiner, Order(rows=rows, budget_s=1e9), known=known, now_s=_Clock(1.0))


def test_a_dtype_that_the_device_lacks_is_soon_left_out() -> None:
    examiner = _Cheap(lacks="bf16")
    list(itertools.islice(_started(examiner, {"mm": ROWS["mm"]}, {}), 200))
    lacking = [point for point in examiner.asked if point.trait("dtype") == "bf16"]
    assert 1 <= len(lacking) <= 4
    assert len(examiner.asked) == 200


def test_a_device_that_lacks_everything_ends_the_sweep() -> None:
    lacking = Examiner(FakeDevice(lambda _: Unsupported(reason="none")), (), ROWS)
    rows = {name: ROWS[name] for name in ("mm", "add")}
    found = list(sweep(lacking, Order(rows=rows, budget_s=1e9), known={}, now_s=_Clock(0.001)))
    assert found
    assert all(examined.verdict is Verdict.UNSUPPORTED for examined in found)


def test_a_real_device_is_swept() -> None:
    witnesses = [open_here("torch:cpu"), open_here("onnxruntime")]
    rows = {name: ROWS[name] for name in ("softmax", "topk", "gather")}
    examiner = Examiner(open_here("numpy"), witnesses, rows)
    found = list(itertools.islice(sweep(examiner, Order(rows=rows), known={}, now_s=_Clock(0.0)), 40))
    assert Counter(one.verdict for one in found).keys() <= {Verdict.RIGHT, Verdict.UNSUPPORTED, Verdict.PRECISION}
    assert sum(one.verdict is Verdict.RIGHT for one in found) > 12


def _examined() -> list[Examined]:
    points = list(itertools.islice(series(ROWS["mm"], (), random.Random(0)), 5))
    seen = Seen(fault=FaultKind.LEAK, probe="poison", words="1 of 2 numbers")
    wrong = Examined(point=points[0], verdict=Verdict.FAULT, seen=(seen,), witnesses=("numpy", "torch:cpu"))
    return [wrong, *(Examined(point=point, verdict=Verdict.RIGHT) for point in points[1:])]


def test_a_journal_gives_back_what_it_took_across_runs(tmp_path: Path) -> None:
    path, found = tmp_path / "sweep.jsonl", _examined()
    for part in (found[:2], found[2:]):
        journal = Journal(path, FAKE)
        for one in part:
            journal.add(one)
        journal.close()
    assert read_journal(path, FAKE) == {one.point: one for one in found}


@pytest.mark.parametrize("cut", [1, 20, 150])
def test_a_line_torn_by_a_crash_is_left_out_and_written_over(tmp_path: Path, cut: int) -> None:
    path, found = tmp_path / "sweep.jsonl", _examined()
    journal = Journal(path, FAKE)
    for one in found[:3]:
        journal.add(one)
    journal.close()
    path.write_bytes(path.read_bytes()[:-cut])
    assert list(read_journal(path, FAKE).values()) == found[:2]
    again = Journal(path, FAKE)
    again.add(found[3])
    again.close()
    assert list(read_journal(path, FAKE).values()) == [*found[:2], found[3]]


def test_a_journal_of_another_device_or_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "sweep.jsonl"
    Journal(path, FAKE).close()
    newer = Description(name="fake", families=("fake",), versions=(Version(library="fake", version="2"),))
    with pytest.raises(BadInput, match="another device: fake, fake 1"):
        read_journal(path, newer)
    path.write_text("quirks: []\n")
    with pytest.raises(BadInput, match="no journal"):
        read_journal(path, FAKE)
