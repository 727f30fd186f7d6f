"""Figures of cards varied one by one, and as transformers saves cards: parameters equal transformers' all the same.

Layers are cut to a few, so that a model on the meta device is made in a moment. What transformers refuses isn't
compared; what we refuse neither, since that is no silently wrong answer.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import transformers
from huggingface_hub.errors import StrictDataclassError
from transformers.models.auto import modeling_auto

from accord.edges import model_catalog
from accord.models.card import HARMLESS
from accord.models.read import read_card
from tests.models import peers
from tests.models.varied import at, figures, put, reads

_LAYERS = 6
_NAMES = (
    "llama-3.1-8b", "mistral-7b-v0.1", "qwen2.5-7b", "qwen3-8b", "mixtral-8x7b", "qwen3-30b-a3b", "glm-4.5-air",
    "minimax-m2.5", "gpt-oss-20b", "gemma-2-9b", "gemma-3-27b", "gemma-4-e4b", "gemma-4-26b-a4b", "deepseek-v2-lite",
    "deepseek-v3", "deepseek-v3.2", "deepseek-v4-flash", "glm-5", "qwen3-next-80b-a3b", "qwen3.5-35b-a3b",
    "kimi-linear-48b-a3b", "minimax-text-01", "nemotron-3-nano-30b-a3b", "jamba-1.5-mini", "bamba-9b", "lfm2-1.2b",
    "mimo-v2-flash", "llama-4-scout", "qwen2.5-vl-7b", "qwen3-vl-8b", "llava-1.5-7b", "internvl3-8b", "kimi-k2.5",
    "fuyu-8b", "whisper-tiny",
)  # fmt: skip
# transformers' classes don't read these; the published code and vLLM do, as we do.
_OTHERWISE = {
    ("deepseek_v4", "n_shared_experts"), ("kimi_linear", "tie_word_embeddings"), ("nemotron_h", "tie_word_embeddings"),
    ("minimax_m2", "use_qk_norm"), ("deepseek_v3", "moe_layer_freq"), ("deepseek_v32", "moe_layer_freq"),
    ("glm_moe_dsa", "moe_layer_freq"), ("kimi_linear", "moe_layer_freq"), ("kimi_k25", "moe_layer_freq"),
    ("qwen3_5_moe", "attn_output_gate"),
}  # fmt: skip
_REFUSED = (
    AttributeError, ArithmeticError, AssertionError, LookupError, RuntimeError, TypeError, ValueError,
    StrictDataclassError,
)  # fmt: skip
_TASKS = ("IMAGE_TEXT_TO_TEXT", "SPEECH_SEQ_2_SEQ", "CAUSAL_LM")
# What says of each layer what it is, cut by hand.
_CUT: dict[str, dict[str, Any]] = {
    "minimax-text-01": {"attn_type_list": None, "layer_types": ["linear_attention"] * 5 + ["full_attention"]},
    "nemotron-3-nano-30b-a3b": {"hybrid_override_pattern": "MEM*E-"},
    "bamba-9b": {"attn_layer_indices": [3]},
    "kimi-linear-48b-a3b": {
        "linear_attn_config": None, "layer_types": ["linear_attention"] * 5 + ["full_attention"],
        "linear_head_dim": 128, "linear_num_heads": 32, "linear_conv_kernel_dim": 4,
    },
}  # fmt: skip
_RENAMED = {"minimax_text_01": "minimax", "kimi_k2": "deepseek_v3"}


def _class_of(kind: str) -> Any:
    for task in _TASKS:
        found = getattr(modeling_auto, f"MODEL_FOR_{task}_MAPPING_NAMES").get(kind)
        if found is not None:
            return getattr(transformers, found)
    raise KeyError(kind)


def _theirs(card: dict[str, Any]) -> int | None:
    """transformers' parameters; None where it doesn't make such a model."""
    try:
        config = peers.config_of(card)
        with torch.device("meta"):
            model = _class_of(card["model_type"])._from_config(config)
    except _REFUSED:
        return None
    return peers.parameters_of(model)


def _short(name: str) -> dict[str, Any]:
    """The catalog's card with a few layers, in the words of transformers."""
    card: Any = json.loads(json.dumps(dict(model_catalog.entry(name).card)))
    card["model_type"] = _RENAMED.get(card["model_type"], card["model_type"])
    for below in (card, *(value for value in card.values() if isinstance(value, dict))):
        for key in ("num_hidden_layers", "depth", "encoder_layers", "decoder_layers"):
            _cut(below, key)
    card |= _CUT.get(name, {})
    return {key: value for key, value in card.items() if key != "quantization_config" and value is not None}


def _cut(card: dict[str, Any], key: str) -> None:
    count = card.get(key, 0)
    if count <= _LAYERS:
        return
    for name, value in card.items():
        if isinstance(value, list) and len(value) == count:
            card[name] = value[:_LAYERS]
    marks = {"deepstack_visual_indexes": [1, 2], "fullatt_block_indexes": [3, 5], "num_kv_shared_layers": 0}
    card.update({name: value for name, value in marks.items() if card.get(name)})
    card[key] = _LAYERS


def _saved(card: dict[str, Any]) -> dict[str, Any]:
    """The card as transformers would write it, with all that a class adds."""
    return json.loads(json.dumps(peers.config_of(card).to_dict(), default=str)) | {"model_type": card["model_type"]}


def _variations(card: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for place in figures(card):
        value = at(card, place)
        if place[-1] in HARMLESS or (card["model_type"], place[-1]) in _OTHERWISE or place[-1].endswith("_id"):
            continue
        for changed in (not value,) if isinstance(value, bool) else (2 * value, value // 2, 1):
            yield put(card, place, changed)


@pytest.mark.parametrize("name", _NAMES)
def test_a_card_that_transformers_saved_says_the_same(name):
    card = _short(name)
    ours = read_card(_saved(card), name=name)
    assert ours.parameters == read_card(card, name=name).parameters == _theirs(card)


# MiMo's keys of window layers and Moonshot's names in its tower are words that transformers' classes don't know.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of empty tensors, and of tokens beyond a halved vocabulary
@pytest.mark.parametrize("name", sorted(set(_NAMES) - {"mimo-v2-flash", "kimi-k2.5"}))
def test_each_figure_counts_as_in_transformers(name):
    compared = 0
    for card in _variations(_short(name)):
        if reads(card):
            theirs = _theirs(card)
            compared += theirs is not None
            assert theirs in (None, read_card(card, name=name).parameters), card
    assert compared > 5


@pytest.mark.parametrize(
    ("name", "figure", "other"),
    [
        ("mixtral-8x7b", "num_local_experts", "num_experts"),
        ("qwen3-30b-a3b", "num_experts", "num_local_experts"),
        ("deepseek-v3", "n_routed_experts", "num_local_experts"),
        ("gpt-oss-20b", "num_experts_per_tok", "experts_per_token"),
        ("kimi-linear-48b-a3b", "num_experts_per_token", "num_experts_per_tok"),
    ],
)
def test_a_figure_has_two_names(name, figure, other):
    card = _short(name)
    renamed = {other if key == figure else key: value for key, value in card.items()}
    assert other in renamed
    assert read_card(renamed, name=name).needs == read_card(card, name=name).needs
    assert not reads({**card, other: card[figure] + 1})
