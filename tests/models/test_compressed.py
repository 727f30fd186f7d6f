"""DeepSeek-V4 against transformers: parameters to the last one, cache bytes, FLOPs.

Tables of hash routing and scores that balance experts are buffers there and here. transformers keeps one entry less
in a window, and only those tokens that wait for their compressed entry; engines give both their full room. In layers
with a window alone it stores the keys a second time, as values.
"""

import pytest
import torch

from accord.estimate.cache import group_bytes, request_bytes
from accord.estimate.work import step_flops
from accord.models.card import Json
from accord.models.read import read_card
from accord.terms.architecture import Needs
from accord.terms.cache import CacheKind
from accord.terms.errors import BadInput
from accord.terms.tensors import Dtype
from accord.terms.work import Load
from tests.models import peers
from tests.models.cards import public_card, public_cards

# `deepseek_ref` is the same model under the name of its reference code.
_KINDS = ("deepseek_v4", "deepseek_ref")
_CARDS = tuple(name for name in public_cards() if public_card(name)["model_type"] in _KINDS)

_WINDOW = 32
_SMALL: dict[str, Json] = {
    "model_type": "deepseek_v4", "hidden_size": 128, "moe_intermediate_size": 96, "num_hidden_layers": 5,
    "num_attention_heads": 8, "head_dim": 32, "q_lora_rank": 48, "o_groups": 2, "o_lora_rank": 24,
    "n_routed_experts": 8, "num_experts_per_tok": 3, "num_hash_layers": 2, "hc_mult": 4, "sliding_window": _WINDOW,
    "index_n_heads": 4, "index_head_dim": 16, "index_topk": 4, "compress_ratios": [0, 128, 4, 128, 4, 0],
    "compress_rate_hca": 8, "vocab_size": 320, "max_position_embeddings": 512,
}  # fmt: skip


@pytest.mark.parametrize("name", _CARDS)
def test_parameters_equal_transformers(name):
    card = public_card(name)
    read = read_card(card, name=name)
    model = peers.meta_model(peers.config_of({**card, "model_type": "deepseek_v4"}))
    assert read.parameters == peers.parameters_of(model)
    assert set(read.unread) <= {"quantization_config", "expert_dtype"}


@pytest.mark.parametrize("changes", [{}, {"compress_ratios": None}, {"n_shared_experts": 1, "num_hash_layers": 0}])
def test_a_small_model_has_our_parameters_and_flops(changes):
    card = {**_SMALL, **changes}
    needs = read_card(card, name="small").needs[0]
    model = peers.small_model(peers.config_of(card))
    assert needs.parameters == peers.parameters_of(model)

    first = peers.run(model, new=18, batch=2)
    counted = step_flops(needs.operators, Load(new=18, batch=2), rectangle=True)
    assert counted == pytest.approx(first.flops, rel=0.01)
    then = peers.run(model, new=1, batch=2, cache=first.cache)
    counted = step_flops(needs.operators, Load(new=1, context=18, batch=2), rectangle=True)
    assert counted == pytest.approx(then.flops, rel=0.01)


@pytest.mark.parametrize("tokens", [7, 16, 31, 50])
def test_a_small_model_keeps_our_entries(tokens):
    needs = read_card(_SMALL, name="small").needs[0]
    cache = peers.run(peers.small_model(peers.config_of(_SMALL)), new=tokens).cache
    kept = peers.cache_bytes(cache)
    waiting = sum(peers.cache_bytes(held) for layer in cache.layers for held in _states(layer))
    missing = 5 * 32 * 4 if tokens >= _WINDOW else 0
    twice = sum(peers.cache_bytes(layer.values) for layer in cache.layers if layer.values is not layer.keys)
    assert all(torch.equal(layer.keys, layer.values) for layer in cache.layers)
    assert _entries(needs, tokens=tokens) == kept - waiting - twice + missing
    states = sum(group_bytes(group, tokens=tokens, dtype=Dtype.F32) for group in _of(needs, state=True))
    assert 0 < waiting <= states


def test_compressors_keep_what_vllm_gives_them_room_for():
    """vLLM's CompressorStateCache: float32 values and gates of 2 x 4 tokens (with overlap) or 128 tokens."""
    needs = read_card(public_card("deepseek-ai--DeepSeek-V4-Flash"), name="v4").needs[0]
    sparse, heavy = 21, 20
    states = sum(group_bytes(group, tokens=1, dtype=Dtype.BF16) for group in _of(needs, state=True))
    assert states == 4 * (sparse * 8 * (2 * 2 * 512 + 2 * 2 * 128) + heavy * 128 * (2 * 512))


def test_a_long_context_keeps_compressed_entries_only():
    """What a million tokens add beyond 1024: a fourth and a 128th of 512 values, and a fourth of 128 index values."""
    needs = read_card(public_card("deepseek-ai--DeepSeek-V4-Flash"), name="v4").needs[0]
    near, far = (request_bytes(needs.cache, tokens=tokens, dtype=Dtype.BF16) for tokens in (1024, 1 << 20))
    more = (1 << 20) - 1024
    assert far - near == 2 * (21 * more // 4 * (512 + 128) + 20 * more // 128 * 512)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("compress_ratios", [0, 4, 16, 4, 4]), ("compress_ratios", [4]), ("num_key_value_heads", 2),
        ("num_attention_heads", 9), ("num_experts_per_tok", 9), ("layer_types", ["full_attention"] * 5),
        ("attention_bias", True), ("hc_mult", 0), ("topk_method", "greedy"),
    ],
)  # fmt: skip
def test_a_wrong_figure_is_named(field, value):
    with pytest.raises(BadInput) as caught:
        read_card({**_SMALL, field: value}, name="small")
    assert caught.value.field == field


def test_version_4_1_is_refused_with_its_reason():
    with pytest.raises(BadInput, match="no family knows"):
        read_card({"model_type": "deepseek_v41", "text_config": dict(_SMALL)}, name="v4.1")
    with pytest.raises(BadInput, match="n-grams"):
        read_card({"model_type": "deepseek_v41", "text_config": dict(_SMALL)}, name="v4.1", like="deepseek_v4")
    with pytest.raises(BadInput, match="a decoder alone"):
        read_card({"model_type": "deepseek_v41", "text_config": dict(_SMALL)}, name="v4.1", like="sparse-index")


def _of(needs: Needs, *, state: bool):
    return [group for group in needs.cache if (group.kind is CacheKind.STATE) == state]


def _entries(needs: Needs, *, tokens: int) -> int:
    return sum(group_bytes(group, tokens=tokens, dtype=Dtype.F32) for group in _of(needs, state=False))


def _states(layer):
    names = ("buffer_kv", "buffer_gate", "overlap_kv", "overlap_gate")
    return [getattr(layer, name) for name in names if hasattr(layer, name)]
