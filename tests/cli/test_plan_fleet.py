"""`accord plan` for fleets: words, files, JSON, pictures and exit statuses. The plans themselves: tests/plan."""

import importlib
import json

import pytest

from accord.edges import model_catalog
from accord.edges.fleet_plan_file import load_fleet_plan
from accord.terms.account import FrontPoint
from accord.terms.refusal import Refusal
from tests.plan.known_accounts import PLAN

FLEET = """
accord: 1
nodes:
  - {name: desk, cpus: 32, memory: 256GiB, devices: 1 x l40s}
"""
INTENT = """
accord: 1
name: voice
model: llama-3.1-8b
workload: {rate_rps: 2}
objectives: {ttft_p99: 1s}
fleet: fleet.yaml
"""
REFUSAL = Refusal(
    field="objectives.ttft_p99",
    value="1s",
    limit="reachable is 2s",
    causes=("slow",),
    fix=("objectives.ttft_p99 >= 2s",),
)  # fmt: skip


@pytest.fixture
def intent(tmp_path):
    (tmp_path / "fleet.yaml").write_text(FLEET)
    (tmp_path / "empty.yaml").write_text("accord: 1\nnodes: []\n")
    (tmp_path / "bare.yaml").write_text("accord: 1\nnodes: [{name: a, cpus: 1, memory: 1GiB}]\n")
    path = tmp_path / "voice.yaml"
    path.write_text(INTENT)
    return str(path)


def verb():
    """The module that the command will use: another test imports the verbs anew."""
    return importlib.import_module("accord.cli.plan_fleet")


@pytest.fixture
def answers(monkeypatch):
    """Says what the planner answers, and what it was asked."""
    asked = []

    def say(answer):
        def compile_fleet(intent, **given):
            asked.append((intent, given))
            given["watch"].stopped = isinstance(answer, tuple)
            return answer[0] if isinstance(answer, tuple) else answer

        monkeypatch.setattr(verb(), "compile_fleet", compile_fleet)
        return asked

    return say


def test_a_plan_is_words_and_a_file(accord, intent, answers, tmp_path):
    asked = answers(PLAN)
    status, out, err = accord("plan", intent, "--out", str(tmp_path / "plan.yaml"))
    assert (status, err) == (0, "")
    assert "Plan  voice: voice on fleet.yaml" in out
    assert "ttft p99    215ms   209ms  met" in out
    assert "Stopped" not in out
    assert load_fleet_plan(tmp_path / "plan.yaml") == PLAN
    wanted, given = asked[0]
    assert wanted.name == "voice"
    assert given["architecture"].name == "llama-3.1-8b"
    assert [node.name for node in given["fleet"].nodes] == ["desk"]


def test_json_has_the_plan_and_nothing_else_reaches_stdout(accord, intent, answers):
    answers(PLAN)
    status, out, _ = accord("plan", intent, "--json")
    assert status == 0
    said = json.loads(out)
    assert said["fleet_plan"]["account"]["cost_usd_per_hour"] == 18.2
    assert said["stopped"] is False


def test_a_refusal_has_causes_ways_out_and_status_1(accord, intent, answers):
    answers(REFUSAL)
    status, out, _ = accord("plan", intent)
    assert status == 1
    assert "  Refused: objectives.ttft_p99 = 1s" in out
    assert "      objectives.ttft_p99 >= 2s" in out
    assert "busy" not in out  # that is about this machine
    status, out, _ = accord("plan", intent, "--json")
    assert (status, json.loads(out)["refusal"]["limit"]) == (1, "reachable is 2s")


def test_what_was_stopped_says_so(accord, intent, answers):
    answers((PLAN,))
    status, out, _ = accord("plan", intent)
    assert status == 0
    assert "Stopped early" in out
    answers((REFUSAL,))
    status, out, _ = accord("plan", intent)
    assert (status, "Refused" in out) == (130, False)
    assert "Stopped before a plan was found" in out


def test_the_front_is_drawn(accord, intent, answers, monkeypatch, tmp_path):
    answers(PLAN)
    point = FrontPoint(field="workload.rate_rps", value=12, cost_usd_per_hour=18.2, devices=13, words="all of it")
    monkeypatch.setattr(verb(), "fleet_front", lambda *_, **__: (point,))
    status, out, _ = accord("plan", intent, "--pareto", str(tmp_path / "front.svg"))
    assert status == 0
    assert f"wrote {tmp_path / 'front.svg'}" in out
    assert "all of it (chosen)" in (tmp_path / "front.svg").read_text()


def test_paths_count_from_the_document_and_options_from_here(accord, intent, answers, tmp_path, monkeypatch):
    asked = answers(PLAN)
    other = tmp_path / "elsewhere"
    other.mkdir()
    (other / "fleet.yaml").write_text(FLEET.replace("desk", "rack"))
    monkeypatch.chdir(other)
    accord("plan", intent)
    accord("plan", intent, "--fleet", "fleet.yaml")
    assert [given["fleet"].nodes[0].name for _, given in asked] == ["desk", "rack"]


def test_a_card_beside_the_document_is_read(accord, intent, answers, tmp_path):
    asked = answers(PLAN)
    card = json.loads((model_catalog.FOLDER / "qwen3-0.6b.json").read_text())["card"]
    (tmp_path / "config.json").write_text(json.dumps(card))
    assert accord("plan", intent, "--set", "model=config.json")[0] == 0
    assert asked[0][1]["architecture"].parameters == 596_049_920


def test_a_trace_gives_the_rate_and_the_sizes(accord, intent, answers, tmp_path):
    asked = answers(PLAN)
    rows = "".join(f"{second},100,10\n" for second in range(120))
    (tmp_path / "trace.csv").write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + rows)
    status, out, _ = accord("plan", intent, "--set", "workload={trace: trace.csv, output_tokens: 50}")
    assert status == 0
    assert "trace: 120 requests" in out
    workload = asked[0][0].workload
    assert (workload.rate_rps, workload.input_tokens.p50, workload.output_tokens.p50) == (1.0, 100, 50)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--set", "fleet=none.yaml"), "no such file"),
        (("--set", "fleet=empty.yaml"), "an empty fleet: no nodes"),
        (("--set", "fleet=bare.yaml"), "an empty fleet: 1 node without devices"),
        (("--set", "fleet=voice.yaml"), "nodes"),
        (("--set", "model=llama-3.1-8"), "model: 'llama-3.1-8'"),
        (("--set", "model=llama-3.1-8"), "did you mean llama-3.1-8b?"),
        (("--set", "model=no/where.json"), "no such file"),
        (("--set", "workload.trace=none.csv", "--set", "workload={trace: none.csv}"), "workload.trace"),
        (("--measure",), "accord profile"),
        (("--set", "workload.rate_rps=-2"), "workload.rate_rps"),
        (("--set", "objectives.ttft_p50=2s"), "contradicts objectives.ttft_p99 = 1s"),
    ],
)
def test_bad_input_is_one_plain_message_and_status_2(accord, intent, answers, arguments, says):
    answers(PLAN)
    status, out, err = accord("plan", intent, *arguments)
    assert (status, out) == (2, "")
    assert says in err
