"""How published weights are stored: held against checkpoints' sizes, and against the modules of transformers' models.

Which modules a card's settings name is decided here anew, by plain pattern matching on the names of transformers' own
modules; ours is told from tensors.
"""

import fnmatch
import re
from typing import Any

import pytest
import torch

from accord.edges.model_card import find_card
from accord.estimate.weights import format_of, stored_bytes
from accord.models.card import Json
from accord.models.read import read_card
from accord.terms.architecture import Architecture
from accord.terms.errors import BadInput
from accord.terms.tensors import Quantization
from tests.models import peers
from tests.models.cards import FOLDER, public_card, public_cards


def _read(name: str) -> Architecture:
    found = find_card(str(FOLDER / f"{name}_config.json"))
    return read_card(found.values, name=found.name)


def _quantized_values(made: Architecture) -> int:
    return sum(
        tensor.rows * tensor.columns * tensor.copies
        for _, needs, stored in made.rows()
        for tensor in needs.tensors
        for layer in tensor.layers or (None,)
        if format_of(tensor, stored, layer) is not None
    )


@pytest.mark.parametrize(
    ("name", "total", "within", "source"),
    [
        ("openai--gpt-oss-120b", 65_248_815_744, 0, "total_size of its index"),
        ("openai--gpt-oss-20b", 13_761_264_768, 0, "total_size of its index"),
        ("moonshotai--Kimi-K2.5", 595e9, 0.001, "its repository, 595 GB in 64 files"),
    ],
)
def test_a_checkpoint_has_its_published_bytes(name, total, within, source):
    made = _read(name)
    assert source
    held = sum(stored_bytes(needs.tensors, stored) for _, needs, stored in made.rows())
    assert abs(held - total) <= within * total


def _named(pattern: str, module: str) -> bool:
    if pattern.startswith("re:"):
        return re.match(pattern[3:], module) is not None
    return fnmatch.fnmatch(module, pattern) or fnmatch.fnmatch(module, pattern + ".*")


def _linear_values(card: dict[str, Json], ignored: list[str]) -> int:
    """Values of all matrices of linear layers and experts of transformers' model that no pattern names."""
    model = peers.meta_model(peers.config_of(card), peers.AutoModelForImageTextToText if "vision_config" in card
                             else peers.AutoModelForCausalLM)  # fmt: skip
    total = 0
    for module_name, module in model.named_modules():
        experts = module_name.endswith(".experts")
        if not experts and not isinstance(module, torch.nn.Linear):
            continue
        if any(_named(pattern, module_name) for pattern in ignored):
            continue
        sizes = [item.numel() for _, item in module.named_parameters(recurse=False) if item.dim() > 1]
        total += sum(sizes)
    return total


# transformers' routers and heads are linear layers, or not, as its version likes; releases never quantize them.
_NEVER = [
    "*.gate",
    "*.router*",
    "lm_head",
    "*.shared_expert_gate",
    "*.in_proj_a",
    "*.in_proj_b",
    "*.indexer.weights_proj",
]


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("nvidia--Qwen3-235B-A22B-NVFP4", "exclude_modules"),
        ("nvidia--Qwen3.5-122B-A10B-NVFP4", "ignore"),
        ("nvidia--GLM-5.1-NVFP4", "ignore"),
        ("nvidia--GLM-5-NVFP4", "exclude_modules"),
        ("nvidia--DeepSeek-V3.1-NVFP4", "exclude_modules"),
        ("nvidia--Gemma-4-26B-A4B-NVFP4", "ignore"),
        ("nvidia--Gemma-4-31B-IT-NVFP4", "ignore"),
        ("Qwen--Qwen3-30B-A3B-FP8", "modules_to_not_convert"),
        ("Qwen--Qwen3-32B-FP8-Static-PerTensor", "ignore"),
    ],
)
def test_what_is_quantized_is_what_the_settings_leave(name, key):
    found = find_card(str(FOLDER / f"{name}_config.json"))
    settings: Any = found.values["quantization_config"]
    settings = settings.get("quantization", settings)
    ignored = [*settings[key], *_NEVER]
    assert _quantized_values(_read(name)) == _linear_values(public_card(name), ignored)


def _kinds(name: str, stage: int = -1) -> dict[str, set[str]]:
    """For each tensor, the formats of its layers, by their bits; 16 is plain."""
    made = _read(name)
    needs, stored = made.needs[stage], made.stored[stage]
    return {
        tensor.name: {
            str(form.bits) if form else "16" for layer in tensor.layers or (None,)
            for form in [format_of(tensor, stored, layer)]
        }
        for tensor in needs.tensors
        if tensor.columns > 1
    }  # fmt: skip


