"""One request through the service's port: what `ask` collects, and what the demo prints of it."""

import asyncio
import io

import pytest
from rich.console import Console

from accord.cli.demo import _Speaker, objective_rows, spoken_request, time_rows
from accord.edges.profile_samples import question
from accord.models import embedded
from accord.operate import Answer, StageTime, ask, time_between
from accord.run.payloads import StagePart, unpack_prompt
from accord.terms.errors import BadInput, BrokenEdge, Overloaded
from accord.terms.graph import DOOR, Batching, Capability, Edge, Payload, Stage, StageGraph
from accord.terms.intent import Metric, Objective
from accord.terms.request import ErrorCode, Output, Usage
from accord.terms.status import Activity, ObjectiveStatus
from tests.serve.fake_service import FakeService, Script, Wait, fail, heard, sound, text


def asked(script):
    service = FakeService(script)
    seen: list[Output] = []
    answer = asyncio.run(ask(service, spoken_request(embedded.graph(), b"x"), hear=seen.append))
    return answer, seen, service


def test_an_answer_is_collected_whole():
    steps = (*heard("What?"), *text("It is", " so."), *sound(b"\1\0", b"\2\0"))
    answer, seen, service = asked(Script(steps=steps))
    assert (answer.transcript, answer.text, answer.pcm) == ("What?", "It is so.", b"\1\0\2\0")
    assert len(seen) == 5
    assert 0 <= answer.first_text_s <= answer.first_audio_s <= answer.latency_s
    assert answer.usage.completion_tokens == 7
    assert not service.tickets[0].cancelled


def test_without_speech_there_is_no_first_audio():
    answer, _, _ = asked(Script(steps=heard("only heard")))
    assert (answer.first_text_s, answer.first_audio_s, answer.pcm) == (None, None, b"")


def test_a_failed_request_is_a_broken_edge():
    with pytest.raises(BrokenEdge, match=r"replica_lost.*the stage died"):
        asked(Script(steps=(*text("a"), *fail(ErrorCode.REPLICA_LOST, "the stage died"))))


def test_a_refused_request_stays_refused():
    with pytest.raises(Overloaded):
        asked(Script(refusal=Overloaded("full", retry_after_s=1)))


async def test_a_cancelled_caller_cancels_the_request():
    service = FakeService(Script(steps=(Wait(seconds=60),)))
    task = asyncio.ensure_future(ask(service, spoken_request(embedded.graph(), b"x"), hear=lambda _: None))
    while not service.tickets:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert service.tickets[0].cancelled


def test_the_spoken_request_refers_to_who_hears_it():
    request = spoken_request(embedded.graph(), question())
    parts = {part.edge: part.data for part in request.parts}
    assert parts["audio"] == question()
    assert unpack_prompt(parts["prompt"]).messages[-1].parts == (StagePart(stage="recognizer", index=0),)
    assert request.outputs == {"transcript", "text", "speech"}


def test_a_deaf_model_is_told_apart():
    graph = StageGraph(
        model="deaf",
        stages=(Stage(name="s", capabilities=(Capability.AR,), batching=Batching.PLAIN),),
        edges=(Edge(name="prompt", source=DOOR, target="s", payload=Payload.PROMPT),),
    )
    with pytest.raises(BadInput, match="takes no spoken question"):
        spoken_request(graph, b"")


def test_an_answer_that_overtakes_its_question_waits():
    paper = io.StringIO()
    speaker = _Speaker(Console(file=paper, highlight=False, soft_wrap=True, width=80), question())
    for output in (*text("It"), *heard("What?"), *text(" is.")):
        assert isinstance(output, Output)
        speaker.hear(output)
    speaker.end()
    assert paper.getvalue() == '  You (spoken, 3.4s):  "What?"\n  Accord:  It is.\n'


def test_the_demo_s_tables():
    wanted = Objective(metric=Metric.TTFT, percentile=50, bound=0.3)
    rows = objective_rows(
        (
            ObjectiveStatus(objective=wanted, measured=0.25, samples=1),
            ObjectiveStatus(objective=wanted, measured=0.35, samples=1),
            ObjectiveStatus(objective=wanted, measured=None, samples=0),
        ),
        {Metric.TTFT: 0.28},
    )
    assert [row[1:] for row in rows[1:]] == [
        ("300ms", "280ms", "250ms", "met"),
        ("300ms", "280ms", "350ms", "missed"),
        ("300ms", "280ms", "not measured", ""),
    ]
    answer = Answer(
        text="",
        transcript="",
        pcm=b"",
        usage=Usage(),
        first_text_s=None,
        first_audio_s=None,
        latency_s=1.0,
        stages=(
            StageTime(stage="a", time_s=(0.5, 0.25, 0.0, 0.0, 0.25)),
            StageTime(stage="idle", time_s=(0.0, 0.0, 0.0, 0.0, 1.0)),
        ),
    )
    assert time_rows(answer)[1:] == (("  a", "50%", "25%", "0%", "0%", "25%"),)
    assert answer.stages[0].share(Activity.STARVED) == 0.25


def test_time_is_counted_between_two_moments():
    status = FakeService().status()
    assert all(sum(stage.time_s) == 0 for stage in time_between(status, status))
