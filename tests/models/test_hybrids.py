"""Hybrids of recurrence and attention against transformers: parameters to the last one, cache bytes, FLOPs.

Small models run in bfloat16, because states have dtypes of their own: the convolution's inputs are kept in the
model's dtype, recurrent states in float32 (lightning attention's in the model's).
"""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import accord.models
from accord.estimate.cache import group_bytes, request_bytes
from accord.estimate.work import step_flops
from accord.models.card import Json
from accord.models.read import read_card
from accord.terms.cache import CacheKind
from accord.terms.errors import BadInput
from accord.terms.tensors import Dtype, Split
from accord.terms.work import Load, Phase, Scan
from tests.models import peers
from tests.models.cards import public_card, public_cards

_KINDS = ("qwen3_5", "qwen3_5_moe", "nemotron_h")
_PUBLIC = tuple(name for name in public_cards() if public_card(name)["model_type"] in _KINDS)
_CATALOG = Path(accord.models.__file__).parent / "cards"
_NAMES = (
    "qwen3-next-80b-a3b", "qwen3.5-27b", "qwen3.5-35b-a3b", "qwen3.5-397b-a17b", "kimi-linear-48b-a3b",
    "minimax-text-01", "nemotron-3-nano-30b-a3b", "nemotron-3-super-120b-a12b", "nemotron-h-56b", "jamba-1.5-mini",
    "bamba-9b", "lfm2-1.2b",
)  # fmt: skip

_BASE: dict[str, Json] = {
    "hidden_size": 256, "intermediate_size": 320, "num_hidden_layers": 4, "vocab_size": 320, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 64,
}  # fmt: skip
_DELTA: dict[str, Json] = {
    "linear_key_head_dim": 32, "linear_value_head_dim": 48, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
}  # fmt: skip
_MAMBA: dict[str, Json] = {"mamba_n_heads": 8, "mamba_n_groups": 2, "mamba_d_state": 48, "mamba_chunk_size": 16}
_SMALL: dict[str, dict[str, Json]] = {
    "qwen3_next": {**_BASE, **_DELTA, "model_type": "qwen3_next", "num_experts": 8, "num_experts_per_tok": 2,
                   "moe_intermediate_size": 96, "shared_expert_intermediate_size": 64, "mlp_only_layers": [1]},
    "qwen3_5_text": {**_BASE, **_DELTA, "model_type": "qwen3_5_text", "tie_word_embeddings": True,
                     "attention_bias": True},
    "qwen3_5_moe_text": {**_BASE, **_DELTA, "model_type": "qwen3_5_moe_text", "num_experts": 8,
                         "num_experts_per_tok": 3, "moe_intermediate_size": 96, "linear_conv_kernel_dim": 3},
    "minimax": {**_BASE, "model_type": "minimax", "num_local_experts": 4, "block_size": 16},
    "nemotron_h": {**_BASE, "model_type": "nemotron_h", "num_hidden_layers": 5, "hybrid_override_pattern": "ME*-M",
                   "mamba_num_heads": 8, "mamba_head_dim": 32, "n_groups": 2, "ssm_state_size": 48, "chunk_size": 16,
                   "n_routed_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 96,
                   "moe_shared_expert_intermediate_size": 128, "moe_latent_size": 64, "use_bias": True,
                   "mlp_bias": False},
    "bamba": {**_BASE, **_MAMBA, "model_type": "bamba", "attn_layer_indices": [2], "mlp_bias": True},
    "granitemoehybrid": {**_BASE, **_MAMBA, "model_type": "granitemoehybrid", "num_local_experts": 8,
                         "layer_types": ["linear_attention", "full_attention", "linear_attention", "linear_attention"],
                         "shared_intermediate_size": 96},
    "falcon_h1": {**_BASE, **_MAMBA, "model_type": "falcon_h1", "mamba_d_ssm": 384, "mamba_n_heads": 8,
                  "projectors_bias": True, "mamba_rms_norm": True, "num_hidden_layers": 2},
    "lfm2": {**_BASE, "model_type": "lfm2", "full_attn_idxs": [1, 3], "conv_bias": True},
    "lfm2_moe": {**_BASE, "model_type": "lfm2_moe", "num_experts": 8, "moe_intermediate_size": 96,
                 "layer_types": ["conv", "full_attention", "conv", "conv"]},
    "jamba": {**_BASE, "model_type": "jamba", "num_experts": 4, "attn_layer_period": 2, "attn_layer_offset": 1,
              "mamba_d_state": 12, "mamba_dt_rank": 20},
}  # fmt: skip
_KIMI_LAYERS: dict[str, Json] = {
    "full_attn_layers": [2, 4], "kda_layers": [1, 3], "head_dim": 32, "num_heads": 4, "short_conv_kernel_size": 4,
}  # fmt: skip
_KIMI: dict[str, Json] = {
    **_BASE, "model_type": "kimi_linear", "num_key_value_heads": 4, "kv_lora_rank": 64, "qk_rope_head_dim": 16,
    "qk_nope_head_dim": 32, "v_head_dim": 32, "num_experts": 8, "num_experts_per_token": 2,
    "moe_intermediate_size": 96, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "linear_attn_config": _KIMI_LAYERS,
}  # fmt: skip


