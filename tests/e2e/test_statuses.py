"""What scripts live on: exit statuses, and JSON and nothing else on stdout, for every verb."""

import json
import subprocess

import pytest

from tests.e2e import world
from tests.e2e.world import ACCORD, INTENT

pytestmark = pytest.mark.timeout(300)

IMPOSSIBLE = ("--set", "objectives.ttft_p99=1us")
VERBS = ("plan", "up", "demo")


@pytest.fixture
def accord(tmp_path, home):
    (tmp_path / "intent.yaml").write_text(INTENT)
    (tmp_path / "no.yaml").write_text("accord: 1\nname: x\nmodle: embedded-omni\n")

    def call(*arguments):
        done = subprocess.run(
            [*ACCORD, *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            cwd=tmp_path,
            env=world.environment(home),
        )
        assert "Traceback" not in done.stdout + done.stderr
        return done

    return call


def test_a_plan_is_done_and_explained(accord):
    done = accord("plan", "intent.yaml", "--json", "--out", "plan.yaml")
    assert done.returncode == 0
    plan = json.loads(done.stdout)["plan"]
    assert [stage["stage"] for stage in plan["stages"]] == ["recognizer", "vision", "language", "acoustic", "vocoder"]
    told = accord("explain", "plan.yaml", "--json")
    assert told.returncode == 0
    assert json.loads(told.stdout)["name"] == "end-to-end"
    assert "stands on: measured" in accord("explain", "plan.yaml").stdout
    assert accord("explain", "intent.yaml").returncode == 2
    assert accord("plan", "intent.yaml", "--out", "none/plan.yaml").returncode == 3


@pytest.mark.parametrize("verb", ["plan", "up"])
def test_refused_is_1(accord, verb):
    done = accord(verb, "intent.yaml", *IMPOSSIBLE)
    assert done.returncode == 1
    assert "Refused: objectives.ttft_p99 = 1us" in done.stdout
    assert "objectives.ttft_p99 >=" in done.stdout
    assert "--measure" in done.stdout
    done = accord(verb, "intent.yaml", *IMPOSSIBLE, "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["refusal"]["field"] == "objectives.ttft_p99"


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("no.yaml",), "did you mean model"),
        (("absent.yaml",), "absent.yaml"),
        (("intent.yaml", "--set", "serving.port=70000"), "serving.port"),
        (("intent.yaml", "--set", "nonsense"), "--set"),
        (("intent.yaml", "--colour"), "--colour"),
    ],
)
def test_bad_input_is_2(accord, verb, arguments, part):
    done = accord(verb, *arguments)
    assert done.returncode == 2
    assert part in done.stderr
    assert done.stdout == ""
    done = accord(verb, *arguments, "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["kind"] == "BadInput"


def test_a_question_that_is_no_recording_is_2(accord, tmp_path):
    (tmp_path / "not.wav").write_bytes(b"RIFF....not a recording")
    for name in ("not.wav", "absent.wav", "intent.yaml"):
        done = accord("demo", "--question", name)
        assert done.returncode == 2
        assert "--question" in done.stderr


def test_help_is_quick_and_complete(accord):
    done = accord("--help")
    assert done.returncode == 0
    for verb in (*VERBS, "explain"):
        assert f"  {verb} " in done.stdout
        said = accord(verb, "--help")
        assert said.returncode == 0
        assert "--json" in said.stdout
