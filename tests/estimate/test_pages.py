"""KV page plans: laid out and grown token by token, against their own figures; laws; the plain baseline."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.edges import model_catalog
from accord.estimate.cache import request_bytes
from accord.estimate.pages import page_plan, plain_requests
from accord.models.read import read_card
from accord.terms.cache import CacheGroup, CacheKind
from accord.terms.pages import Length, PagePlan, PageRules, PageTable
from accord.terms.refusal import Refusal
from accord.terms.tensors import DTYPE_BYTES, Dtype
from tests.models.cards import public_card

_GIB = 1 << 30


def _cache(name: str) -> tuple[CacheGroup, ...]:
    return read_card(public_card(name), name=name).of("decoder").cache


def _group(kind: CacheKind, layers: int, values: int, *, window: int | None = None, ratio: int = 1) -> CacheGroup:
    state = kind is CacheKind.STATE
    return CacheGroup(
        name=f"{kind}-{window or ratio}",
        kind=kind,
        layers=tuple(range(layers)),
        key_dim=0 if state else values,
        window=window,
        ratio=ratio,
        state_values=values if state else 0,
    )


@st.composite
def models(draw: st.DrawFn) -> tuple[CacheGroup, ...]:
    layers, values = st.integers(1, 40), st.integers(1, 64).map(lambda value: 32 * value)
    made = [_group(CacheKind.FULL, draw(layers), draw(values))]
    if draw(st.booleans()):
        made.append(_group(CacheKind.WINDOW, draw(layers), draw(values), window=draw(st.integers(1, 3000))))
    if draw(st.booleans()):
        made.append(_group(CacheKind.CHUNK, draw(layers), draw(values), window=draw(st.integers(1, 3000))))
    if draw(st.booleans()):
        made.append(_group(CacheKind.COMPRESSED, draw(layers), draw(values), ratio=draw(st.sampled_from((4, 128)))))
    if draw(st.booleans()):
        made.append(_group(CacheKind.STATE, draw(layers), 256 * draw(st.integers(1, 400))))
    return tuple(made)


def _held(table: PageTable, groups: dict[str, CacheGroup], tokens: int) -> int:
    """The most pages of one table that are held at once while a request grows, each given back when it is forgotten."""
    group = groups[table.groups[0]]
    if group.kind is CacheKind.STATE:
        return 1
    most = 0
    for at in range(1, tokens + 1):
        match group.kind:
            case CacheKind.WINDOW:
                first = max(0, at - (group.window or at))
            case CacheKind.CHUNK:
                first = (at - 1) // (group.window or at) * (group.window or at)
            case _:
                first = 0
        most = max(most, (at - 1) // table.page_tokens - first // table.page_tokens + 1)
    return most


def _tables(plan: PagePlan) -> Iterator[tuple[int, PageTable]]:
    for pool in plan.pools:
        for table in pool.tables:
            yield pool.page_bytes, table


@settings(max_examples=30)
@given(model=models(), tokens=st.integers(1, 2500))
def test_a_plan_can_be_laid_out_and_holds_what_it_says(model, tokens):
    groups = {group.name: group for group in model}
    memory = 50 * request_bytes(model, tokens=tokens + 4096, dtype=Dtype.BF16)
    plan = page_plan(model, memory_bytes=memory, dtype=Dtype.BF16, lengths=(Length(tokens=tokens),))
    assert isinstance(plan, PagePlan)
    placed: list[str] = []
    for page_bytes, table in _tables(plan):
        used = 0
        for name, layers in zip(table.groups, table.page_layers, strict=True):
            group = groups[name]
            assert layers * table.count >= len(group.layers)
            entries = table.page_tokens // group.ratio * group.entry_values * DTYPE_BYTES[Dtype.BF16]
            used += layers * (entries + group.state_values * DTYPE_BYTES[group.state_dtype])
            assert table.page_tokens % plan.block == table.page_tokens % group.ratio == 0
            placed.append(name)
        assert used == table.filled_bytes <= page_bytes
    assert sorted(placed) == sorted(groups)
    assert sum(pool.page_bytes * pool.pages for pool in plan.pools) <= memory
    grown = sum(table.count * _held(table, groups, tokens) for _, table in _tables(plan))
    assert grown <= plan.request_pages
    assert plan.request_pages - grown <= sum(table.count for _, table in _tables(plan))  # a window's unluckiest start
    assert 0 <= plan.waste < 1
    assert plan.useful_bytes == request_bytes(model, tokens=tokens, dtype=Dtype.BF16)


@settings(max_examples=30)
@given(model=models(), tokens=st.integers(1, 5000))
def test_more_memory_holds_no_fewer_and_a_longer_request_no_more(model, tokens):
    def fit(memory: int, length: int) -> int:
        exact = (Length(tokens=length, exact=True),)
        plan = page_plan(model, memory_bytes=memory, dtype=Dtype.BF16, lengths=exact)
        return plan.requests if isinstance(plan, PagePlan) else 0

    memory = 20 * request_bytes(model, tokens=6000, dtype=Dtype.BF16)
    base = fit(memory, tokens)
    assert fit(2 * memory, tokens) >= base
    assert fit(memory, tokens + 500) <= base * 1.01 + 1


@settings(max_examples=30)
@given(model=models(), tokens=st.integers(1, 5000))
def test_no_plan_holds_more_than_the_bytes_allow(model, tokens):
    memory = 30 * request_bytes(model, tokens=tokens + 2000, dtype=Dtype.FP8)
    ideal = memory // request_bytes(model, tokens=tokens, dtype=Dtype.FP8) if model else 0
    plan = page_plan(model, memory_bytes=memory, dtype=Dtype.FP8, lengths=(Length(tokens=tokens),))
    assert isinstance(plan, PagePlan)
    assert plan.requests <= ideal


_LENGTHS = (256, 300, 470, 1024, 2000, 4096, 20_001, 131_072)


@pytest.mark.parametrize("name", model_catalog.names())
def test_plans_hold_what_plain_paging_holds_and_waste_little(name):
    for needs in read_card(model_catalog.entry(name).card, name=name).needs:
        for tokens in _LENGTHS if needs.cache else ():
            exact = (Length(tokens=tokens, exact=tokens % 2 == 0),)
            plan = page_plan(needs.cache, memory_bytes=60 * _GIB, dtype=Dtype.BF16, lengths=exact)
            plain = plain_requests(needs.cache, memory_bytes=60 * _GIB, dtype=Dtype.BF16, lengths=exact)
            assert isinstance(plan, PagePlan) or not plain
            if isinstance(plan, PagePlan):
                assert plan.requests >= plain, tokens
                assert plan.waste <= 0.04, tokens


@pytest.mark.parametrize("name", ["openai--gpt-oss-20b", "google--gemma-4-26B-A4B", "XiaomiMiMo--MiMo-V2-Flash"])
def test_plans_beat_plain_paging_where_layers_differ(name):
    groups = _cache(name)
    for tokens in (8192, 60_000):
        lengths = (Length(tokens=tokens),)
        plan = page_plan(groups, memory_bytes=60 * _GIB, dtype=Dtype.BF16, lengths=lengths)
        plain = plain_requests(groups, memory_bytes=60 * _GIB, dtype=Dtype.BF16, lengths=lengths)
        assert isinstance(plan, PagePlan)
        assert plan.requests > 1.8 * plain


def test_one_kind_of_layer_is_paged_plainly():
    groups = _cache("Qwen--Qwen3-32B")
    plan = page_plan(groups, memory_bytes=60 * _GIB, dtype=Dtype.BF16, lengths=(Length(tokens=5000),))
    assert isinstance(plan, PagePlan)
    (pool,) = plan.pools
    (table,) = pool.tables
    assert (table.count, table.page_tokens, table.page_layers) == (1, 16, (64,))
    assert pool.page_bytes == table.filled_bytes == 16 * 64 * 2 * 8 * 128 * 2


def test_a_mix_holds_what_its_mean_request_needs():
    groups = _cache("openai--gpt-oss-20b")
    mix = (Length(tokens=1000, share=3), Length(tokens=9000, share=1))
    plan = page_plan(groups, memory_bytes=60 * _GIB, dtype=Dtype.BF16, lengths=mix)
    assert isinstance(plan, PagePlan)
    assert plan.tokens == plan.requests * 3000
    usable = plan.pools[0].pages - 1
    assert len(plan.pools) > 1 or plan.requests == usable // plan.request_pages


def test_finer_pages_and_pools_apart_are_taken_only_where_they_pay():
    gemma, hybrid, windows = (
        _cache(name) for name in ("google--gemma-4-26B-A4B", "Qwen--Qwen3.5-35B-A3B", "openai--gpt-oss-20b")
    )
    for groups, tokens, pools, block in ((gemma, 9000, 1, 16), (hybrid, 4000, 2, 16), (windows, 300, 1, 8)):
        plan = page_plan(groups, memory_bytes=60 * _GIB, dtype=Dtype.BF16, lengths=(Length(tokens=tokens),))
        assert isinstance(plan, PagePlan)
        assert (len(plan.pools), plan.block) == (pools, block)


def test_too_little_memory_is_refused():
    groups = _cache("Qwen--Qwen3-32B")
    plan = page_plan(groups, memory_bytes=_GIB, dtype=Dtype.BF16, lengths=(Length(tokens=100_000),))
    assert isinstance(plan, Refusal)
    assert plan.field == "memory_bytes"
    assert "100000 tokens" in plan.limit


def test_rules_are_kept():
    groups = _cache("google--gemma-4-26B-A4B")
    for rules in (PageRules(tables_max=4), PageRules(pages_max=2000), PageRules(blocks=(64,)), PageRules(align=4096)):
        plan = page_plan(groups, memory_bytes=20 * _GIB, dtype=Dtype.BF16, lengths=(Length(tokens=9000),), rules=rules)
        assert isinstance(plan, PagePlan)
        assert sum(table.count for _, table in _tables(plan)) <= rules.tables_max
        assert all(pool.pages <= rules.pages_max and pool.page_bytes % rules.align == 0 for pool in plan.pools)
        assert all(table.page_tokens % rules.blocks[-1] == 0 for _, table in _tables(plan))