def _catalog(name):
    return json.loads((_CATALOG / f"{name}.json").read_text())


def _meta_parameters(card):
    composed = "vision_config" in card
    kind = peers.AutoModelForImageTextToText if composed else peers.AutoModelForCausalLM
    return peers.parameters_of(peers.meta_model(peers.config_of(card), kind))


@pytest.mark.parametrize("name", _PUBLIC)
def test_public_cards_have_transformers_parameters_and_no_unread_keys(name):
    card = public_card(name)
    read = read_card(card, name=name)
    assert read.parameters == _meta_parameters(card)
    assert set(read.unread) <= {"quantization_config"}


@pytest.mark.parametrize("name", _NAMES)
def test_catalog_cards_have_transformers_parameters_and_the_published_count(name):
    entry = _catalog(name)
    read = read_card(entry["card"], name=name)
    config = dict(entry["card"])
    if name == "minimax-text-01":  # transformers has another word for which layers attend
        config["layer_types"] = [("linear_attention", "full_attention")[kind] for kind in config.pop("attn_type_list")]
    assert read.parameters == _meta_parameters(config)
    assert read.parameters == pytest.approx(entry["published"]["parameters"], rel=0.025)
    assert read.unread == ()


def test_both_parts_of_a_composed_card_have_transformers_parameters():
    card = _catalog("qwen3.5-35b-a3b")["card"]
    model: Any = peers.meta_model(peers.config_of(card), peers.AutoModelForImageTextToText)
    read = read_card(card, name="qwen")
    vision = peers.parameters_of(model.model.visual)
    assert [item.parameters for item in read.needs] == [vision, peers.parameters_of(model) - vision]


@pytest.mark.parametrize("kind", _SMALL)
def test_a_small_model_has_our_parameters_cache_and_flops(kind):
    card = _SMALL[kind]
    needs = read_card(card, name=kind).needs[0]
    model = peers.small_model(peers.config_of(card)).to(torch.bfloat16)
    assert needs.parameters == peers.parameters_of(model)

    first = peers.run(model, new=20, batch=2)
    counted = step_flops(needs.operators, Load(new=20, batch=2), rectangle=True)
    assert counted == pytest.approx(first.flops, rel=0.01)
    assert 2 * request_bytes(needs.cache, tokens=20, dtype=Dtype.BF16) == peers.cache_bytes(first.cache)

    then = peers.run(model, new=1, batch=2, cache=first.cache)
    counted = step_flops(needs.operators, Load(new=1, context=20, batch=2), rectangle=True)
    assert counted == pytest.approx(then.flops, rel=0.01)
    assert 2 * request_bytes(needs.cache, tokens=21, dtype=Dtype.BF16) == peers.cache_bytes(then.cache)


def test_a_small_kimi_linear_has_our_parameters_cache_and_flops():
    """transformers expands cached latents in each decode step, so all but the recurrence is compared as a prefill."""
    needs = read_card(_KIMI, name="kimi").needs[0]
    model = peers.small_model(peers.config_of(_KIMI)).to(torch.bfloat16)
    assert needs.parameters == peers.parameters_of(model)

    first = peers.run(model, new=20, batch=2)
    counted = step_flops(needs.operators, Load(new=20, batch=2), rectangle=True)
    assert counted == pytest.approx(first.flops, rel=0.01)
    assert 2 * request_bytes(needs.cache, tokens=20, dtype=Dtype.BF16) == peers.cache_bytes(first.cache)

    then = peers.run(model, new=1, batch=2, cache=first.cache)
    load = Load(new=1, context=20, batch=2)
    rest = tuple(item for item in needs.operators if not isinstance(item, Scan))
    scans = tuple(item for item in needs.operators if isinstance(item, Scan))
    counted = step_flops(rest, load, phase=Phase.PREFILL, rectangle=True) + step_flops(scans, load, rectangle=True)
    assert counted == pytest.approx(then.flops, rel=0.01)


