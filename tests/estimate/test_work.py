"""Work of a step: pairs against masks drawn out in full, experts against dice, bytes against tensors."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.estimate.traffic import keys_seen, step_traffic
from accord.estimate.weights import stored_bytes
from accord.estimate.work import experts_touched, pairs, step_flops
from accord.models.read import read_card
from accord.terms.architecture import Stored
from accord.terms.tensors import Dtype, Part, Quantization
from accord.terms.work import Attention, Load, Reach
from tests.models.cards import public_card

_SEEING_BACK = (Reach.CAUSAL, Reach.WINDOW, Reach.CHUNK, Reach.CHOSEN)


def _attention(reach: Reach, span: int | None, ratio: int = 1) -> Attention:
    return Attention(
        name="a", layers=(0,), heads=1, key_heads=1, key_dim=1, value_dim=1, reach=reach, span=span, ratio=ratio
    )


def _mask(reach: Reach, *, new: int, old: int, span: int, ratio: int) -> np.ndarray:
    """True where a new query (row) sees a key (column). A key of `ratio` units is there when all of them are."""
    mask = np.zeros((new, (old + new) // ratio if ratio > 1 else old + new), dtype=bool)
    for row in range(new):
        position = old + row
        for key in range(mask.shape[1]):
            ready = (key + 1) * ratio - 1 <= position
            match reach:
                case Reach.CAUSAL:
                    mask[row, key] = ready
                case Reach.WINDOW | Reach.CHOSEN:  # the last ones stand for any choice of as many
                    mask[row, key] = ready and key >= (position + 1) // ratio - span
                case Reach.CHUNK:
                    mask[row, key] = ready and key // span == position // span
                case Reach.BLOCK:
                    mask[row, key] = key >= old and (key - old) // span == row // span
                case Reach.ALL:
                    mask[row, key] = True
                case Reach.CROSS:
                    mask[row, key] = key < old
    return mask


@given(
    reach=st.sampled_from([reach for reach in Reach if reach is not Reach.CROSS]),
    new=st.integers(1, 30),
    old=st.integers(0, 40),
    span=st.integers(1, 25),
    ratio=st.sampled_from((1, 1, 2, 4)),
)
def test_pairs_are_those_of_the_mask(reach, new, old, span, ratio):
    if reach in (Reach.CHUNK, Reach.BLOCK, Reach.ALL):
        ratio = 1
    found = _attention(reach, None if reach in (Reach.CAUSAL, Reach.ALL) else span, ratio)
    mask = _mask(reach, new=new, old=old, span=span, ratio=ratio)
    assert pairs(found, Load(new=new, context=old, batch=3)) == 3 * mask.sum()
    if ratio == 1 and reach is not Reach.CHOSEN:
        assert keys_seen(found, Load(new=new, context=old)) == mask.any(axis=0).sum()


@given(new=st.integers(1, 30), old=st.integers(0, 40), span=st.one_of(st.none(), st.integers(1, 25)))
def test_cross_attention_sees_what_the_encoder_left(new, old, span):
    keys = old if span is None else span
    assert pairs(_attention(Reach.CROSS, span), Load(new=new, context=old)) == new * keys
    assert keys_seen(_attention(Reach.CROSS, span), Load(new=new, context=old)) == keys


@given(reach=st.sampled_from(_SEEING_BACK), parts=st.lists(st.integers(1, 20), min_size=2, max_size=5))
def test_chunks_of_a_prefill_make_up_the_whole(reach, parts):
    found = _attention(reach, 7)
    whole = pairs(found, Load(new=sum(parts)))
    before = np.cumsum([0, *parts])
    assert whole == sum(pairs(found, Load(new=part, context=int(at))) for part, at in zip(parts, before, strict=False))


@pytest.mark.parametrize(("experts", "chosen", "units"), [(8, 2, 1), (8, 2, 5), (128, 8, 24), (256, 8, 64), (16, 1, 9)])
def test_touched_experts_are_those_of_a_draw(experts, chosen, units):
    dice = random.Random(experts * units)
    draws = [len({expert for _ in range(units) for expert in dice.sample(range(experts), chosen)}) for _ in range(1500)]
    assert experts_touched(experts, chosen, units) == pytest.approx(np.mean(draws), rel=0.01)


def test_one_unit_touches_the_experts_that_it_takes():
    assert experts_touched(256, 8, 1) == pytest.approx(8)
    assert experts_touched(256, 8, 10**6) == pytest.approx(256)


@pytest.mark.parametrize("name", ["Qwen--Qwen3-32B", "meta-llama--Meta-Llama-3.1-8B"])
def test_a_decode_step_reads_the_weights_and_the_cache_once(name):
    found = read_card(public_card(name), name=name)
    needs, stored = found.needs[0], Stored()
    alone = step_traffic(needs, stored, Load(new=1, context=999))
    crowd = step_traffic(needs, stored, Load(new=1, context=999, batch=16))
    embedding = sum(item.parameters for item in needs.tensors if item.part is Part.EMBEDDING)
    width = next(item.columns for item in needs.tensors if item.part is Part.EMBEDDING)
    whole = stored_bytes(needs.tensors, stored)
    assert alone.weight_bytes == whole - 2 * embedding + 2 * width
    assert crowd.weight_bytes == whole - 2 * embedding + 16 * 2 * width
    heads, dim, layers = (needs.cache[0].heads, needs.cache[0].key_dim, len(needs.cache[0].layers))
    entry = 2 * heads * dim * 2 * layers
    assert sum(row.cache_bytes for row in crowd.operators) == 16 * 1000 * entry
    assert crowd.cache_written_bytes == 16 * entry
    assert alone.intensity < crowd.intensity < 16 * alone.intensity
    assert alone.flops == step_flops(needs.operators, Load(new=1, context=999))


def test_a_lone_token_reads_only_its_experts():
    found = read_card(public_card("Qwen--Qwen3-30B-A3B"), name="moe")
    needs = found.needs[0]
    experts = stored_bytes([item for item in needs.tensors if item.part is Part.EXPERT], Stored())
    one, many = (step_traffic(needs, Stored(), Load(new=1, context=10, batch=size)) for size in (1, 4096))
    rows = 4095 * 2 * 2048  # of the embedding, for the other tokens
    assert one.weight_bytes == pytest.approx(many.weight_bytes - rows - experts * 120 / 128, rel=1e-6)


def test_quantized_weights_and_caches_are_read_in_their_own_bytes():
    needs = read_card(public_card("Qwen--Qwen3-8B"), name="q").needs[0]
    load = Load(new=1, context=4095, batch=8)
    plain = step_traffic(needs, Stored(), load)
    small = step_traffic(needs, Stored(quantization=Quantization.FP8_BLOCK), load, cache_dtype=Dtype.FP8)
    assert small.weight_bytes < 0.65 * plain.weight_bytes
    assert 2 * sum(row.cache_bytes for row in small.operators) == sum(row.cache_bytes for row in plain.operators)
    assert 2 * small.cache_written_bytes == plain.cache_written_bytes


@given(new=st.integers(1, 64), context=st.integers(0, 5000), batch=st.integers(1, 32))
def test_more_work_never_moves_fewer_bytes(new, context, batch):
    needs = read_card(public_card("openai--gpt-oss-20b"), name="oss").needs[0]
    base = step_traffic(needs, Stored(), Load(new=new + 1, context=context, batch=batch)).moved_bytes
    for more in (
        Load(new=new + 2, context=context, batch=batch),
        Load(new=new + 1, context=context + 1, batch=batch),
        Load(new=new + 1, context=context, batch=batch + 1),
    ):
        assert step_traffic(needs, Stored(), more).moved_bytes >= base
