"""PlainEngine: turns, waiting, blocking, endings; every chunk is released exactly once."""

from collections import Counter

import pytest

from accord.run.engines.plain import WAIT, Inbox, PlainEngine, Work
from accord.run.ports import Chunk, Emission, Job, JobDone, JobFailed, Step
from accord.terms.errors import BadInput
from accord.terms.graph import DOOR, Payload
from accord.terms.request import ErrorCode, Params, Usage


class Sender:
    """Makes jobs and chunks, and counts releases."""

    def __init__(self) -> None:
        self.released: Counter[tuple[int, int]] = Counter()

    def job(self, request_id: int) -> Job:
        return Job(request_id=request_id, params=Params(), inputs=frozenset({DOOR}))

    def chunk(self, request_id: int, index: int, data: bytes) -> Chunk:
        def release() -> None:
            self.released[request_id, index] += 1

        return Chunk(source=DOOR, payload=Payload.TEXT, index=index, data=memoryview(data), meta=b"", release=release)


def shouting(job: Job, inbox: Inbox) -> Work:
    """Emits each chunk in capitals; dislikes digits; breaks on '!'."""
    said = 0
    while True:
        chunk = inbox.take()
        if chunk is not None:
            text = bytes(chunk.data)
            chunk.release()
            if text.isdigit():
                raise BadInput(field="text", value=text.decode(), problem="has digits", fix="send letters")
            if text == b"!":
                raise ZeroDivisionError
            said += 1
            yield (Emission(request_id=job.request_id, payload=Payload.TEXT, buffers=(text.upper(),)),)
        elif inbox.ended:
            return Usage(completion_tokens=said)
        else:
            yield WAIT


def texts(step: Step) -> list[tuple[int, bytes]]:
    return [(out.request_id, bytes(out.buffers[0])) for out in step.outputs if isinstance(out, Emission)]


def test_jobs_take_turns_and_end_with_their_usage() -> None:
    sender, engine = Sender(), PlainEngine(shouting)
    for request_id in (1, 2):
        for index in range(2):
            engine.feed(sender.job(request_id), sender.chunk(request_id, index, b"ab"[index : index + 1]))
        engine.feed(sender.job(request_id), None)
    steps = [engine.step(frozenset()) for _ in range(6)]
    assert [item for step in steps for item in texts(step)] == [(1, b"A"), (2, b"A"), (1, b"B"), (2, b"B")]
    assert steps[4].outputs == (JobDone(request_id=1, usage=Usage(completion_tokens=2)),)
    assert steps[5].outputs == (JobDone(request_id=2, usage=Usage(completion_tokens=2)),)
    assert [step.more for step in steps] == [True] * 5 + [False]
    assert [step.worked for step in steps] == [(1,), (2,)] * 3
    assert set(sender.released.values()) == {1}
    assert len(sender.released) == 4


def test_a_job_without_input_waits_without_work() -> None:
    sender, engine = Sender(), PlainEngine(shouting)
    engine.feed(sender.job(1), sender.chunk(1, 0, b"a"))
    assert texts(engine.step(frozenset())) == [(1, b"A")]
    assert engine.step(frozenset()) == Step()
    assert engine.step(frozenset()) == Step()
    engine.feed(sender.job(1), sender.chunk(1, 1, b"b"))
    assert texts(engine.step(frozenset())) == [(1, b"B")]


def test_blocked_jobs_are_left_alone_and_go_on_later() -> None:
    sender, engine = Sender(), PlainEngine(shouting)
    for request_id in (1, 2):
        engine.feed(sender.job(request_id), sender.chunk(request_id, 0, b"a"))
    step = engine.step(frozenset({1}))
    assert texts(step) == [(2, b"A")]
    # Job 2 may still have something to say of its own accord; job 1, blocked, may not.
    assert engine.step(frozenset({1})) == Step()
    assert sender.released == Counter({(2, 0): 1})
    assert texts(engine.step(frozenset())) == [(1, b"A")]


def test_bad_input_fails_its_job_alone_and_releases_the_rest() -> None:
    sender, engine = Sender(), PlainEngine(shouting)
    engine.feed(sender.job(1), sender.chunk(1, 0, b"7"))
    engine.feed(sender.job(1), sender.chunk(1, 1, b"x"))
    engine.feed(sender.job(2), sender.chunk(2, 0, b"a"))
    (failed,) = engine.step(frozenset()).outputs
    assert failed == JobFailed(request_id=1, code=ErrorCode.BAD_INPUT, text="text: '7': has digits; send letters")
    assert sender.released == Counter({(1, 0): 1, (1, 1): 1})
    assert texts(engine.step(frozenset())) == [(2, b"A")]


def test_cancel_releases_what_was_queued_and_forgets() -> None:
    sender, engine = Sender(), PlainEngine(shouting)
    for index in range(3):
        engine.feed(sender.job(1), sender.chunk(1, index, b"a"))
    engine.step(frozenset())
    engine.cancel(1)
    engine.cancel(1)
    engine.cancel(99)
    assert sender.released == Counter({(1, 0): 1, (1, 1): 1, (1, 2): 1})
    assert engine.step(frozenset()) == Step()


def test_a_broken_engine_says_so() -> None:
    sender, engine = Sender(), PlainEngine(shouting)
    engine.feed(sender.job(1), sender.chunk(1, 0, b"!"))
    with pytest.raises(ZeroDivisionError):
        engine.step(frozenset())
