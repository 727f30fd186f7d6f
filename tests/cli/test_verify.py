"""`accord verify` as a person runs it.

In: command lines, real devices of this machine. Out: failures. Invariant: statuses are those of every other verb; what
was asked before a Ctrl-C isn't asked again.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest
import yaml
from click.testing import CliRunner, Result

from accord.cli.root import root
from accord.terms.errors import BadInput

HEALTHY = ["verify", "numpy", "--operators", "sum,relu"]


def _run(*arguments: str, home: Path) -> Result:
    return CliRunner(env={"ACCORD_HOME": str(home)}).invoke(root, list(arguments), standalone_mode=False)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["verify", "npu9000"], "DEVICE"),
        (["verify", "python@/no/python:jax"], "DEVICE"),
        (["verify", "numpy", "--operators", "mm,frobnicate"], "--operators"),
        (["verify", "numpy", "--budget", "soon"], "--budget"),
        (["verify", "numpy", "--model", "no-such-model"], ""),
        (["verify", "retest", "no-such-file.yaml"], "quirks"),
    ],
)
def test_wrong_input_is_named(arguments: list[str], field: str, tmp_path: Path) -> None:
    result = _run(*arguments, home=tmp_path)
    assert isinstance(result.exception, BadInput), result.output
    assert field in result.exception.field


def test_the_schema_is_printed(tmp_path: Path) -> None:
    result = _run("verify", "schema", home=tmp_path)
    jsonschema.Draft202012Validator.check_schema(json.loads(result.output))


def test_help_names_the_verbs(tmp_path: Path) -> None:
    assert {"retest", "drift", "schema", "DEVICE"} <= set(_run("verify", "--help", home=tmp_path).output.split())


@pytest.mark.slow
def test_a_healthy_device_ends_with_a_report_and_no_fault(tmp_path: Path) -> None:
    out, report = tmp_path / "quirks.yaml", tmp_path / "report.html"
    result = _run(*HEALTHY, "--budget", "8s", "--out", str(out), "--report", str(report), home=tmp_path)
    assert result.return_value == 0, result.output
    assert "no fault found" in result.output
    assert yaml.safe_load(out.read_text()) == {"accord": 1, "quirks": []}
    assert "No fault found." in report.read_text()


@pytest.mark.slow
def test_ctrl_c_loses_nothing_and_resume_goes_on(tmp_path: Path) -> None:
    journal = tmp_path / "sweep.jsonl"
    command = [sys.executable, "-m", "accord", *HEALTHY, "--journal", str(journal)]
    environment = {**os.environ, "ACCORD_HOME": str(tmp_path)}
    process = subprocess.Popen([*command, "--budget", "100s"], stdout=subprocess.PIPE, text=True, env=environment)
    try:
        ends_s = time.monotonic() + 60
        while time.monotonic() < ends_s and not (journal.exists() and journal.read_bytes().count(b"\n") > 6):
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        told, _ = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "--resume goes on" in told
    lines = journal.read_bytes().splitlines()
    resumed = subprocess.run(
        [*command, "--budget", "6s", "--resume"],
        check=True,
        capture_output=True,
        text=True,
        timeout=100,
        env=environment,
    )
    assert f"going on with {len(lines) - 1} points" in resumed.stdout
    points = [json.dumps(json.loads(line)["point"]) for line in journal.read_bytes().splitlines()[1:]]
    assert len(points) == len(set(points)) > len(lines) - 1