@pytest.mark.parametrize("kind", [kind for kind in _SMALL if not kind.startswith("lfm2")])
def test_decoding_needs_a_little_more_than_torch_sees(kind):
    """The counter is blind to elementwise recurrences, which are a small part of a step; ours aren't left out."""
    needs = read_card(_SMALL[kind], name=kind).needs[0]
    load = Load(new=1, context=20)
    needed, charged = step_flops(needs.operators, load), step_flops(needs.operators, load, rectangle=True)
    assert charged < needed < 1.1 * charged


def _vllm_state_bytes(shapes):
    return sum(torch.tensor(shape).prod().item() * size for shape, size in shapes)


def test_states_are_vllms_plus_one_input_of_the_convolution():
    """vLLM's shapes (mamba_utils.py, v0.30): (conv_dim, kernel - 1) in the model's dtype, and the recurrent state.

    transformers keeps `kernel` inputs, of which the oldest isn't read again.
    """
    qwen = read_card(_catalog("qwen3.5-27b")["card"], name="qwen").of("decoder")
    conv_dim, layers = 2 * 16 * 128 + 48 * 128, 48
    expected = layers * (_vllm_state_bytes([((conv_dim, 3), 2), ((48, 128, 128), 4)]) + conv_dim * 2)
    assert _state_bytes(qwen) == expected

    nemotron = read_card(_catalog("nemotron-h-56b")["card"], name="nemotron").of("decoder")
    conv_dim, layers = 256 * 64 + 2 * 8 * 256, 54
    expected = layers * (_vllm_state_bytes([((conv_dim, 3), 2), ((256, 64, 256), 4)]) + conv_dim * 2)
    assert _state_bytes(nemotron) == expected


def _state_bytes(needs):
    return sum(group_bytes(item, tokens=5, dtype=Dtype.BF16) for item in needs.cache if item.kind is CacheKind.STATE)


def test_a_card_may_choose_the_states_dtype():
    card = _SMALL["qwen3_next"]
    usual = read_card(card, name="usual")
    narrow = read_card({**card, "mamba_ssm_dtype": "bfloat16"}, name="narrow")
    values = 3 * 4 * 32 * 48
    assert _state_bytes(usual.needs[0]) - _state_bytes(narrow.needs[0]) == 2 * values
    assert any("float32" in remark for remark in usual.remarks)
    assert not narrow.remarks


def test_the_original_card_of_minimax_reads_like_transformers_own():
    card = _SMALL["minimax"]
    kinds = ["linear_attention", "full_attention", "linear_attention", "linear_attention"]
    ours = read_card({**card, "layer_types": kinds}, name="new").needs[0]
    old = {**card, "model_type": "minimax_text_01", "attn_type_list": [0, 1, 0, 0], "shared_intermediate_size": [0]}
    assert read_card(old, name="old").needs[0] == ours


def test_words_and_letters_name_the_same_layers_of_nemotron():
    card = _SMALL["nemotron_h"]
    words = ["mamba", "moe", "attention", "mlp", "mamba"]
    rest = {key: value for key, value in card.items() if key not in ("hybrid_override_pattern", "num_hidden_layers")}
    assert read_card({**rest, "layers_block_type": words}, name="a").needs == read_card(card, name="b").needs


