"""Quirks over time: merging, expiring, testing again.

In: quirks of made-up sweeps, versions, rules. Out: failures. Invariant: nothing is forgotten that wasn't covered, and
nothing is called gone that wasn't asked.
"""

import random
from dataclasses import replace

import pytest

from accord.terms.quirk import Evidence, Fact, FaultKind, Point, Quirk, Trait, Version, Way, Workaround
from accord.terms.quirk_text import parse_region
from accord.verify.oracle import Oracle
from accord.verify.quirks import Standing, merge, named, retest, retested, standing
from accord.verify.space import Axis, Choice, Space

SPACE = Space(
    operator="mm",
    axes=tuple(Axis(name=name, high=4096) for name in "MNK"),
    choices=(Choice(name="dtype", words=("f32", "bf16")),),
)
EVIDENCE = Evidence(
    points=9, failing=3, fresh=5, missed=0, over_cover=0.0, worst="1", probes=("integer",), witnesses=()
)


def _point(m: int, k: int, dtype: str = "bf16") -> Point:
    facts = (Fact(name="M", value=m), Fact(name="N", value=1), Fact(name="K", value=k))
    return Point(operator="mm", facts=facts, traits=(Trait(name="dtype", word=dtype),))


def _quirk(region: str, smallest: Point, *, found: str = "2026-11-30", torch: str = "2.13.0") -> Quirk:
    return Quirk(
        name="",
        device="torch:cpu",
        operator="mm",
        fault=FaultKind.WRONG,
        region=parse_region(region),
        evidence=EVIDENCE,
        reproducer="raise SystemExit(1)",
        found=found,
        smallest=smallest,
        versions=(Version(library="torch", version=torch),),
    )


def test_names_say_device_operator_and_fault_and_come_once() -> None:
    merged = merge((), [_quirk("M > 16", _point(17, 1)), _quirk("K == 3", _point(1, 3))])
    assert [quirk.name for quirk in merged] == ["torch-cpu-mm-wrong-values", "torch-cpu-mm-wrong-values-2"]


def test_a_newer_quirk_takes_the_place_of_what_it_covers() -> None:
    way = Workaround(way=Way.PAD, detail="K to 32", region=parse_region("always"), cost_ratio=2.0, verified=9)
    old = merge((), [replace(_quirk("M > 16", _point(17, 1)), workarounds=(way,), remarks=("seen by hand",))])
    wider = _quirk("M > 8", _point(9, 1), found="2026-12-01")
    (merged,) = merge(old, [wider])
    assert (merged.name, merged.found, merged.region) == (old[0].name, "2026-12-01", wider.region)
    assert merged.remarks == ("seen by hand",)
    assert merged.workarounds == ()  # verified for another region
    (same,) = merge(old, [_quirk("M > 16", _point(17, 1), found="2026-12-01")])
    assert same.workarounds == (way,)


def test_a_fault_that_the_newer_sweep_did_not_reach_is_kept() -> None:
    old = merge((), [_quirk("M > 16", _point(17, 1)), _quirk("K == 3", _point(1, 3))])
    assert len(merge(old, [_quirk("K == 3 and M < 8", _point(1, 3))])) == 2
    assert len(merge(old, [_quirk("M > 16", _point(17, 1), torch="2.14.0")])) == 3
    assert len(merge(old, [replace(_quirk("M > 16", _point(17, 1)), fault=FaultKind.LEAK)])) == 3


def test_merging_twice_changes_nothing() -> None:
    found = [_quirk("M > 16", _point(17, 1)), _quirk("K == 3", _point(1, 3))]
    once = merge((), found)
    assert merge(once, found) == once
    assert merge(once, once) == once


@pytest.mark.parametrize(
    ("fixed_in", "here", "expected"),
    [
        (None, "2.13.0", Standing.CURRENT),
        (None, "2.13.0+cpu", Standing.CURRENT),
        (None, "2.13", Standing.CURRENT),
        (None, "2.14.0", Standing.UNTESTED),
        (None, "2.9.1", Standing.UNTESTED),
        ("2.14.0", "2.14.0", Standing.EXPIRED),
        ("2.14.0", "2.15.1+cu130", Standing.EXPIRED),
        ("2.14.0", "2.9.0", Standing.UNTESTED),
        ("2.14.0", "2.13.0", Standing.CURRENT),
    ],
)
def test_versions_make_a_quirk_old(fixed_in: str | None, here: str, expected: Standing) -> None:
    quirk = replace(
        _quirk("M > 16", _point(17, 1)), versions=(Version(library="torch", version="2.13.0", fixed_in=fixed_in),)
    )
    assert standing(quirk, [Version(library="torch", version=here)]) is expected
    assert standing(quirk, [Version(library="jax", version="1")]) is Standing.CURRENT


def test_a_fault_that_is_still_there_is_dated_anew() -> None:
    quirk = named(_quirk("dtype is bf16 and M > 16 and K % 32 != 0", _point(17, 1)), ())
    result = retest(quirk, Oracle(quirk.region.holds, budget=100), SPACE, rng=random.Random(1))
    assert result.asked > 20
    assert result.failing == result.asked
    again = retested(quirk, result, [Version(library="torch", version="2.14.0")], today="2027-01-01")
    assert again.found == "2027-01-01"
    assert again.versions == (Version(library="torch", version="2.14.0"),)


def test_a_fault_that_is_gone_expires_with_the_version() -> None:
    quirk = _quirk("dtype is bf16 and M > 16 and K % 32 != 0", _point(17, 1))
    result = retest(quirk, Oracle(lambda _: False, budget=100), SPACE, rng=random.Random(1))
    assert result.gone
    installed = [Version(library="torch", version="2.14.0")]
    again = retested(quirk, result, installed, today="2027-01-01")
    assert again.versions[0].fixed_in == "2.14.0"
    assert standing(again, installed) is Standing.EXPIRED
    assert standing(again, [Version(library="torch", version="2.13.0")]) is Standing.CURRENT


def test_nothing_is_called_gone_that_was_not_asked() -> None:
    quirk = _quirk("M > 16", _point(17, 1))
    result = retest(quirk, Oracle(lambda _: None, budget=100), SPACE, rng=random.Random(1))
    assert not result.gone
    assert retested(quirk, result, [Version(library="torch", version="9")], today="2027-01-01") == quirk


def test_one_point_that_still_fails_keeps_the_quirk() -> None:
    quirk = _quirk("M > 16", _point(17, 1))
    result = retest(quirk, Oracle(lambda point: point == quirk.smallest, budget=100), SPACE, rng=random.Random(1))
    assert result.failing == 1
    assert not result.gone
