"""The verbs with known speeds instead of measured ones: arguments in, words and exit statuses out."""

import json
import socket
import sys

import pytest
import yaml
from click.testing import CliRunner

from accord.cli import root as cli
from accord.edges import machine, profile_local, weights
from accord.edges.fleet_plan_file import save_fleet_plan
from accord.edges.plan_file import load_plan
from tests.plan.known_accounts import PLAN
from tests.plan.known_speeds import LAPTOP, SPEEDS

INTENT = """
accord: 1
name: voice
model: embedded-omni
workload: {inputs: {text: 1, audio: 0.6}, outputs: {text: 1, audio: 1}}
objectives: {ttft_p50: 300ms}
"""


@pytest.fixture(autouse=True)
def laptop(monkeypatch, tmp_path):
    monkeypatch.setenv("ACCORD_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(machine, "probe", lambda: LAPTOP)
    monkeypatch.setattr(weights, "fetch", lambda names, **_: {name: tmp_path / name for name in names})
    monkeypatch.setattr(profile_local, "stage_speeds", lambda *_, **__: SPEEDS)


@pytest.fixture
def intent(tmp_path):
    path = tmp_path / "voice.yaml"
    path.write_text(INTENT)
    return str(path)


def test_a_plan_is_a_table_for_people(accord, intent):
    status, out, err = accord("plan", intent)
    assert (status, err) == (0, "")
    assert "Plan  voice on this machine (2 cores, 16GiB)" in out
    rows = [line.split() for line in out.splitlines()]
    assert ["language", "ar", "onnxruntime", "2", "1", "1.6", "ms", "measured"] in rows
    assert "admission: 24 requests at once" in out
    assert "stands on: measured (±10%)" in out


def test_a_plan_is_yaml_and_json_for_machines(accord, intent, tmp_path):
    status, out, _ = accord("plan", intent, "--out", str(tmp_path / "plan.yaml"), "--json")
    assert status == 0
    plan = load_plan(tmp_path / "plan.yaml")
    said = json.loads(out)["plan"]
    assert [stage["stage"] for stage in said["stages"]] == [stage.stage for stage in plan.stages]
    assert yaml.safe_load((tmp_path / "plan.yaml").read_text())["plan"] == said


def test_a_saved_plan_is_explained(accord, intent, tmp_path):
    accord("plan", intent, "--out", str(tmp_path / "plan.yaml"))
    status, out, _ = accord("explain", str(tmp_path / "plan.yaml"))
    assert status == 0
    assert "objectives: first text p50 300ms" in out
    status, out, _ = accord("explain", str(tmp_path / "plan.yaml"), "--json")
    assert json.loads(out)["name"] == "voice"


def test_a_refusal_has_causes_ways_out_and_status_1(accord, intent):
    status, out, _ = accord("plan", intent, "--set", "objectives.ttft_p50=20ms")
    assert status == 1
    assert "Refused: objectives.ttft_p50 = 20ms" in out
    assert "reaches 171ms" in out
    assert "objectives.ttft_p50 >= 180ms" in out
    status, out, _ = accord("plan", intent, "--set", "objectives.ttft_p50=20ms", "--json")
    assert status == 1
    assert json.loads(out)["refusal"]["field"] == "objectives.ttft_p50"


def test_up_refuses_before_it_starts_anything(accord, intent):
    status, out, _ = accord("up", intent, "--set", "workload.rate_rps=100", "--port", "0")
    assert status == 1
    assert "workload.rate_rps" in out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("plan",), "INTENT"),
        (("plam",), "plam"),
        (("plan", "nowhere.yaml"), "no such file"),
        (("plan", "."), "is a folder"),
        (("plan", "{intent}", "--set", "objectives.ttf_p50=1s"), "did you mean ttft_p50?"),
        (("plan", "{intent}", "--set", "model=embedded-omi"), "did you mean embedded-omni?"),
        (("plan", "{intent}", "--st"), "--set"),
        (("explain", "{intent}"), "plan"),
        (("up", "{intent}", "--port", "99999"), "65535"),
        (("demo", "--question", "nowhere.wav"), "can't be read"),
        (("demo", "--question", "{intent}"), "WAV, FLAC, OGG or MP3"),
    ],
)
def test_bad_input_is_one_plain_message_and_status_2(accord, intent, arguments, says):
    status, out, err = accord(*(item.format(intent=intent) for item in arguments))
    assert status == 2
    assert says in err
    assert "Traceback" not in out + err


def test_bad_input_in_json_keeps_stdout_json(accord, intent):
    status, out, _ = accord("plan", intent, "--set", "serving.port=-1", "--json")
    assert status == 2
    assert json.loads(out)["error"]["field"] == "serving.port"
    status, out, _ = accord("plan", "--json")
    assert status == 2
    assert "INTENT" in json.loads(out)["error"]["text"]


def test_a_broken_edge_has_status_3(accord, intent, tmp_path):
    status, _, err = accord("plan", intent, "--out", str(tmp_path / "none" / "plan.yaml"))
    assert status == 3
    assert "plan.yaml" in err


def test_a_taken_port_is_told_before_anything_is_started(accord, intent, monkeypatch):
    monkeypatch.setattr(profile_local, "stage_speeds", lambda *_, **__: pytest.fail("started"))
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        status, _, err = accord("up", intent, "--port", str(port))
    assert status == 3
    assert f"serving.port: {port}: already taken" in err


def test_an_interrupt_is_one_line_and_status_130(accord, intent, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(profile_local, "stage_speeds", interrupted)
    status, out, err = accord("plan", intent)
    assert status == 130
    assert "Stopped" in err
    assert "Traceback" not in out + err


def test_help_names_every_verb_and_imports_none():
    for name in [name for name in sys.modules if name.startswith("accord.cli.")]:
        if name != "accord.cli.root":
            del sys.modules[name]
    result = CliRunner().invoke(cli.root, ["--help"])
    assert result.exit_code == 0
    for verb in ("plan", "explain", "demo", "up"):
        assert verb in result.output
        assert f"accord.cli.{verb}" not in sys.modules


def test_a_fleet_s_plan_is_explained(accord, tmp_path):
    path = tmp_path / "fleet-plan.yaml"
    save_fleet_plan(PLAN, path)
    status, out, _ = accord("explain", str(path))
    assert status == 0
    assert "stands on: assumed (±40%)" in out
    assert "objectives.ttft_p99: 209ms of 215ms (97.4%)" in out
    status, out, _ = accord("explain", str(path), "--json")
    assert json.loads(out)["why"]["The runner-up"] == ["thinker on h20 alone, tp4: $3.4 an hour more, 1 device less"]


def test_a_plan_that_a_person_wrote_is_explained(accord):
    status, out, _ = accord("explain", "examples/plans/deepseek-v3-split.yaml")
    assert status == 0
    assert "a person wrote this plan" in out
