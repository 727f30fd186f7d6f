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


@pytest.fixture
def scattered(tmp_path):
    """Three nodes of four: nobody has four devices free, and the cheapest way to them is one move."""
    fleet, gangs = tmp_path / "fleet.yaml", tmp_path / "big.yaml"
    fleet.write_text(
        "accord: 1\nnodes:\n"
        "  - {name: 'n[1-3]', cpus: 64, memory: 512GiB, numa: 2, devices: 4 x h20, nics: 2 x ib400, links: nvlink}\n"
        "taken:\n"
        "  - {node: n1, owner: a/x, devices: 0-1, cpus: 8, movable: true, move_cost: $3, nic: 0, bandwidth: 10GB/s}\n"
        "  - {node: n2, owner: a/x, devices: 0-1, cpus: 8, movable: true, move_cost: $2}\n"
        "  - {node: n3, owner: a/y, devices: '1,2', share: 30%, memory: 10GiB, movable: true, move_cost: $0.5}\n"
    )
    gangs.write_text("accord: 1\ngangs:\n  - {name: big, count: 2, parts: {p: {cards: 4}}}\n")
    return str(fleet), str(gangs)


def test_moves_make_room(accord, scattered):
    status, out, _ = accord("fleet", "place", *scattered)
    assert status == 1
    status, out, _ = accord("fleet", "place", *scattered, "--defragment", "--json")
    answer = json.loads(out)
    (move,) = answer["moves"]
    assert (move["gang"], move["cost_usd"]) == ("a/y on n3", 0.5)
    assert len({(seat["node"], *seat["devices"]) for seat in move["after"]["seats"]}) == 2  # on two cards, as before
    assert [row["gang"] for row in answer["placements"]] == ["big-1"]
    assert {seat["node"] for row in answer["placements"] for seat in row["seats"]} == {"n3"}
    assert [row["gang"] for row in answer["refusals"]] == ["big-2"]
    status, out, _ = accord("fleet", "place", *scattered, "--defragment")
    assert status == 1
    assert "1 move in this order, $0.5" in out
    assert "none for them elsewhere" in out


@pytest.mark.parametrize("arguments", [("--moves", "2"), ("--defragment", "--together"), ("--aim", "loss")])
def test_options_that_do_not_go_together(accord, scattered, arguments):
    status, _, _ = accord("fleet", "place", *scattered, *arguments)
    assert status == 2


def test_a_kind_that_nobody_knows_is_misspelt(accord, tmp_path):
    path = tmp_path / "gangs.yaml"
    path.write_text("accord: 1\ngangs:\n  - {name: a, parts: {p: {cards: 1, kinds: h-20}}}\n")
    status, _, err = accord("fleet", "place", MIXED, str(path))
    assert status == 2
    assert "gangs.a.parts.p.kinds: 'h-20': no such device kind; did you mean h20?" in err
