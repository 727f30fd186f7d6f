"""Bytes of requests: laws over all kinds of groups, and published figures."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.estimate.cache import group_bytes, growth_end, next_token_bytes, on_rank, request_bytes, token_bytes
from accord.models.read import read_card
from accord.terms.cache import CacheGroup, CacheKind
from accord.terms.tensors import Dtype
from tests.models.cards import public_card


@st.composite
def groups(draw: st.DrawFn) -> CacheGroup:
    kind = draw(st.sampled_from(list(CacheKind)))
    heads = draw(st.sampled_from((1, 2, 4, 8)))
    return CacheGroup(
        name="g",
        kind=kind,
        layers=tuple(range(draw(st.integers(1, 6)))),
        heads=heads,
        key_dim=draw(st.integers(1, 64)),
        value_dim=draw(st.integers(0, 64)),
        window=draw(st.integers(1, 300)) if kind in (CacheKind.WINDOW, CacheKind.CHUNK, CacheKind.CROSS) else None,
        ratio=draw(st.sampled_from((4, 128))) if kind is CacheKind.COMPRESSED else 1,
        state_values=heads * draw(st.integers(1, 99)) if kind is CacheKind.STATE else 0,
        pieces=1 if kind in (CacheKind.LATENT, CacheKind.INDEX) else heads,
    )


@given(group=groups(), tokens=st.integers(0, 700), more=st.integers(0, 700))
def test_bytes_never_shrink_and_stop_at_windows(group, tokens, more):
    now = group_bytes(group, tokens=tokens, dtype=Dtype.BF16)
    then = group_bytes(group, tokens=tokens + more, dtype=Dtype.BF16)
    assert now <= then
    end = growth_end(group)
    if end is not None and tokens >= end:
        assert now == then
    if end is None and more >= group.ratio:
        assert now < then


@given(group=groups(), tokens=st.integers(1, 300))
def test_marginal_bytes_add_up_to_the_request(group, tokens):
    first = group_bytes(group, tokens=0, dtype=Dtype.BF16)
    steps = [next_token_bytes(group, tokens=at, dtype=Dtype.BF16) for at in range(tokens)]
    assert first + sum(steps) == group_bytes(group, tokens=tokens, dtype=Dtype.BF16)
    end = growth_end(group)
    if end is None:
        each = token_bytes(group, dtype=Dtype.BF16)
        assert sum(steps) == pytest.approx(tokens * each, abs=each * group.ratio)


@given(group=groups(), tokens=st.integers(0, 700))
def test_fp8_halves_all_but_states(group, tokens):
    bf16, fp8 = (group_bytes(group, tokens=tokens, dtype=dtype) for dtype in (Dtype.BF16, Dtype.FP8))
    assert bf16 == (fp8 if group.kind is CacheKind.STATE else 2 * fp8)


@given(group=groups(), tokens=st.integers(0, 700), ranks=st.sampled_from((1, 2, 4, 8, 16)))
def test_ranks_hold_the_whole_between_them(group, tokens, ranks):
    whole = group_bytes(group, tokens=tokens, dtype=Dtype.BF16)
    share = group_bytes(on_rank((group,), ranks)[0], tokens=tokens, dtype=Dtype.BF16)
    if group.pieces == 1:
        assert share == whole
    elif ranks <= group.pieces:
        assert share * ranks == whole
    else:
        assert share * group.pieces == whole


def test_a_token_of_deepseek_v3_takes_its_published_bytes():
    """70.272 KB in bf16 (arXiv 2505.09343, table 1), and all of it on each rank."""
    found = read_card(public_card("deepseek-ai--DeepSeek-V3"), name="v3").needs[0]
    whole = request_bytes(found.cache, tokens=1000, dtype=Dtype.BF16)
    assert whole == 70_272 * 1000
    assert request_bytes(on_rank(found.cache, 8), tokens=1000, dtype=Dtype.BF16) == whole


def test_a_token_of_llama_405b_takes_its_published_bytes():
    """516 KB a token in bf16 (arXiv 2505.09343, table 1)."""
    found = read_card(public_card("meta-llama--Meta-Llama-3.1-405B"), name="llama").needs[0]
    assert request_bytes(found.cache, tokens=1000, dtype=Dtype.BF16) == 516_096 * 1000
    assert request_bytes(on_rank(found.cache, 16), tokens=1000, dtype=Dtype.BF16) == 516_096 * 1000 // 8


def test_a_group_on_one_rank_is_the_group():
    group = CacheGroup(name="g", kind=CacheKind.FULL, layers=(0,), heads=8, key_dim=64, value_dim=64, pieces=8)
    assert on_rank((group,), 1) == (replace(group),)
