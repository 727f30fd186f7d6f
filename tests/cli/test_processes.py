"""The command as a process: what a shell sees."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
import wave
from pathlib import Path

import openai
import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "voice-assistant.yaml"
ACCORD = [sys.executable, "-m", "accord"]
DEADLINE_S = 600
EASY = ("ttft_p50=60s", "first_audio_p50=60s", "rtf_p50=100")


def run(*arguments, **options):
    return subprocess.run([*ACCORD, *arguments], capture_output=True, text=True, timeout=60, check=False, **options)


def test_help_imports_nothing_heavy():
    code = (
        "import sys; sys.argv = ['accord', '--help']\n"
        "from accord.cli import main\n"
        "try:\n    main()\nfinally:\n"
        "    heavy = {'numpy', 'rich', 'yaml', 'aiohttp', 'msgspec', 'asyncio', 'onnxruntime'}\n"
        "    print(heavy & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0
    assert "Commands" in done.stdout
    assert done.stderr.strip() == "set()"


def test_statuses_and_messages(tmp_path):
    done = run("plan", str(tmp_path / "none.yaml"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "no such file" in done.stderr
    assert "Traceback" not in done.stderr
    done = run("plan", "--json", str(tmp_path / "none.yaml"))
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["kind"] == "BadInput"
    assert run("--version").stdout.startswith("accord, version ")


def test_a_fleet_that_is_not_this_machine_is_refused_without_fetching(tmp_path):
    environ = {**os.environ, "ACCORD_HOME": str(tmp_path)}
    done = run("plan", str(EXAMPLE), "--fleet", "cluster.yaml", env=environ)
    assert done.returncode == 1
    assert "Refused: fleet = cluster.yaml" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_closed_pipe_is_no_error():
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*ACCORD, "--help"], stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False)
    os.close(writer)
    assert done.returncode == 0
    assert done.stderr == b""


def children(pid):
    """All descendants of a process, by /proc."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


def all_gone(pids):
    ends = time.monotonic() + 30
    while time.monotonic() < ends:
        if not any(Path(f"/proc/{pid}").exists() for pid in pids):
            return True
        time.sleep(0.05)
    return False


def easy():
    """On a busy machine the objectives of the example may be out of reach; these never are."""
    return [item for wish in EASY for item in ("--set", f"objectives.{wish}")]


@pytest.mark.slow
@pytest.mark.timeout(DEADLINE_S)
@pytest.mark.usefixtures("all_weights")
def test_the_demo_answers_a_spoken_question(tmp_path):
    done = subprocess.run(
        [*ACCORD, "demo", "--out", str(tmp_path), *easy()],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "capital of France" in done.stdout
    assert "Paris" in done.stdout
    for heading in (
        "Plan  voice-assistant",
        "ready in",
        "You (spoken, 3.4s)",
        "Objectives",
        "Where time went",
        "Next:",
    ):
        assert heading in done.stdout
    with wave.open(str(tmp_path / "answer.wav")) as sound:
        assert sound.getframerate() == 24_000
        assert sound.getnframes() > 24_000
        assert any(sound.readframes(24_000))
    names = {event["name"] for event in json.loads((tmp_path / "timeline.json").read_text())["traceEvents"]}
    assert "busy" in names


@pytest.mark.slow
@pytest.mark.timeout(DEADLINE_S)
@pytest.mark.usefixtures("all_weights")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_up_serves_the_official_client_and_leaves_nothing(how):
    process = subprocess.Popen(
        [*ACCORD, "up", str(EXAMPLE), "--port", "0", "--json", *easy()], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        url = json.loads(line)["url"]
        with urllib.request.urlopen(f"{url}/healthz", timeout=30) as answer:
            assert answer.status == 200
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", timeout=120)
        reply = client.chat.completions.create(
            model="embedded-omni",
            messages=[
                {"role": "system", "content": "You are a helpful assistant. Answer in one short sentence."},
                {"role": "user", "content": "What is the capital of France, and why is it famous?"},
            ],
            max_tokens=24,
            temperature=0,
        )
        assert "Paris" in reply.choices[0].message.content
        family = children(process.pid)
        assert len(family) >= 5
        process.send_signal(how)
        process.wait(timeout=60)
        assert process.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143}[how]
        assert all_gone(family)
        assert b"Traceback" not in process.stderr.read()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


@pytest.mark.slow
@pytest.mark.timeout(DEADLINE_S)
@pytest.mark.usefixtures("all_weights")
@pytest.mark.parametrize("verb", ["demo", "plan"])
@pytest.mark.parametrize("after_s", [0.3, 1.0, 2.0, 4.0, 8.0])
def test_an_interrupt_at_any_moment_ends_cleanly(tmp_path, verb, after_s):
    arguments = ["demo", "--out", str(tmp_path)] if verb == "demo" else ["plan", str(EXAMPLE), "--measure"]
    process = subprocess.Popen([*ACCORD, *arguments, *easy()], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        time.sleep(after_s)
        family = children(process.pid)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert process.returncode in {0, 130, -signal.SIGINT}
        assert b"Traceback" not in err
        assert all_gone(family)
    finally:
        process.kill()
        process.wait()
