"""A real `accord` as a child process, and what it leaves behind.

In: an intent and a home folder. Out: `Up`, a service to talk to, and ways to look at its processes.
Invariant: every process is started in a session of its own, so that whatever it leaves can be found and ended.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import openai

from accord.edges import machine, profile_local
from accord.models import embedded
from accord.terms.speed import StageSpeed

ACCORD = (sys.executable, "-m", "accord")
EXAMPLE = Path(__file__).parents[2] / "examples" / "voice-assistant.yaml"
QUESTION = Path(__file__).parents[2] / "src" / "accord" / "assets" / "question.flac"
MODEL = embedded.NAME
START_S_MAX = 120.0
END_S_MAX = 30.0

# No objectives: the tests judge what a service does, not how fast a busy machine does it. Any free port: another
# service may be running.
INTENT = """
accord: 1
name: end-to-end
model: embedded-omni
workload: {inputs: {text: 1, audio: 0.5, image: 0.5}, outputs: {text: 1, audio: 1}}
serving: {deterministic: true, port: 0}
"""


def make_home(path: Path, speeds: tuple[StageSpeed, ...], *, weights: Path, graphs: Path | None) -> Path:
    """An ACCORD_HOME with fetched weights and a profile at hand, so that nothing is fetched or measured."""
    (path / "profiles").mkdir(parents=True)
    (path / "weights").symlink_to(weights)
    if graphs is not None:
        graphs.mkdir(parents=True, exist_ok=True)
        (path / "graphs").symlink_to(graphs)
    key = profile_local.profile_key(embedded.model(), machine.probe())
    profile_local._write(path / "profiles" / f"{key}.json", speeds)
    return path


def environment(home: Path, **more: str) -> dict[str, str]:
    """As a user's shell has it: Python holds back what it writes to files and pipes, until somebody flushes."""
    usual = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return {**usual, "ACCORD_HOME": str(home), **more}


@dataclass(kw_only=True)
class Started:
    """A command under way. Its output goes to files, so that no pipe of it can fill up."""

    process: subprocess.Popen[bytes]
    out: Path
    err: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def said(self) -> str:
        return self.out.read_text(errors="replace") + self.err.read_text(errors="replace")

    def ended(self, limit_s: float = END_S_MAX) -> int:
        return self.process.wait(timeout=limit_s)


@contextlib.contextmanager
def started(
    folder: Path, *arguments: str, home: Path, before: tuple[str, ...] = (), environ: dict[str, str] | None = None
) -> Iterator[Started]:
    """`accord ARGUMENTS` in a session of its own, whose processes are killed at the end if any is left."""
    folder.mkdir(parents=True, exist_ok=True)
    out, err = folder / "out.txt", folder / "err.txt"
    scratch = folder / "tmp"
    scratch.mkdir(exist_ok=True)
    with out.open("wb") as to_out, err.open("wb") as to_err:
        process = subprocess.Popen(
            [*before, *ACCORD, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=to_out,
            stderr=to_err,
            start_new_session=True,
            cwd=folder,
            env=environment(home, TMPDIR=str(scratch), **(environ or {})),
        )
    try:
        yield Started(process=process, out=out, err=err)
    finally:
        for pid in session(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()


def session(leader: int) -> set[int]:
    """The living processes of a session, by /proc: also those whose parents have gone."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, _, _, sid = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(sid) == leader and state not in "ZX":
                found.add(int(entry.name))
    return found


def until(met: Callable[[], object], *, limit_s: float = END_S_MAX, what: str = "") -> None:
    """Waits for something to come true."""
    ends = time.monotonic() + limit_s
    while not met():
        assert time.monotonic() < ends, f"not within {limit_s:g} s: {what}"
        time.sleep(0.02)


@dataclass(kw_only=True)
class Up:
    """`accord up`, serving."""

    started: Started
    url: str
    client: openai.OpenAI

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(self.url + path, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def status(self) -> dict:
        return json.loads(self.get("/status")[1])

    def replicas(self) -> dict[str, dict]:
        return {replica["stage"]: replica for replica in self.status()["replicas"]}

    def idle(self) -> bool:
        """Whether no stage and no arena holds anything of a request, and no engine works on."""
        status = self.status()
        held = any(
            item["active"] or item["arena_used_bytes"] or item["activity"] != "idle" for item in status["replicas"]
        )
        totals = status["totals"]
        return not held and totals["active"] == totals["queued"] == 0

    def ask(self, text: str, **more):
        reply = self.client.chat.completions.create(
            model=MODEL,
            messages=[{"role": "user", "content": text}],
            **{"max_tokens": 24, "temperature": 0, **more},
        )
        return reply.choices[0]


@contextlib.contextmanager
def serving(folder: Path, *, home: Path, intent: str = INTENT, more: tuple[str, ...] = (), **options) -> Iterator[Up]:
    """`accord up --json --port 0`, once it serves."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "intent.yaml").write_text(intent)
    with started(folder, "up", "intent.yaml", "--port", "0", "--json", *more, home=home, **options) as command:
        until(
            lambda: command.out.read_text().endswith("\n") or command.process.poll() is not None,
            limit_s=START_S_MAX,
            what="serving",
        )
        assert command.process.poll() is None, command.said()
        url = json.loads(command.out.read_text())["url"]
        with openai.OpenAI(base_url=f"{url}/v1", api_key="none", timeout=100, max_retries=0) as client:
            yield Up(started=command, url=url, client=client)
