"""`kill -9` of a stage in mid-answer: it comes back, and everybody is served or told."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest

from tests.e2e.samples import VOICE, recognised, sign, spoken, text
from tests.e2e.world import MODEL, QUESTION, START_S_MAX, until

pytestmark = pytest.mark.timeout(400)


def back(service, stage, old):
    """The stage serves again, in a new process."""
    until(
        lambda: service.get("/healthz")[0] == 200 and service.replicas()[stage]["pid"] != old["pid"],
        limit_s=START_S_MAX,
        what=f"{stage} is back",
    )
    new = service.replicas()[stage]
    assert new["restarts"] == old["restarts"] + 1
    return new


def kill(service, stage):
    old = service.replicas()[stage]
    os.kill(old["pid"], signal.SIGKILL)
    return old


def long_answer(service):
    return service.client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": [spoken()]}],
        modalities=["text", "audio"],
        audio=VOICE,
        max_tokens=300,
        stream=True,
    )


@pytest.mark.parametrize("stage", ["language", "vocoder", pytest.param("acoustic", marks=pytest.mark.slow)])
def test_a_stage_is_killed_while_it_is_heard(service, stage):
    """The client has begun to read, so it can't be replayed: it is told, and the rest of the house goes on."""
    told = None
    with long_answer(service) as stream:
        old = None
        try:
            for chunk in stream:
                audio = chunk.choices[0].delta.audio
                if old is None and audio and audio.data:
                    old = kill(service, stage)
        except openai.APIError as error:
            told = error
    assert old is not None
    assert told is not None
    assert "replica" in told.message
    assert told.code == "replica_lost"
    # Its neighbours never stopped.
    assert recognised(service, QUESTION.read_bytes(), QUESTION.name)
    new = back(service, stage, old)
    assert new["pid"] != old["pid"]
    until(service.idle, what="all stages idle")
    reply = service.client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": [spoken()]}],
        modalities=["text", "audio"],
        audio={"voice": "alloy", "format": "wav"},
        max_tokens=8,
    )
    assert "Paris" in reply.choices[0].message.audio.transcript


@pytest.mark.parametrize(
    "stage", ["recognizer", *(pytest.param(s, marks=pytest.mark.slow) for s in ("vision", "language"))]
)
def test_requests_that_showed_nothing_are_replayed(service, stage):
    """Killed while it loads the request: the client waits a little longer, and has its answer."""
    before = service.status()["totals"]["replayed"]
    parts = [text("What does the sign say?"), sign("EXIT 12")] if stage == "vision" else [spoken()]

    def ask():
        return service.client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": parts}], max_tokens=24
        )

    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask)
        until(lambda: service.replicas()[stage]["active"] or answer.done(), what=f"{stage} works")
        old = kill(service, stage)
        reply = answer.result(timeout=200)
    assert ("EXIT 12" if stage == "vision" else "Paris") in reply.choices[0].message.content
    assert service.status()["totals"]["replayed"] in (before, before + 1)
    back(service, stage, old)
    until(service.idle, what="all stages idle")


def test_health_says_which_stage_is_away(service):
    old = kill(service, "vision")
    seen = []

    def look():
        replica = service.replicas().get("vision")
        seen.append(service.get("/healthz"))
        return replica is not None and replica["pid"] != old["pid"] and replica["health"] == "ready"

    until(look, limit_s=START_S_MAX, what="vision is back")
    away = [body for status, body in seen if status == 503]
    assert away
    assert "vision" in away[0]
    assert seen[-1][0] == 200
