"""Text deltas and sampling: against whole-text decoding, and against plain probability."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.run.engines.ar_sampler import Sampler
from accord.run.engines.ar_text import TextStream
from accord.terms.request import Params


@given(data=st.binary(max_size=60), cuts=st.lists(st.integers(1, 4), max_size=60))
def test_any_bytes_in_any_pieces_give_the_text_of_the_whole(data: bytes, cuts: list[int]) -> None:
    stream, deltas, at = TextStream(()), [], 0
    for size in [*cuts, len(data)]:
        deltas.append(stream.push(data[at : at + size]))
        at += size
    assert "".join([*deltas, stream.finish()]) == data.decode(errors="replace")
    assert all(delta.encode().decode() == delta for delta in deltas)


@given(
    text=st.text(alphabet="abcé", max_size=40),
    stop=st.lists(st.text(alphabet="abcé", min_size=1, max_size=4), max_size=3),
    size=st.integers(1, 3),
)
def test_nothing_of_a_stop_string_is_ever_shown(text: str, stop: list[str], size: int) -> None:
    stream, shown, data = TextStream(tuple(stop)), "", text.encode()
    for at in range(0, len(data), size):
        shown += stream.push(data[at : at + size])
        assert text.startswith(shown)
        if stream.stopped:
            break
    shown += stream.finish()
    if stream.stopped:
        assert any(text.startswith(shown + item) for item in stop)
        assert not any(item in shown for item in stop)
    else:
        assert shown == text
        assert not any(item in text for item in stop)


def test_greedy_takes_the_likeliest_token() -> None:
    logits = np.random.default_rng(0).standard_normal(49_152).astype(np.float32)
    assert Sampler(Params(temperature=0.0)).choose(logits) == int(np.argmax(logits))


def test_the_same_seed_gives_the_same_tokens() -> None:
    rows = np.random.default_rng(0).standard_normal((20, 1000)).astype(np.float32)
    first, second = (Sampler(Params(temperature=1.0, top_p=0.95, seed=11)) for _ in range(2))
    assert [first.choose(row) for row in rows] == [second.choose(row) for row in rows]


def test_frequencies_follow_the_softmax_within_the_nucleus() -> None:
    """Chi-squared against the closed form: p(i) ~ exp(logit / T), cut to the smallest set of mass top_p."""
    logits = np.array([2.0, 1.0, 0.0, -1.0, -9.0], np.float32)
    weights = np.exp(logits / 0.8)
    shares = weights / weights.sum()
    kept = shares[:3] / shares[:3].sum()
    assert shares[:2].sum() < 0.93 < shares[:3].sum()
    sampler = Sampler(Params(temperature=0.8, top_p=0.93, seed=3))
    counts = np.bincount([sampler.choose(logits) for _ in range(20_000)], minlength=5)
    assert counts[3:].sum() == 0
    assert (
        float((((counts[:3] - 20_000 * kept) ** 2) / (20_000 * kept)).sum()) < 13.8
    )  # 99.9% of chi-squared, 2 degrees


@given(top_p=st.floats(0.01, 1.0), seed=st.integers(0, 99))
def test_a_large_vocabulary_gives_what_a_full_sort_gives(top_p: float, seed: int) -> None:
    logits = (np.random.default_rng(seed).standard_normal(3000) * 3).astype(np.float32)
    weights = np.exp(logits.astype(np.float64) - logits.max())
    order = np.argsort(-weights, kind="stable")
    mass = np.cumsum(weights[order]) / weights.sum()
    allowed = set(order[: int(np.searchsorted(mass, top_p + 1e-9)) + 1].tolist())
    sampler = Sampler(Params(temperature=1.0, top_p=top_p, seed=seed))
    assert {sampler.choose(logits) for _ in range(30)} <= allowed


@pytest.mark.parametrize(
    "asked", [Params(temperature=1e-300, seed=-1), Params(temperature=1e-9, top_p=0.0, seed=1 << 63)]
)
def test_extreme_parameters_are_greedy_in_the_limit(asked: Params) -> None:
    logits = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    assert Sampler(asked).choose(logits) == int(np.argmax(logits))
