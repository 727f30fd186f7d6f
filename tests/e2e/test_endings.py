"""How a command ends: asked at any moment, killed, or without what it needs; nothing is ever left behind."""

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.e2e import world
from tests.e2e.samples import VOICE, spoken
from tests.e2e.world import ACCORD, INTENT, MODEL, START_S_MAX, until

pytestmark = pytest.mark.timeout(300)

STOPPED = "\n  Stopped; nothing is left running.\n"
STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143}


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


@contextlib.contextmanager
def nothing_left(folder, command_of):
    """No process, shared memory or temporary file is left of a command, once the block has ended."""
    with command_of as command:
        yield command
        until(lambda: not world.session(command.pid), limit_s=10, what="all processes are gone")
    assert list((folder / "tmp").rglob("*")) == []


def check_shared_memory(command):
    """No process of the command maps a file of /dev/shm: what has no name can't be left behind."""
    for pid in world.session(command.pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            assert "/dev/shm/" not in Path(f"/proc/{pid}/maps").read_text()


def runs(command):
    """The command's own code is running: it has taken SIGTERM into its hands."""

    def taken():
        status = Path(f"/proc/{command.pid}/status").read_text()
        caught = next(line for line in status.splitlines() if line.startswith("SigCgt"))
        return int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1

    until(taken, what="SIGTERM is taken")


def upping(folder, home, *more, **options):
    (folder / "intent.yaml").write_text(INTENT)
    return world.started(folder, "up", "intent.yaml", "--port", "0", *more, home=home, **options)


def says(command, words):
    until(
        lambda: words in command.out.read_text() or command.process.poll() is not None, limit_s=START_S_MAX, what=words
    )
    assert command.process.poll() is None, command.said()
    check_shared_memory(command)


def check_end(command, how, *, limit_s=20.0):
    assert command.ended(limit_s) == STATUS[how], command.said()
    assert command.err.read_text().endswith(STOPPED)
    assert "Traceback" not in command.said()
    assert "Exception ignored" not in command.said()


@pytest.mark.parametrize("after_s", [0.0, 0.2, *(slow(after) for after in (0.02, 0.05, 0.1, 0.15, 0.3, 0.4, 0.6))])
def test_an_interrupt_before_anything_is_started(tmp_path, home, after_s):
    with nothing_left(tmp_path, upping(tmp_path, home)) as command:
        runs(command)
        time.sleep(after_s)
        os.kill(command.pid, signal.SIGINT)
        check_end(command, signal.SIGINT)


@pytest.mark.parametrize(
    ("moment", "how"),
    [
        ("Plan  end-to-end", signal.SIGINT),
        slow("Plan  end-to-end", signal.SIGTERM),
        slow("Serving", signal.SIGINT),
        ("Serving", signal.SIGTERM),
    ],
)
def test_asked_to_end_while_loading_or_ready(tmp_path, home, how, moment):
    with nothing_left(tmp_path, upping(tmp_path, home)) as command:
        says(command, moment)
        os.kill(command.pid, how)
        check_end(command, how)
        assert command.err.read_text() == STOPPED


@pytest.mark.parametrize("how", list(STATUS), ids=lambda how: how.name)
@pytest.mark.parametrize("apart_s", [0.0, 0.05, 0.4])
@pytest.mark.slow
def test_asked_twice(tmp_path, home, how, apart_s):
    with nothing_left(tmp_path, upping(tmp_path, home)) as command:
        says(command, "Serving")
        os.kill(command.pid, how)
        time.sleep(apart_s)
        with contextlib.suppress(ProcessLookupError):
            os.kill(command.pid, how)
        assert command.ended(20) == STATUS[how]
        assert "Traceback" not in command.said()
        assert "Exception ignored" not in command.said()


@pytest.mark.parametrize("twice", [slow(False), True])
def test_asked_to_end_in_the_middle_of_an_answer(tmp_path, home, twice):
    """A long answer may go on for a while; a second request to end is heeded at once."""
    heard = threading.Event()
    ends: list[Exception | str] = []

    def listen(up):
        stream = up.client.chat.completions.create(
            model=MODEL,
            messages=[{"role": "user", "content": [spoken()]}],
            modalities=["text", "audio"],
            audio=VOICE,
            max_tokens=6000,
            stream=True,
        )
        whole = False
        try:
            with stream:
                for chunk in stream:
                    heard.set()
                    whole = chunk.choices[0].finish_reason is not None
            ends.append("a whole answer" if whole else "half an answer, taken for a whole one")
        except Exception as error:  # noqa: BLE001, the client's own or its HTTP library's, judged below
            ends.append(error)

    with world.serving(tmp_path, home=home) as up:
        client = threading.Thread(target=listen, args=(up,))
        client.start()
        assert heard.wait(60)
        os.kill(up.started.pid, signal.SIGINT)
        if twice:
            time.sleep(0.3)
            os.kill(up.started.pid, signal.SIGINT)
        assert up.started.ended(20) == 130, up.started.said()
        client.join(30)
        assert not client.is_alive()
        assert isinstance(ends[0], Exception) or (ends == ["a whole answer"] and not twice), ends
        until(lambda: not world.session(up.started.pid), limit_s=10, what="all processes are gone")
        assert "Traceback" not in up.started.said()
    assert list((tmp_path / "tmp").rglob("*")) == []


@pytest.mark.parametrize("moment", ["Plan  end-to-end", slow("Accord:  ")])
def test_the_demo_is_interrupted(tmp_path, home, moment):
    (tmp_path / "intent.yaml").write_text(INTENT)
    with nothing_left(tmp_path, world.started(tmp_path, "demo", "intent.yaml", home=home)) as command:
        says(command, moment)
        os.kill(command.pid, signal.SIGINT)
        check_end(command, signal.SIGINT)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("moment", [slow("Plan  end-to-end"), "Serving"])
def test_replicas_end_with_their_killed_parent(tmp_path, home, moment):
    with nothing_left(tmp_path, upping(tmp_path, home)) as command:
        says(command, moment)
        until(lambda: len(world.session(command.pid)) == 6, what="five replicas")
        os.kill(command.pid, signal.SIGKILL)
        command.ended()


def test_an_interrupt_while_pip_fetches(tmp_path):
    """An index that takes the connection and says nothing: pip waits, and so would we."""
    with socket.create_server(("127.0.0.1", 0)) as index:
        url = f"http://127.0.0.1:{index.getsockname()[1]}/simple"
        environ = {"PIP_INDEX_URL": url, "PIP_CONFIG_FILE": os.devnull, "PIP_NO_INPUT": "1", "NO_PROXY": "*"}
        with upping(tmp_path, tmp_path / "home", environ=environ) as command:
            index.settimeout(60)
            connection, _ = index.accept()
            with connection:
                os.kill(command.pid, signal.SIGINT)
                check_end(command, signal.SIGINT)
            until(lambda: not world.session(command.pid), limit_s=10, what="pip is gone")
    left = [path for path in (tmp_path / "home").rglob("*") if path.is_file() and not path.name.endswith(".lock")]
    assert left == []


@pytest.mark.parametrize("as_json", [False, True], ids=["words", "json"])
def test_a_taken_port_names_itself_and_the_way_out(tmp_path, home, as_json):
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        (tmp_path / "intent.yaml").write_text(INTENT)
        more = ["--json"] if as_json else []
        done = subprocess.run(
            [*ACCORD, "up", "intent.yaml", "--port", str(port), *more],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            cwd=tmp_path,
            env=world.environment(home),
        )
    assert done.returncode == 3
    told = done.stdout if as_json else done.stderr
    assert f"serving.port: {port}: already taken on 127.0.0.1" in told
    assert "--port 0" in told
