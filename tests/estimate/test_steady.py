"""What a steady crowd sees: held against measured services, and against laws of queues."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.estimate.steady import Crowd, Seen, Serving, Work, apart, together

BATCHES = np.array([[64.0, 32.0, 16.0, 8.0, 4.0]])


def _crowd(requests: float = 64.0, seats: float = 1e6, *, readers: float = 0.0, pools: float = 1.0) -> Crowd:
    def one(value: float) -> np.ndarray:
        return np.array([value])

    return Crowd(
        requests=one(requests),
        seats=one(seats),
        outputs=one(1000.0),
        drafts=one(0.0),
        lanes=one(1.0),
        pools=one(pools),
        readers=one(readers),
        reader_lanes=one(1.0),
    )


def _work(step_s: float = 0.02, read_s: float = 0.1) -> Work:
    write = step_s * (0.5 + 0.5 * BATCHES / 64.0)
    return Work(batches=BATCHES, write_s=write, mixed_s=write[:, 0] + read_s, alone_s=np.array([read_s]))


def test_a_prompt_holds_up_those_who_write_once_each() -> None:
    """64 requests of 1,000 tokens: in the time of one answer, 64 prompts of 0.1 s pass; 6.4 ms a token."""
    serving = Serving(read_share=1.0)
    seen = together(_crowd(), _work(), serving)
    assert float(seen.tpot_s[0]) == pytest.approx(0.02 + 0.0064)


def test_what_lacks_a_seat_waits_for_a_stay() -> None:
    """Twice as many requests as seats: each waits as long as it stays, as Little's law has it."""
    crowd = _crowd(64.0, 32.0)
    seen = together(crowd, _work(), Serving(read_share=0.0, seat_wait=1.0, first_s=0.0, wait_steps=0.0, burst=0.0))
    stay = 1000 * float(seen.tpot_s[0]) + 0.1
    assert float(seen.ttft_s[0]) == pytest.approx(0.1 + stay)
    assert float(seen.tpot_s[0]) == pytest.approx(0.02 * 0.75)


def test_measured_seats_of_a_70b_model() -> None:
    """Llama-3.1-70B in fp8 on one H200, TensorRT-LLM, 128 requests of 8,192 + 1,024: 127.8 s to the first token at
    67.9 ms a token (aiconfigurator-core 0.12.0, silicon_sample.csv): 48 seats. With these, the law gives the wait.
    """
    crowd = replace(_crowd(128.0, 48.0), outputs=np.array([922.0]))
    pace = np.full((1, 5), 0.0679)
    work = Work(batches=BATCHES, write_s=pace, mixed_s=pace[:, 0], alone_s=np.array([0.6]))
    seen = together(crowd, work, Serving(read_share=0.0))
    assert float(seen.ttft_s[0]) == pytest.approx(127.8, rel=0.25)


def test_a_slow_reader_sets_the_rate_and_thins_the_writers() -> None:
    """One reader of 0.5 s a prompt lets 2 requests a second pass; all 64 are somewhere."""
    crowd, serving = _crowd(readers=1.0), Serving(pool=1.0, pool_burst=0.0, pool_wait_steps=0.0, pool_first_s=0.0)
    seen = apart(crowd, _work(read_s=0.5), serving)
    whole = float(seen.ttft_s[0]) + 1000 * float(seen.tpot_s[0])
    assert 64.0 / whole == pytest.approx(2.0, rel=0.05)
    assert float(seen.tpot_s[0]) < 0.02


@given(st.floats(4.0, 64.0), st.floats(1.0, 4.0), st.floats(0.001, 2.0))
def test_more_requests_wait_longer(requests: float, more: float, read_s: float) -> None:
    for how, readers in ((together, 0.0), (apart, 2.0)):
        few, many = (
            how(_crowd(count, readers=readers), _work(read_s=read_s), Serving())
            for count in (requests, more * requests)
        )
        assert isinstance(few, Seen)
        assert float(many.tpot_s[0]) >= float(few.tpot_s[0]) * (1 - 1e-9)
        assert float(many.ttft_s[0]) >= float(few.ttft_s[0]) * (1 - 1e-2)
