"""Gemma 1 to 4 against transformers: parameters to the last one, cache bytes, FLOPs, windows and shared caches.

Gemma 4's layer scalars and its tower's standardising statistics are buffers in transformers: they are stored and
counted in bytes, but not among parameters. Gemma 3n's eyes are another library's; decoder and ears are compared.
"""

from typing import Any, cast

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import (
    Gemma3nAudioConfig,
    Gemma3nAudioEncoder,
    Gemma3nForCausalLM,
    Gemma3nTextConfig,
)
from transformers.models.gemma3n.modeling_gemma3n import Gemma3nMultimodalEmbedder

from accord.edges import model_catalog
from accord.estimate.cache import request_bytes
from accord.estimate.weights import stored_bytes
from accord.estimate.work import step_flops
from accord.models.card import Json
from accord.models.read import read_card
from accord.terms.architecture import Rule, Stored
from accord.terms.cache import CacheKind
from accord.terms.errors import BadInput
from accord.terms.tensors import Dtype
from accord.terms.work import Load
from tests.models import peers
from tests.models.cards import public_card, public_cards_of
from tests.models.decoders import check_beyond_the_window, check_catalog, check_small

_BASE: dict[str, Json] = {
    "hidden_size": 96, "intermediate_size": 160, "num_hidden_layers": 6, "num_attention_heads": 8,
    "num_key_value_heads": 4, "head_dim": 16, "vocab_size": 320, "sliding_window": 16, "pad_token_id": 0,
}  # fmt: skip
_GEMMA4: dict[str, Json] = {
    **_BASE, "model_type": "gemma4_text", "global_head_dim": 32, "hidden_size_per_layer_input": 0,
}  # fmt: skip
_PER_LAYER: dict[str, Json] = {"hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 320}
_SHARED: dict[str, Json] = {
    "num_kv_shared_layers": 2, "layer_types": ["sliding_attention", "full_attention"] * 3, **_PER_LAYER,
}  # fmt: skip
_SMALL: dict[str, dict[str, Json]] = {
    "gemma": {**_BASE, "model_type": "gemma"},
    "gemma2": {**_BASE, "model_type": "gemma2"},
    "gemma3": {**_BASE, "model_type": "gemma3_text"},
    "gemma3, another pattern": {**_BASE, "model_type": "gemma3_text", "sliding_window_pattern": 3},
    "gemma3n": {**_BASE, **_SHARED, "model_type": "gemma3n_text", "laurel_rank": 8},
    "gemma3n, widths of its own": {
        **_BASE, **_SHARED, "model_type": "gemma3n_text", "altup_num_inputs": 2,
        "intermediate_size": [96] * 2 + [160] * 4,
    },
    "gemma4": _GEMMA4,
    "gemma4, experts": {
        **_GEMMA4, "attention_k_eq_v": True, "num_global_key_value_heads": 2, "enable_moe_block": True,
        "num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 32,
    },
    "gemma4, shared": {**_GEMMA4, **_SHARED, "use_double_wide_mlp": True},
    "gemma4, without towers": {**_GEMMA4, "model_type": "gemma4_unified_text"},
}  # fmt: skip


@pytest.mark.parametrize("name", public_cards_of("gemma4"))
def test_parameters_of_public_cards_equal_transformers(name):
    card = public_card(name)
    theirs = peers.meta_model(peers.config_of(card), peers.AutoModelForImageTextToText)
    assert read_card(card, name=name).parameters == peers.parameters_of(theirs)


def test_the_catalog_equals_transformers():
    check_catalog("gemma-2-9b")


@pytest.mark.parametrize("name", ["gemma-3-27b", "gemma-4-26b-a4b", "gemma-4-31b", "gemma-4-e4b"])
def test_the_catalog_with_towers_equals_transformers(name):
    check_catalog(name, peers.AutoModelForImageTextToText)


@pytest.mark.parametrize("kind", _SMALL)
def test_a_small_model_has_our_parameters_cache_and_flops(kind):
    # Asked for hidden states, transformers runs the layers that share a cache for all tokens, not for the last only.
    check_small(_SMALL[kind], output_hidden_states=True)


@pytest.mark.parametrize(("kind", "windows"), [("gemma2", 3), ("gemma3", 5), ("gemma4", 5)])
def test_beyond_the_window_only_the_full_layers_grow(kind, windows):
    check_beyond_the_window(_SMALL[kind], tokens=40, windows=windows, width=2 * 4 * 16)


def test_gemma_3n_of_the_catalog_equals_transformers_but_for_its_eyes():
    read = read_card(model_catalog.entry("gemma-3n-e4b").card, name="gemma")
    with torch.device("meta"):
        text, audio = Gemma3nTextConfig(), Gemma3nAudioConfig()
        decoder, ears = Gemma3nForCausalLM(text), Gemma3nAudioEncoder(audio)
        words = Gemma3nMultimodalEmbedder(audio, text)
    assert read.of("decoder").parameters == peers.parameters_of(decoder)
    assert read.of("audio").parameters == peers.parameters_of(ears) + peers.parameters_of(words)
    assert any("vision tower" in remark for remark in read.remarks)
    assert read.unread == ()


def test_small_ears_of_gemma_3n():
    small: dict[str, Json] = {
        "model_type": "gemma3n_audio", "hidden_size": 64, "conf_num_hidden_layers": 3, "conf_num_attention_heads": 4,
        "input_feat_size": 32, "sscp_conv_channel_size": [16, 8],
    }  # fmt: skip
    text: dict[str, Json] = {**_SMALL["gemma3n"], "hidden_size": 96}
    needs = read_card({"model_type": "gemma3n", "text_config": text, "audio_config": small}, name="ears").of("audio")
    audio: Any = peers.config_of(small)
    ears = Gemma3nAudioEncoder(audio).eval()
    words = Gemma3nMultimodalEmbedder(audio, Gemma3nTextConfig(hidden_size=96)).eval()
    assert needs.parameters == peers.parameters_of(ears) + peers.parameters_of(words)
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        words(inputs_embeds=ears(torch.randn(1, 192, 32), torch.zeros(1, 192, dtype=torch.bool)).last_hidden_state)
    assert step_flops(needs.operators, Load(new=192)) == pytest.approx(counter.get_total_flops(), rel=0.01)


def test_small_ears_of_gemma_4():
    card = _composed({"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "output_proj_dims": 48,
                      "subsampling_conv_channels": [32, 8]})  # fmt: skip
    read = read_card(card, name="ears")
    model = peers.small_model(peers.config_of(card), peers.AutoModelForImageTextToText)
    assert read.parameters == peers.parameters_of(model)
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        model.model.get_audio_features(torch.randn(1, 192, 32), torch.ones(1, 192, dtype=torch.bool))
    counted = step_flops(read.of("audio").operators, Load(new=192))
    assert counted == pytest.approx(counter.get_total_flops(), rel=0.01)


def test_without_towers_pixels_and_samples_go_straight_in():
    card: dict[str, Json] = {
        "model_type": "gemma4_unified", "text_config": {**_GEMMA4, "model_type": "gemma4_unified_text"},
        "vision_config": {"mm_embed_dim": 64, "output_proj_dims": 64, "mm_posemb_size": 20, "patch_size": 4},
        "audio_config": {"audio_embed_dim": 40},
    }  # fmt: skip
    read = read_card(card, name="gemma")
    theirs = peers.meta_model(peers.config_of(card), peers.AutoModelForImageTextToText)
    assert read.parameters == peers.parameters_of(theirs)
    assert [stage.name for stage in read.graph.stages] == ["decoder"]
    assert len({edge.name for edge in read.graph.edges}) == 4


def _composed(audio: dict[str, Json]) -> dict[str, Json]:
    tower: dict[str, Json] = {
        "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 16,
        "intermediate_size": 96, "position_embedding_size": 16,
    }  # fmt: skip
    return {"model_type": "gemma4", "text_config": _GEMMA4, "vision_config": tower, "audio_config": audio}


def test_shared_layers_keep_no_cache():
    needs = read_card(_SMALL["gemma4, shared"], name="small").of("decoder")
    assert {group.name: group.layers for group in needs.cache} == {"attention": (1, 3), "attention.window": (0, 2)}


def test_gemma_4_keeps_two_sizes_of_heads():
    needs = read_card(model_catalog.entry("gemma-4-31b").card, name="gemma").of("decoder")
    full, sliding = needs.cache
    assert (full.kind, full.heads, full.key_dim, len(full.layers)) == (CacheKind.FULL, 4, 512, 10)
    assert (sliding.kind, sliding.heads, sliding.key_dim, len(sliding.layers)) == (CacheKind.WINDOW, 16, 256, 50)
    # 10 layers x 4 heads x 1,024 values for all tokens; 50 x 16 x 512 for the last 1,024.
    expected = 2 * (10 * 4 * 1024 * 100_000 + 50 * 16 * 512 * 1024)
    assert request_bytes(needs.cache, tokens=100_000, dtype=Dtype.BF16) == expected


def test_buffers_are_stored_but_no_parameters():
    needs = read_card(model_catalog.entry("gemma-4-31b").card, name="gemma").of("vision")
    assert stored_bytes(needs.tensors, Stored()) == 2 * (needs.parameters + 2 * 1152)


@pytest.mark.parametrize(
    ("name", "tokens"), [("gemma-3-27b", 256), ("gemma-4-26b-a4b", 280), ("gemma-4-31b", 280), ("gemma-2-9b", None)]
)
def test_pictures_that_see_themselves_go_in_whole(name, tokens):
    constraints = read_card(model_catalog.entry(name).card, name=name).of("decoder").constraints
    expected = [] if tokens is None else [(Rule.WHOLE_SPANS, tokens)]
    assert [(item.rule, item.figure) for item in constraints] == expected


def test_small_gemma_4_splits_its_pictures():
    card = dict(model_catalog.entry("gemma-4-31b").card)
    text = {**cast("dict[str, Json]", card["text_config"]), "use_bidirectional_attention": None}
    assert read_card({**card, "text_config": text}, name="small").of("decoder").constraints == ()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"num_kv_shared_layers": 6}, "num_kv_shared_layers"),
        ({"num_kv_shared_layers": 5, "layer_types": ["full_attention"] + ["sliding_attention"] * 5},
         "num_kv_shared_layers"),
        ({"use_bidirectional_attention": "all"}, "use_bidirectional_attention"),
        ({"per_layer_config": {"4": {"head_dim": 64}}}, "per_layer_config"),
        ({"per_layer_config": {"5": {"head_dim": 64}, "4": {"head_dim": 64}}}, "per_layer_config"),
        ({"enable_moe_block": True, "moe_intermediate_size": 8, "num_experts": 4, "top_k_experts": 5}, "top_k_experts"),
        ({"layer_types": ["sliding_attention"] * 5 + ["linear_attention"]}, "layer_types"),
        ({"hidden_activation": "gelu_tan"}, "hidden_activation"),
    ],
)  # fmt: skip
def test_a_bad_card_names_its_field(change, field):
    with pytest.raises(BadInput) as caught:
        read_card({**_GEMMA4, **change}, name="bad")
    assert caught.value.field == field
