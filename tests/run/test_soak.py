"""The drill of benchmarks/soak.py, shorter: every request ends, and nothing is kept of it."""

import random

import pytest

from tests.run.storm import Drill, Outcome, run

MEMORY_BYTES_MAX = 24 << 20


def _judge(drill: Drill, outcome: Outcome) -> None:
    words = f"seed {drill.seed}: {outcome}"
    endings = dict(outcome.endings)
    assert set(endings) <= {"done", "cancelled", "error", "refused"}, words
    assert endings["done"] > drill.requests // 2, words
    assert min(endings["cancelled"], endings["error"]) > 0, words
    assert outcome.restarts >= drill.kills, words
    assert outcome.arena_left_bytes == 0, words
    assert outcome.memory_after_bytes - outcome.memory_before_bytes < MEMORY_BYTES_MAX, words


async def test_a_short_storm_ends_every_request_and_leaves_nothing() -> None:
    drill = Drill(seed=20, requests=800, warm_up=200, kills=4, freezes=3, crashes=1)
    _judge(drill, await run(drill))


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_long_storm_of_a_fresh_seed() -> None:
    drill = Drill(seed=random.randrange(1 << 32), requests=10_000, warm_up=3_000, kills=12, freezes=16, crashes=1)
    _judge(drill, await run(drill))
