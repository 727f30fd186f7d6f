"""MiniMax-M3 against transformers: parameters to the last one, cache bytes, FLOPs, with and without its tower."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from accord.estimate.cache import request_bytes
from accord.estimate.work import step_flops
from accord.models.card import Json
from accord.models.read import read_card
from accord.terms.errors import BadInput
from accord.terms.tensors import Dtype
from accord.terms.work import Attention, Load
from tests.models import peers
from tests.models.cards import public_card

_ALONE = "MiniMaxAI--MiniMax-M3"
_COMPOSED = "nvidia--MiniMax-M3-NVFP4"

_TEXT: dict[str, Json] = {
    "hidden_size": 128, "intermediate_size": 64, "dense_intermediate_size": 192, "shared_intermediate_size": 64,
    "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 32, "rotary_dim": 16,
    "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 320, "max_position_embeddings": 512,
    "moe_layer_freq": [0, 1, 1, 1],
    "sparse_attention_config": {
        "sparse_num_index_heads": 2, "sparse_index_dim": 32, "sparse_block_size": 4, "sparse_topk_blocks": 8,
        "sparse_attention_freq": [0, 0, 1, 1],
    },
}  # fmt: skip
_SMALL: dict[str, Json] = {"model_type": "minimax_m3_vl_text", **_TEXT}
_SEEING: dict[str, Json] = {
    "model_type": "minimax_m3_vl", "text_config": _TEXT, "projector_hidden_size": 80,
    "vision_config": {"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
                      "image_size": 56, "patch_size": 14},
}  # fmt: skip


def test_parameters_equal_transformers():
    card = public_card(_COMPOSED)
    read = read_card(card, name="m3")
    model = peers.meta_model(peers.config_of(card), peers.AutoModelForImageTextToText)
    assert read.parameters == peers.parameters_of(model)
    assert set(read.unread) <= {"quantization_config"}


def test_the_decoder_alone_is_that_of_the_composed_card():
    """transformers doesn't know `minimax_m3`; the composed release has the same decoder."""
    alone = read_card(public_card(_ALONE), name="m3")
    assert alone.parameters == read_card(public_card(_COMPOSED), name="m3").of("decoder").parameters
    assert set(alone.unread) <= {"quantization_config"}


def test_a_small_model_has_our_parameters_cache_and_flops():
    needs = read_card(_SMALL, name="small").needs[0]
    model = peers.small_model(peers.config_of(_SMALL))
    assert needs.parameters == peers.parameters_of(model)

    first = peers.run(model, new=12, batch=2)
    counted = step_flops(needs.operators, Load(new=12, batch=2), rectangle=True)
    assert counted == pytest.approx(first.flops, rel=0.01)
    assert 2 * request_bytes(needs.cache, tokens=12, dtype=Dtype.F32) == peers.cache_bytes(first.cache)

    then = peers.run(model, new=1, batch=2, cache=first.cache)
    counted = step_flops(needs.operators, Load(new=1, context=12, batch=2), rectangle=True)
    assert counted == pytest.approx(then.flops, rel=0.01)


def test_a_small_tower_has_our_parameters_and_flops():
    read = read_card(_SEEING, name="small")
    model = peers.small_model(peers.config_of(_SEEING), peers.AutoModelForImageTextToText)
    assert read.parameters == peers.parameters_of(model)
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        model.model.get_image_features(torch.zeros(24, 3 * 2 * 14 * 14), torch.tensor([[1, 4, 6]]))
    assert step_flops(read.of("vision").operators, Load(new=24)) == pytest.approx(counter.get_total_flops(), rel=0.01)


def test_blocks_bound_what_attention_reads():
    """16 blocks of 128 keys of 64 heads in 57 layers; three layers and the indexer's 4 heads see everything."""
    needs = read_card(public_card(_ALONE), name="m3").needs[0]
    scores = [item for item in needs.operators if isinstance(item, Attention)]
    near, far = (step_flops(scores, Load(new=1, context=context)) for context in (2047, 32767))
    assert near == 2 * 2048 * (60 * 64 * 2 * 128 + 57 * 4 * 128)
    assert far - near == 2 * (32768 - 2048) * (3 * 64 * 2 * 128 + 57 * 4 * 128)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("moe_layer_freq", [1, 1]), ("moe_layer_freq", [0, 1, 1, 2]), ("attention_output_gate", True),
        ("num_key_value_heads", 4), ("num_experts_per_tok", 9), ("moe_intermediate_size", 32),
        ("mlp_layer_types", ["dense", "moe", "moe", "moe"]),
    ],
)  # fmt: skip
def test_a_wrong_figure_is_named(field, value):
    with pytest.raises(BadInput) as caught:
        read_card({**_SMALL, field: value}, name="small")
    assert caught.value.field == field
