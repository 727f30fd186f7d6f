"""Mixtures of experts against transformers: parameters to the last one, cache bytes, FLOPs.

Scores that balance a router are stored with the weights, but transformers keeps them as buffers: they aren't among the
parameters here, either.
"""

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import Step3p7TextConfig, Step3p7TextModel

from accord.estimate.work import flops_table, step_flops
from accord.models.card import Card, Json
from accord.models.families.decoders import llama4, moe
from accord.models.read import read_card
from accord.terms.architecture import Architecture
from accord.terms.errors import BadInput
from accord.terms.tensors import Dtype, Split, Tensor
from accord.terms.work import Experts, Load
from tests.models import peers
from tests.models.cards import public_card, public_cards_of
from tests.models.decoders import check_beyond_the_window, check_catalog, check_small

_BASE: dict[str, Json] = {
    "hidden_size": 96, "intermediate_size": 160, "num_hidden_layers": 4, "num_attention_heads": 6,
    "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 320, "max_position_embeddings": 512,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
_MANY: dict[str, Json] = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
_GLM: dict[str, Json] = {
    "n_routed_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "first_k_dense_replace": 1,
    "n_shared_experts": 2,
}  # fmt: skip
_SMALL: dict[str, dict[str, Json]] = {
    "mixtral": {"model_type": "mixtral", "num_local_experts": 6},
    "mixtral with a window": {"model_type": "mixtral", "num_local_experts": 6, "sliding_window": 16},
    "qwen2_moe": {"model_type": "qwen2_moe", **_MANY, "shared_expert_intermediate_size": 48},
    "qwen2_moe with windows": {
        "model_type": "qwen2_moe", **_MANY, "shared_expert_intermediate_size": 48, "decoder_sparse_step": 2,
        "use_sliding_window": True, "sliding_window": 16, "max_window_layers": 3,
    },
    "qwen3_moe": {"model_type": "qwen3_moe", **_MANY},
    "qwen3_moe, some dense": {"model_type": "qwen3_moe", **_MANY, "decoder_sparse_step": 2, "mlp_only_layers": [3]},
    "glm4_moe": {"model_type": "glm4_moe", **_GLM, "attention_bias": True},
    "glm4_moe with groups": {"model_type": "glm4_moe", **_GLM, "use_qk_norm": True, "n_group": 3, "topk_group": 2},
    "gpt_oss": {"model_type": "gpt_oss", "num_local_experts": 6, "sliding_window": 16},
    "minimax_m2": {"model_type": "minimax_m2", "num_local_experts": 6, "num_experts_per_tok": 2, "rotary_dim": 8},
    "mimo_v2_flash": {
        "model_type": "mimo_v2_flash", "head_dim": 24, "v_head_dim": 16, "n_routed_experts": 6,
        "num_experts_per_tok": 2, "moe_intermediate_size": 32, "num_key_value_heads": 1, "sliding_window": 16,
    },
}  # fmt: skip
_KNOWN = ("mixtral", "qwen2_moe", "qwen3_moe", "glm4_moe", "gpt_oss", "minimax_m2", "mimo_v2_flash")


@pytest.mark.parametrize("name", public_cards_of(*_KNOWN))
def test_parameters_equal_transformers(name):
    card = public_card(name)
    read = read_card(card, name=name)
    assert read.parameters == peers.parameters_of(peers.meta_model(peers.config_of(card)))
    assert read.unread == ()


@pytest.mark.parametrize(
    "name",
    ["mixtral-8x7b", "qwen3-30b-a3b", "qwen3-235b-a22b", "glm-4.5-air", "glm-4.5", "gpt-oss-20b", "gpt-oss-120b",
     "minimax-m2.5", "mimo-v2-flash"],
)  # fmt: skip
def test_catalog_cards_equal_transformers(name):
    check_catalog(name)


def test_the_catalog_has_step_with_its_eyes():
    check_catalog("step-3.7-flash", peers.AutoModelForImageTextToText)


@pytest.mark.parametrize("kind", _SMALL)
def test_a_small_model_has_our_parameters_cache_and_flops(kind):
    check_small({**_BASE, **_SMALL[kind]})


@pytest.mark.parametrize(
    ("kind", "windows", "width"),
    [
        ("mixtral with a window", 4, 2 * 2 * 16),
        ("qwen2_moe with windows", 2, 2 * 2 * 16),
        ("gpt_oss", 2, 2 * 2 * 16),
        ("mimo_v2_flash", 3, 2 * (24 + 16)),
    ],
)
def test_windows_bound_cache_and_flops(kind, windows, width):
    check_beyond_the_window({**_BASE, **_SMALL[kind]}, tokens=40, windows=windows, width=width)


def test_mimo_sees_its_window_and_itself():
    # transformers' comment: the reference engine attends to `sliding_window_size` tokens before the query's own.
    read = read_card(public_card("XiaomiMiMo--MiMo-V2-Flash"), name="mimo")
    assert {group.name: (group.window, group.heads) for group in read.needs[0].cache} == {
        "attention": (None, 4),
        "attention.window": (129, 8),
    }


def test_what_a_nested_card_leaves_out_is_transformers_default():
    below = Card({"text_config": {"model_type": "qwen3_moe"}}).sub("text_config")
    theirs = peers.parameters_of(peers.meta_model(peers.config_of({"model_type": "qwen3_moe"})))
    assert moe.build(below, "qwen3_moe").parameters == theirs


_LLAMA4: dict[str, Json] = {
    **_BASE, "model_type": "llama4_text", "intermediate_size_mlp": 200, "num_local_experts": 4,
    "num_experts_per_tok": 4, "interleave_moe_layer_step": 2, "attention_chunk_size": 16,
}  # fmt: skip


@pytest.mark.parametrize(
    "change", [{}, {"interleave_moe_layer_step": 1}, {"moe_layers": [3]}, {"attention_bias": True}]
)
def test_llama4_has_our_parameters_cache_and_flops(change):
    # transformers computes all experts for each token, so all are chosen here.
    check_small({**_LLAMA4, **change})


def test_llama4_chunks_bound_the_cache():
    groups = read_card(_LLAMA4, name="llama4").needs[0].cache
    assert {group.name: (group.layers, group.window) for group in groups} == {
        "attention": ((3,), None),
        "attention.chunk": ((0, 1, 2), 16),
    }


@pytest.mark.parametrize("name", public_cards_of("llama4"))
def test_the_text_of_llama4_equals_transformers(name):
    values = public_card(name)["text_config"]
    assert isinstance(values, Mapping)
    theirs = peers.parameters_of(peers.meta_model(peers.config_of(values)))
    assert llama4.build(Card({"text_config": values}).sub("text_config"), name).parameters == theirs


# The names that StepFun's published cards use (stepfun-ai/Step-3.5-Flash), which transformers understands, too.
_STEP: dict[str, Json] = {
    **_BASE, "num_attention_groups": 2, "moe_num_experts": 6, "moe_top_k": 2, "moe_intermediate_size": 32,
    "share_expert_dim": 40, "moe_layers_enum": "2,3", "sliding_window": 16, "num_nextn_predict_layers": 1,
    "layer_types": ["full_attention", *["sliding_attention"] * 3, "full_attention"],
    "attention_other_setting": {"attention_type": "sliding_attention", "num_attention_heads": 8,
                                "num_attention_groups": 2, "head_dim": 16, "true_head_dim": 16},
    "model_type": "step3p5",
}  # fmt: skip
_SIGHT: dict[str, Json] = {"width": 32, "layers": 2, "heads": 4, "image_size": 112, "patch_size": 14, "mlp_ratio": 2.5}


def test_a_small_step_has_our_parameters_cache_and_flops():
    # transformers takes `model_type` of the text from the class; `num_key_value_heads` is another word for the groups.
    plain = {key: value for key, value in _STEP.items() if key not in ("model_type", "num_key_value_heads")}
    whole: dict[str, Json] = {"model_type": "step3p7", "text_config": plain, "vision_config": _SIGHT}
    check_small(whole, peers.AutoModelForImageTextToText)
    read = read_card(whole, name="step")
    assert read.of("decoder").parameters == read_card(_STEP, name="text").parameters
    assert read.unread == ()


def test_a_step_reads_pictures():
    # One view of 112 x 112: 64 patches, which two convolutions of stride 2 make 4 tokens.
    card: dict[str, Json] = {"model_type": "step3p7", "text_config": _STEP, "vision_config": _SIGHT}
    config = peers.config_of({**card, "text_config": {**_STEP, "model_type": "step3p5"}})
    model = peers.small_model(config, peers.AutoModelForImageTextToText)
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        seen = model.model.get_image_features(torch.zeros(1, 3, 112, 112))
    assert seen.pooler_output[0].shape[-2:] == (4, 96)
    counted = step_flops(read_card(card, name="step").of("vision").operators, Load(new=64))
    assert counted == pytest.approx(counter.get_total_flops(), rel=0.01)


def test_the_flat_step_card_equals_transformers():
    # The public card is flat and without a tower; transformers has text and tower together, so the text model's own
    # parameters and those of the logits are compared.
    card = public_card("stepfun-ai--Step-3.7-Flash")
    renamed = {"num_experts": "n_routed_experts", "first_k_dense_replace": "", "model_type": "", "n_shared_experts": ""}
    values: dict[str, Any] = {renamed.get(key, key): value for key, value in card.items()}
    config = Step3p7TextConfig(**{key: value for key, value in values.items() if key})
    logits = config.vocab_size * config.hidden_size
    ours = read_card(card, name="step")
    with torch.device("meta"):
        theirs = Step3p7TextModel(config)
    assert ours.parameters == peers.parameters_of(theirs) + logits
    assert ours.unread == ()


def test_experts_are_dealt_out_and_routers_are_not():
    tensors = _tensors(read_card(public_card("openai--gpt-oss-20b"), name="gpt-oss"))
    assert (tensors["experts.up"].split, tensors["experts.up"].inner) == (Split.EXPERTS, Split.ROWS)
    assert (tensors["experts.down"].split, tensors["experts.down"].inner) == (Split.EXPERTS, Split.COLUMNS)
    assert tensors["experts.up"].copies == 32
    assert tensors["experts.router"].split is Split.NONE
    assert not tensors["experts.router"].quantizable
    assert tensors["attention.sinks"].split is Split.ROWS


def test_scores_that_balance_a_router_are_stored_in_float32():
    tensors = _tensors(read_card(public_card("MiniMaxAI--MiniMax-M2.5"), name="minimax"))
    assert tensors["experts.correction"].buffer
    assert tensors["experts.correction"].dtype is Dtype.F32


@pytest.mark.parametrize(("name", "gib"), [("openai--gpt-oss-20b", 12.8), ("openai--gpt-oss-120b", 60.8)])
def test_mxfp4_weights_have_the_published_size(name, gib):
    # Table 1 of the model card (arXiv 2508.10925): checkpoint sizes in GiB.
    assert read_card(public_card(name), name=name).graph.stages[0].weights_bytes / 2**30 == pytest.approx(gib, abs=0.05)


def test_chosen_experts_alone_count_as_work():
    # 4 of 128 experts a token: 2 FLOPs for each of 3 matrices of 2880 x 2880, in 36 layers.
    needs = read_card(public_card("openai--gpt-oss-120b"), name="gpt-oss").needs[0]
    (row,) = [row for row in flops_table(needs.operators, Load(new=7, context=5)) if row.name == "experts"]
    assert row.flops == 7 * 4 * 36 * 3 * 2 * 2880 * 2880
    assert [item.experts for item in needs.operators if isinstance(item, Experts)] == [128]


@pytest.mark.parametrize(
    ("kind", "change", "field"),
    [
        ("glm4_moe with groups", {"n_group": 4}, "n_routed_experts"),
        ("glm4_moe with groups", {"topk_group": 4}, "topk_group"),
        ("glm4_moe with groups", {"num_experts_per_tok": 5}, "num_experts_per_tok"),
        ("mixtral", {"num_experts_per_tok": 7}, "num_experts_per_tok"),
        ("qwen3_moe", {"mlp_only_layers": [-1]}, "mlp_only_layers"),
        ("gpt_oss", {"layer_types": ["full_attention"]}, "layer_types"),
        ("gpt_oss", {"sliding_window": None}, "sliding_window"),
        ("minimax_m2", {"shared_intermediate_size": 64}, "shared_intermediate_size"),
        ("mimo_v2_flash", {"moe_layer_freq": [0, 1, 2, 1]}, "moe_layer_freq"),
    ],
)
def test_a_wrong_figure_is_named(kind, change, field):
    if kind == "gpt_oss":
        change = {"layer_types": ["full_attention", "sliding_attention"] * 2, **change}
    with pytest.raises(BadInput) as caught:
        read_card({**_BASE, **_SMALL[kind], **change}, name="wrong")
    assert caught.value.field == field


def _tensors(read: Architecture) -> dict[str, Tensor]:
    return {tensor.name: tensor for tensor in read.needs[0].tensors}
