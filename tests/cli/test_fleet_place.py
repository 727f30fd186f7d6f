"""`accord fleet place`: a fleet and gangs in, seats and refusals out."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MIXED = str(ROOT / "examples/fleets/mixed.yaml")
GANGS = str(ROOT / "examples/gangs.yaml")


@pytest.fixture
def too_much(tmp_path):
    path = tmp_path / "gangs.yaml"
    path.write_text(
        "accord: 1\ngangs:\n"
        "  - {name: small, parts: {p: {share: 10%, memory: 1GiB, kinds: h20}}}\n"
        "  - {name: large, parts: {p: {cards: 9, kinds: h20}}}\n"
    )
    return str(path)


def test_the_example_is_placed_in_the_order_of_the_file(accord):
    status, out, _ = accord("fleet", "place", MIXED, GANGS, "--json")
    answer = json.loads(out)
    assert status == 0
    assert answer["refusals"] == []
    assert [row["gang"] for row in answer["placements"]] == ["chat", "speech", "batch-1", "batch-2", "batch-3"]
    speech = answer["placements"][1]["seats"]
    shares: dict[tuple[object, ...], list[int]] = {}
    for seat in speech:
        shares.setdefault((seat["node"], *seat["devices"]), []).append(seat["share_milli"])
    assert sorted(map(sorted, shares.values())) == [[300, 700], [300, 700]]  # complements on one card each


def test_words(accord, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    status, out, _ = accord("fleet", "place", MIXED, GANGS)
    lines = out.splitlines()
    assert status == 0
    assert lines[0].split() == ["gang", "part", "node", "devices", "share", "memory", "cores", "host", "memory", "NIC"]
    assert any(line.split()[:2] == ["speech", "voice.1"] and "70%" in line for line in lines)


def test_what_does_not_fit_is_refused_and_the_rest_is_placed(accord, too_much):
    status, out, _ = accord("fleet", "place", MIXED, too_much)
    assert status == 1
    assert "small" in out
    assert "  large: Refused: " in out
    status, out, _ = accord("fleet", "place", MIXED, too_much, "--json")
    answer = json.loads(out)
    assert status == 1
    assert [row["gang"] for row in answer["placements"]] == ["small"]
    assert [row["gang"] for row in answer["refusals"]] == ["large"]


def test_together_is_all_or_nothing_with_a_gap(accord, too_much):
    status, out, _ = accord("fleet", "place", MIXED, GANGS, "--together", "--seconds", "2", "--json")
    answer = json.loads(out)
    assert status == 0
    assert len(answer["placements"]) == 5
    assert answer["bound"] <= answer["cost"] + 1e-6
    status, out, _ = accord("fleet", "place", MIXED, too_much, "--together", "--seconds", "1")
    assert status == 1
    assert "all together: Refused" in out


def test_bad_input_ends_with_2(accord, tmp_path):
    wrong = tmp_path / "gangs.yaml"
    wrong.write_text("accord: 1\ngangs: [{name: g, parts: {p: {crads: 1}}}]")
    status, _, err = accord("fleet", "place", MIXED, str(wrong))
    assert status == 2
    assert "did you mean cards?" in err
    assert accord("fleet", "place", MIXED, GANGS, "--aim", "loss")[0] == 2