@pytest.mark.parametrize(
    ("kind", "change", "field"),
    [
        ("qwen3_next", {"linear_num_value_heads": 5}, "linear_num_value_heads"),
        ("qwen3_next", {"layer_types": ["linear_attention"]}, "layer_types"),
        ("qwen3_next", {"num_experts_per_tok": 9}, "num_experts_per_tok"),
        ("qwen3_next", {"mamba_ssm_dtype": "int3"}, "mamba_ssm_dtype"),
        ("qwen3_5_text", {"head_dim": -1}, "head_dim"),
        ("nemotron_h", {"hybrid_override_pattern": "MEX-M"}, "hybrid_override_pattern"),
        ("nemotron_h", {"hybrid_override_pattern": "ME"}, "num_hidden_layers"),
        ("nemotron_h", {"n_groups": 3}, "mamba_num_heads"),
        ("nemotron_h", {"layers_block_type": ["mamba", "lstm"]}, "layers_block_type"),
        ("minimax", {"attn_type_list": [0, 2, 0, 0]}, "attn_type_list"),
        ("minimax", {"shared_intermediate_size": 8}, "shared_intermediate_size"),
        ("bamba", {"mamba_d_head": 100}, "mamba_d_head"),
        ("bamba", {"attn_layer_indices": [4]}, "attn_layer_indices"),
        ("falcon_h1", {"mamba_d_ssm": 100}, "mamba_n_heads"),
        ("lfm2", {"layer_types": ["conv"]}, "layer_types"),
        ("jamba", {"attn_layer_offset": 2}, "attn_layer_offset"),
        ("jamba", {"mamba_dt_rank": "many"}, "mamba_dt_rank"),
    ],
)
def test_a_wrong_figure_is_named(kind, change, field):
    with pytest.raises(BadInput) as caught:
        read_card({**_SMALL[kind], **change}, name=kind)
    assert caught.value.field == field
    assert caught.value.fix


@st.composite
def _random_cards(draw):
    """Legal figures of a Nemotron-H or a Qwen3-Next, in sizes that nobody released."""
    heads, groups = draw(st.sampled_from([1, 2, 6])), draw(st.sampled_from([1, 2, 3]))
    figures = {
        "hidden_size": draw(st.integers(1, 9)) * 24, "intermediate_size": draw(st.integers(1, 300)),
        "vocab_size": draw(st.integers(9, 500)), "num_attention_heads": 6, "num_key_value_heads": heads,
        "head_dim": draw(st.sampled_from([8, 20])), "num_experts_per_tok": 1,
        "moe_intermediate_size": draw(st.integers(1, 99)),
    }  # fmt: skip
    if draw(st.booleans()):
        return figures | {
            "model_type": "qwen3_next", "num_hidden_layers": draw(st.integers(1, 9)), "num_experts": 3,
            "full_attention_interval": draw(st.integers(1, 5)), "linear_num_key_heads": groups,
            "linear_num_value_heads": 6, "linear_key_head_dim": draw(st.integers(1, 40)),
            "linear_value_head_dim": draw(st.integers(1, 40)), "linear_conv_kernel_dim": draw(st.integers(1, 5)),
            "decoder_sparse_step": draw(st.integers(1, 3)), "tie_word_embeddings": draw(st.booleans()),
        }  # fmt: skip
    return figures | {
        "model_type": "nemotron_h", "hybrid_override_pattern": draw(st.text("ME*-", min_size=1, max_size=9)),
        "mamba_num_heads": 6, "mamba_head_dim": draw(st.integers(1, 40)), "n_groups": groups, "n_routed_experts": 3,
        "ssm_state_size": draw(st.integers(1, 40)), "conv_kernel": draw(st.integers(1, 5)),
        "moe_latent_size": draw(st.sampled_from([None, 16])), "use_bias": draw(st.booleans()),
        "use_conv_bias": draw(st.booleans()), "mlp_bias": draw(st.booleans()),
    }  # fmt: skip


@settings(max_examples=20, deadline=None)
@given(_random_cards())
def test_random_legal_cards_have_transformers_parameters(card):
    needs = read_card(card, name="random").needs[0]
    assert needs.parameters == _meta_parameters(card)
    for tensor in needs.tensors:
        if tensor.split in (Split.ROWS, Split.KV_ROWS, Split.COLUMNS):
            divided = tensor.columns if tensor.split is Split.COLUMNS else tensor.rows
            assert divided % tensor.pieces == 0, tensor


def test_kimi_layers_must_be_named_once():
    lists = {**_KIMI_LAYERS, "kda_layers": [1, 2]}
    with pytest.raises(BadInput) as caught:
        read_card({**_KIMI, "linear_attn_config": lists}, name="kimi")
    assert caught.value.field == "linear_attn_config.kda_layers"