def test_mixed_precision_goes_module_by_module():
    kinds = _kinds("nvidia--Qwen3.6-35B-A3B-NVFP4")
    assert kinds["experts.up"] == kinds["shared.down"] == kinds["lm_head"] == {"4"}
    assert kinds["attention.q"] == kinds["delta.qkv"] == kinds["delta.z"] == {"8"}
    assert kinds["delta.a"] == kinds["experts.router"] == kinds["embed_tokens"] == {"16"}
    kinds = _kinds("nvidia--MiniMax-M3-NVFP4")
    assert kinds["experts.gate"] == {"4"}
    assert kinds["mlp.gate"] == kinds["shared.up"] == kinds["attention.q"] == kinds["indexer.k"] == {"8"}
    assert kinds["experts.router"] == {"16"}


def test_deepseek_v4_keeps_its_experts_in_four_bits():
    for name in ("deepseek-ai--DeepSeek-V4-Flash", "nvidia--DeepSeek-V4-Flash-NVFP4"):
        kinds = _kinds(name)
        assert kinds["experts.up"] == {"4"}
        assert kinds["shared.up"] == {"8"}
    assert _kinds("sgl-project--DeepSeek-V4-Flash-FP8")["experts.up"] == {"8"}


_LLAMA: dict[str, Json] = {
    "model_type": "llama", "hidden_size": 512, "intermediate_size": 1024, "num_attention_heads": 8,
    "num_hidden_layers": 4, "num_key_value_heads": 2, "vocab_size": 1000,
}  # fmt: skip
_MATRICES = 4 * (2 * 512 * 512 + 2 * 512 * 128 + 3 * 512 * 1024)


def _bits(settings: Json) -> float:
    """Bits that one value of a quantized matrix takes, scales included."""
    made = read_card(_LLAMA | {"quantization_config": settings}, name="small")
    plain = read_card(_LLAMA, name="small")
    held = [stored_bytes(item.needs[0].tensors, item.stored[0]) for item in (made, plain)]
    return 8 * (held[0] - held[1] + 2 * _MATRICES) / _MATRICES


def _compressed(**weights: Json) -> dict[str, Json]:
    return {"quant_method": "compressed-tensors", "config_groups": {"g": {"targets": ["Linear"], "weights": weights}}}


@pytest.mark.parametrize(
    ("settings", "bits"),
    [
        ({"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True}, 4 + 20 / 128),
        ({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}, 4 + 20 / 128),
        ({"quant_method": "gptq", "bits": 8, "group_size": 64}, 8 + 24 / 64),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}, 4.5),
        (_compressed(num_bits=4, type="int", strategy="group", group_size=32), 4.5),
        (_compressed(num_bits=4, type="float", strategy="group", group_size=32), 4.25),
        (_compressed(num_bits=4, type="float", strategy="tensor_group", group_size=16), 4.5),
        (_compressed(num_bits=8, type="float", strategy="tensor"), 8),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 8 + 32 / 128**2),
    ],
)
def test_formats_take_their_bits(settings, bits):
    assert _bits(settings) == pytest.approx(bits, rel=1e-4)


def test_layers_and_patterns_are_told_apart():
    settings = {
        "quant_method": "modelopt",
        "quant_algo": "FP8",
        "exclude_modules": ["model.layers.1*", "*.mlp.down_proj"],
    }
    made = read_card(_LLAMA | {"num_hidden_layers": 12, "quantization_config": settings}, name="small")
    exceptions = {(item.tensor, item.layers) for item in made.stored[0].exceptions}
    assert ("attention.q", (1, 10, 11)) in exceptions
    assert ("mlp.down", ()) in exceptions
    assert all(item.quantization is Quantization.NONE for item in made.stored[0].exceptions)


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"quant_method": "bitsandbytes"}, "quantization_config.quant_method"),
        ({"quant_method": "gptq", "bits": 3}, "quantization_config.bits"),
        ({"quant_method": "fp8", "weight_block_size": [64, 64]}, "quantization_config.weight_block_size"),
        ({"quant_method": "modelopt", "quant_algo": "FP6"}, "quantization_config.quant_algo"),
        (_compressed(num_bits=5, type="int"), "quantization_config.config_groups.g.weights.num_bits"),
        ({}, "quantization_config.quant_method"),
    ],
)
def test_what_is_not_known_is_refused(settings, field):
    with pytest.raises(BadInput) as error:
        read_card(_LLAMA | {"quantization_config": settings | {"a": 1}}, name="small")
    assert error.value.field == field


def test_settings_that_name_nothing_here_are_said():
    card = {**public_card("Qwen--Qwen3-30B-A3B")}
    names = ["model.layers.3.mlp.gate_porj", "model.layers.3.self_attn", "model.layers.9.input_layernorm", "lm_head"]
    card["quantization_config"] = {"quant_method": "fp8", "modules_to_not_convert": [*names, "re:.*ffn_up.*"]}
    remark = read_card(card, name="qwen").remarks[-1]
    assert remark.endswith("which could matter: 'model.layers.3.mlp.gate_porj', 're:.*ffn_up.*'")


def test_public_settings_name_nothing_unknown():
    for name in public_cards():
        values = find_card(str(FOLDER / f"{name}_config.json")).values
        if "quantization_config" in values:
            remarks = read_card(values, name=name).remarks
            assert not any("quantization settings" in remark for remark in remarks), name
