"""The fake engine's faults, and the engine table's answers to what it can't load."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from accord.run.engines import ENGINES, fake, load
from accord.run.ports import EngineSpec, JobDone, JobFailed
from accord.terms.errors import BadInput, BrokenEdge
from accord.terms.graph import Payload
from accord.terms.request import ErrorCode, Params
from tests.contracts.engine_driver import Driver, JobInput, Piece


def spec(engine: str = "fake", **options: str) -> EngineSpec:
    return EngineSpec(
        engine=engine,
        stage="voice",
        threads=1,
        batch_max=4,
        memory_bytes=1 << 20,
        options=tuple(options.items()),
    )


def driver(**options: str) -> Driver:
    return Driver(load(spec(**options)), set(Payload))


def saying(text: bytes, max_tokens: int = 256) -> JobInput:
    return JobInput(pieces=(Piece(payload=Payload.TEXT, data=text),), params=Params(max_tokens=max_tokens))


def test_plain_noop_is_the_cheap_one() -> None:
    assert isinstance(load(spec()), fake.NoopEngine)
    assert isinstance(load(spec(fail_at="1")), fake.FakeEngine)


@pytest.mark.parametrize(("option", "code"), [("fail_at", ErrorCode.ENGINE), ("bad_input_at", ErrorCode.BAD_INPUT)])
def test_the_nth_job_fails_and_the_others_do_not(option: str, code: ErrorCode) -> None:
    made = driver(mode="echo", **{option: "2"})
    endings = [made.solo(saying(b"hi")).ending for _ in range(3)]
    assert isinstance(endings[0], JobDone)
    assert isinstance(endings[1], JobFailed)
    assert endings[1].code is code
    assert isinstance(endings[2], JobDone)


def test_a_fault_may_come_in_mid_stream() -> None:
    made = driver(mode="tokens", tokens="5", fail_at="1", after="3")
    failed = made.solo(saying(b"hi"))
    assert len(failed.emitted) == 3
    assert isinstance(failed.ending, JobFailed)


def test_a_fault_strikes_once_per_file(tmp_path: Path) -> None:
    once = str(tmp_path / "struck")
    assert isinstance(driver(mode="echo", fail_at="1", once=once).solo(saying(b"hi")).ending, JobFailed)
    assert isinstance(driver(mode="echo", fail_at="1", once=once).solo(saying(b"hi")).ending, JobDone)


def test_raising_breaks_the_engine() -> None:
    with pytest.raises(RuntimeError, match="scripted to break"):
        driver(raise_at="1").solo(saying(b"hi"))


CRASH = """
from accord.run.engines import load
from accord.run.ports import EngineSpec, Job
from accord.terms.request import Params
options = ({option!r}, "1"),
engine = load(EngineSpec(engine="fake", stage="s", threads=1, batch_max=1, memory_bytes=0, options=options))
engine.feed(Job(request_id=1, params=Params(), inputs=frozenset()), None)
print("stepping", flush=True)
engine.step(frozenset())
print("came back", flush=True)
"""


def test_a_crash_ends_the_process() -> None:
    command = [sys.executable, "-c", CRASH.format(option="crash_at")]
    ended = subprocess.run(command, check=False, capture_output=True, timeout=60)
    assert ended.returncode == 70
    assert ended.stdout == b"stepping\n"


def test_a_hang_does_not_come_back() -> None:
    with subprocess.Popen([sys.executable, "-c", CRASH.format(option="hang_at")], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"stepping\n"
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(0.3)
        child.kill()
        assert child.stdout.read() == b""


def test_tokens_are_bounded_by_max_tokens_and_counted() -> None:
    ending = driver(mode="tokens", tokens="9").solo(saying(b"hi", max_tokens=4)).ending
    assert isinstance(ending, JobDone)
    assert ending.usage is not None
    assert ending.usage.completion_tokens == 4


@pytest.mark.parametrize("work", ["sleep", "spin"])
def test_a_step_takes_its_time(work: str) -> None:
    made = driver(mode="echo", work_us="20000", work=work)
    began_s = time.perf_counter()
    made.solo(saying(b"hi"))
    assert time.perf_counter() - began_s >= 0.04  # an emission and an ending: two steps; a lower bound can't flake


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"modus": "echo"}, "unknown field `modus`"),
        ({"mode": "shout"}, "Invalid enum value 'shout'"),
        ({"work_us": "soon"}, "Expected `int`"),
        ({"out": "smell"}, "Invalid enum value 'smell'"),
        ({"work": "hard"}, "Invalid enum value 'hard'"),
    ],
)
def test_wrong_options_name_the_stage(options: dict[str, str], words: str) -> None:
    with pytest.raises(BadInput, match=r"^stages\.voice\.options: ") as caught:
        load(spec(**options))
    assert words in str(caught.value)


def test_an_unknown_engine_gets_a_suggestion() -> None:
    with pytest.raises(
        BadInput, match=r"stages\.voice\.engine: 'onnxruntim': no such engine; did you mean onnxruntime"
    ):
        load(spec("onnxruntim"))
    with pytest.raises(BadInput, match="use one of ctranslate2, fake"):
        load(spec("abacus"))


@pytest.mark.parametrize(
    ("engine", "module", "package"),
    [(name, module, package) for name, row in ENGINES.items() for module, package in row.needs],
)
def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, engine: str, module: str, package: str) -> None:
    """The import system takes a name that sys.modules holds as None for one that can't be found."""
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(BrokenEdge, match=rf"engine {engine} needs the package {package}; pip install {package}"):
        load(spec(engine))
