"""Many at once: nobody's answer changes, nobody waits for ever, and what is left is given back."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.e2e.samples import VOICE, spoken
from tests.e2e.world import MODEL, until

pytestmark = pytest.mark.timeout(300)

QUESTIONS = (
    "What is the capital of France?",
    "Name three colours.",
    "Why is the sky blue?",
    "Tell me about the moon.",
    "What do bees make?",
    "Write one sentence about rivers, mountains and the sea, and begin it with the word Water.",
    "How many days has a week?",
    "Say hello to my friend Anna.",
)


def together(work, items):
    """All at the same moment, one thread each."""
    barrier = threading.Barrier(len(items))

    def one(item):
        barrier.wait(timeout=60)
        return work(item)

    with ThreadPoolExecutor(len(items)) as pool:
        return list(pool.map(one, items, timeout=200))


@pytest.mark.parametrize(
    "params",
    [{"temperature": 0}, {"temperature": 0.9, "top_p": 0.95, "seed": 7}],
    ids=["greedy", "seeded"],
)
def test_eight_at_once_answer_as_each_does_alone(service, params):
    def answer(question):
        return service.ask(question, max_tokens=14, **params).message.content

    alone = [answer(question) for question in QUESTIONS]
    assert together(answer, QUESTIONS) == alone
    assert len(set(alone)) == len(alone)


@pytest.mark.slow
def test_seeds_make_the_difference(service):
    def answer(seed):
        return service.ask("Tell me a story.", max_tokens=20, temperature=1.0, seed=seed).message.content

    assert answer(1) == answer(1)
    assert answer(1) != answer(2)


def test_those_who_leave_free_their_places_and_touch_nobody(service):
    """More leave than there are places: what one of them kept would be missed."""
    asked = "Write a very long story about a river."
    stays = service.ask(QUESTIONS[3], max_tokens=64).message.content

    def leave(number):
        stream = service.client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": f"{asked} {number}"}], max_tokens=2000, stream=True
        )
        with stream:
            for chunk in stream:
                if chunk.choices[0].delta.content:
                    return

    def stay(_):
        return service.ask(QUESTIONS[3], max_tokens=64).message.content

    answers = together(lambda item: leave(item) if item else stay(item), [*range(12)])
    assert answers[0] == stays
    together(leave, [*range(1, 13)])
    until(service.idle, what="all stages idle")


def test_a_spoken_answer_that_nobody_hears_ends_in_every_stage(service):
    before = service.status()["totals"]
    stream = service.client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": [spoken()]}],
        modalities=["text", "audio"],
        audio=VOICE,
        max_tokens=400,
        stream=True,
    )
    with stream:
        for chunk in stream:
            audio = chunk.choices[0].delta.audio
            if audio and audio.data:
                break
    until(service.idle, what="all stages idle")
    after = service.status()["totals"]
    assert after["cancelled"] == before["cancelled"] + 1
    assert after["failed"] == before["failed"]
    assert "Paris" in service.ask(QUESTIONS[0]).message.content
