"""Vision-language models against transformers: parameters to the last one, FLOPs of towers, mergers and projectors.

Their decoders are other families' (see test_dense, test_moe, test_gemma); that they are the right ones shows in the
parameters of the whole. LLaVA's last vision layer is computed by transformers, though nothing reads it; so it is here.
"""

from typing import cast

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from accord.edges import model_catalog
from accord.estimate.cache import request_bytes
from accord.estimate.work import step_flops
from accord.models.card import Json
from accord.models.read import read_card
from accord.terms.architecture import Architecture, Flow, Rule, Unit
from accord.terms.errors import BadInput
from accord.terms.graph import DOOR, Capability, Payload
from accord.terms.tensors import Dtype
from accord.terms.work import Load
from tests.models import peers
from tests.models.cards import public_card, public_cards_of
from tests.models.decoders import check_catalog, check_small
from tests.models.sights import check_sight

_TEXT: dict[str, Json] = {
    "hidden_size": 96, "intermediate_size": 160, "num_hidden_layers": 3, "num_attention_heads": 6,
    "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 320, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2,
}  # fmt: skip
_TOWER: dict[str, Json] = {
    "hidden_size": 64, "image_size": 32, "intermediate_size": 96, "num_attention_heads": 4, "num_hidden_layers": 3,
    "patch_size": 4,
}  # fmt: skip
_QWEN: dict[str, Json] = {
    "depth": 4, "hidden_size": 64, "intermediate_size": 96, "num_heads": 4, "out_hidden_size": 96, "patch_size": 4,
}  # fmt: skip


def _with(kind: str, text: str, vision: dict[str, Json], **more: Json) -> dict[str, Json]:
    return {"model_type": kind, "text_config": {**_TEXT, "model_type": text}, "vision_config": vision, **more}


_PICTURES = {
    "llava, clip and llama": _with("llava", "llama", {**_TOWER, "model_type": "clip_vision_model"}),
    "llava, siglip and mistral": _with(
        "llava", "mistral", {**_TOWER, "model_type": "siglip_vision_model"},
        vision_feature_select_strategy="full", vision_feature_layer=[-2, -1],
    ),
    "internvl": _with("internvl", "qwen2", {**_TOWER, "model_type": "internvl_vision", "use_qk_norm": True}),
    "internvl, without means": _with(
        "internvl", "qwen3",
        {**_TOWER, "model_type": "internvl_vision", "use_mean_pooling": False, "norm_type": "rms_norm"},
        tie_word_embeddings=False,
    ),
    "gemma3": _with(
        "gemma3", "gemma3_text", {**_TOWER, "model_type": "siglip_vision_model", "vision_use_head": False},
        mm_tokens_per_image=16,
    ),
    "llama4": _with(
        "llama4", "llama4_text",
        {**_TOWER, "model_type": "llama4_vision_model", "intermediate_size": 256, "projector_input_dim": 48,
         "projector_output_dim": 48, "vision_output_dim": 48},
    ),
}  # fmt: skip
_GRIDS = {
    "qwen2_vl": _with(
        "qwen2_vl", "qwen2_vl_text", {**_QWEN, "embed_dim": 64, "mlp_ratio": 2, "hidden_size": 96},
    ),
    "qwen2_5_vl": _with("qwen2_5_vl", "qwen2_5_vl_text", {**_QWEN, "window_size": 16, "fullatt_block_indexes": [1]}),
    "qwen3_vl": _with(
        "qwen3_vl", "qwen3_vl_text", {**_QWEN, "deepstack_visual_indexes": [1, 2], "num_position_embeddings": 64},
    ),
}  # fmt: skip
_DECODER: dict[str, Json] = {
    "hidden_size": 96, "intermediate_size": 160, "num_hidden_layers": 3, "num_attention_heads": 6, "vocab_size": 320,
}  # fmt: skip
_ALL = {**_PICTURES, **_GRIDS}


@pytest.mark.parametrize("name", public_cards_of("qwen3_vl", "qwen3_vl_moe", "llama4"))
def test_parameters_of_public_cards_equal_transformers(name):
    card = public_card(name)
    read = read_card(card, name=name)
    theirs = peers.meta_model(peers.config_of(card), peers.AutoModelForImageTextToText)
    assert read.parameters == peers.parameters_of(theirs)
    assert read.unread == ()


@pytest.mark.parametrize(
    "name", ["llava-1.5-7b", "qwen2.5-vl-7b", "qwen3-vl-8b", "qwen3-vl-235b-a22b", "internvl3-8b", "llama-4-scout",
             "llama-4-maverick"]
)  # fmt: skip
def test_the_catalog_equals_transformers(name):
    check_catalog(name, peers.AutoModelForImageTextToText)


def test_fuyu_of_the_catalog_equals_transformers():
    check_catalog("fuyu-8b")


@pytest.mark.parametrize("kind", _PICTURES)
def test_a_small_tower_for_pictures_of_one_size(kind):
    check_sight(_PICTURES[kind], patches=64, batch=2, pixel_values=torch.randn(2, 3, 32, 32))


@pytest.mark.parametrize("kind", _GRIDS)
def test_a_small_tower_for_grids_of_patches(kind):
    grid = torch.tensor([[1, 8, 16]])
    check_sight(_GRIDS[kind], patches=128, pixel_values=torch.randn(128, 3 * 2 * 4 * 4), image_grid_thw=grid)


@pytest.mark.parametrize("kind", ["mistral3", "llava"])
def test_a_small_pixtral(kind):
    card = _with(kind, "mistral", {**_TOWER, "model_type": "pixtral"}, vision_feature_select_strategy="full")
    check_sight(card, patches=64, pixel_values=torch.randn(1, 3, 32, 32), image_sizes=torch.tensor([[32, 32]]))


def test_a_small_gemma_4():
    tower: dict[str, Json] = {
        "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
        "num_hidden_layers": 3, "patch_size": 4, "position_embedding_size": 16, "standardize": True,
    }  # fmt: skip
    card = _with("gemma4", "gemma4_text", tower)
    card["text_config"] = {**_TEXT, "model_type": "gemma4_text", "hidden_size_per_layer_input": 0}
    places = torch.stack(torch.meshgrid(torch.arange(12), torch.arange(12), indexing="xy"), dim=-1).reshape(1, -1, 2)
    # transformers averages squares of patches with a matrix of zeros and ninths: 16 tokens x 144 patches x 64.
    pooling = 2 * 16 * 144 * 64
    check_sight(
        card, patches=144, extra=pooling, pixel_values=torch.randn(1, 144, 3 * 4 * 4), image_position_ids=places
    )


@pytest.mark.parametrize("scaled", [True, False])
def test_a_small_persimmon(scaled):
    check_small({**_DECODER, "model_type": "persimmon", "qk_layernorm": scaled})


def test_a_small_fuyu_reads_a_prompt_of_patches():
    card: dict[str, Json] = {
        **_DECODER, "model_type": "fuyu", "image_size": 30, "patch_size": 5, "image_token_id": 7,
    }  # fmt: skip
    needs = read_card(card, name="fuyu").of("decoder")
    model = peers.small_model(peers.config_of(card))
    assert needs.parameters == peers.parameters_of(model)

    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        model(input_ids=torch.full((2, 12), 7), pixel_values=torch.randn(2, 12, 75), logits_to_keep=1)
    counted = step_flops(needs.operators, Load(new=12, batch=2), rectangle=True)
    assert counted == pytest.approx(counter.get_total_flops(), rel=0.01)

    first = peers.run(model, new=12, batch=2)
    assert 2 * request_bytes(needs.cache, tokens=12, dtype=Dtype.F32) == peers.cache_bytes(first.cache)
    then = peers.run(model, new=1, batch=2, cache=first.cache)
    counted = step_flops(needs.operators, Load(new=1, context=12, batch=2), rectangle=True)
    assert counted == pytest.approx(then.flops, rel=0.01)


def test_text_alone_costs_what_the_decoder_costs():
    check_small(_PICTURES["llava, clip and llama"], peers.AutoModelForImageTextToText)


def _flow(read: Architecture, source: str, target: str) -> tuple[Payload, Flow]:
    for edge, flow in zip(read.graph.edges, read.flows, strict=True):
        if (edge.source, edge.target) == (source, target) and edge.payload is not Payload.TOKENS:
            return edge.payload, flow
    raise AssertionError(f"no edge from {source} to {target}")


@pytest.mark.parametrize(
    ("name", "hidden"),
    [("llava-1.5-7b", 4096), ("qwen2.5-vl-7b", 3584), ("qwen3-vl-8b", 4096 * 4), ("gemma-4-31b", 5376)],
)
def test_pictures_go_through_the_vision_stage(name, hidden):
    """Qwen3-VL's deepstack sends three inner layers' outputs along with the last."""
    read = read_card(model_catalog.entry(name).card, name=name)
    assert read.graph.stage("vision").capabilities == (Capability.ENCODE,)
    payload, flow = _flow(read, "vision", "decoder")
    assert (payload, flow.unit, flow.unit_bytes) == (Payload.HIDDEN, Unit.TOKEN, 2 * hidden)
    payload, flow = _flow(read, DOOR, "vision")
    assert (payload, flow.unit) == (Payload.FEATURES, Unit.PATCH)


def test_fuyu_has_no_vision_stage():
    read = read_card(model_catalog.entry("fuyu-8b").card, name="fuyu")
    assert [stage.name for stage in read.graph.stages] == ["decoder"]
    assert _flow(read, DOOR, "decoder")[1].unit_bytes == 2 * 30 * 30 * 3


@pytest.mark.parametrize(
    ("name", "figure"), [("llava-1.5-7b", 576), ("qwen2.5-vl-7b", 4), ("internvl3-8b", 1024), ("gemma-4-31b", 9)]
)
def test_patches_come_in_multiples(name, figure):
    constraints = read_card(model_catalog.entry(name).card, name=name).of("vision").constraints
    assert [(item.rule, item.figure) for item in constraints] == [(Rule.UNITS_MULTIPLE, figure)]


def test_pictures_under_a_causal_mask_may_be_split():
    for name in ("qwen3-vl-8b", "llava-1.5-7b", "internvl3-8b", "llama-4-scout"):
        assert read_card(model_catalog.entry(name).card, name=name).of("decoder").constraints == ()


def test_vision_layers_that_nothing_reads_are_remarked_on():
    remarks = read_card(model_catalog.entry("llava-1.5-7b").card, name="llava").remarks
    assert [remark[:23] for remark in remarks] == ["1 of the vision layers "]
    assert read_card(model_catalog.entry("internvl3-8b").card, name="internvl").remarks == ()


@pytest.mark.parametrize("outer", [None, True, False])
@pytest.mark.parametrize("inner", [None, True, False])
@pytest.mark.parametrize("kind", ["llava, clip and llama", "qwen3_vl", "qwen2_5_vl", "gemma3"])
def test_heads_are_tied_as_transformers_ties_them(kind, inner, outer):
    card = dict(_ALL[kind])
    text = dict(cast("dict[str, Json]", card["text_config"]))
    if outer is not None:
        card["tie_word_embeddings"] = outer
    if inner is not None:
        text["tie_word_embeddings"] = inner
    card["text_config"] = text
    theirs = peers.parameters_of(peers.meta_model(peers.config_of(card), peers.AutoModelForImageTextToText))
    read = read_card(card, name="small")
    if outer is None and inner is not None and kind in ("qwen3_vl", "gemma3"):
        # Only the inner card speaks: what it says of the published weights counts, whatever a fresh model would do.
        assert (read.parameters < _untied(read)) is inner
    else:
        assert read.parameters == theirs


def _untied(read: Architecture) -> int:
    tied = not any(tensor.name == "lm_head" for tensor in read.of("decoder").tensors)
    return read.parameters + (320 * 96 if tied else 0)


@pytest.mark.parametrize(
    ("kind", "part", "change", "field"),
    [
        ("qwen3_vl", "vision_config", {"out_hidden_size": 128}, "vision_config.out_hidden_size"),
        ("qwen3_vl", "vision_config", {"num_heads": 5}, "vision_config.num_heads"),
        ("qwen3_vl", "vision_config", {"deepstack_visual_indexes": [9]}, "vision_config.deepstack_visual_indexes"),
        ("qwen2_5_vl", "vision_config", {"window_size": 2}, "vision_config.window_size"),
        ("internvl", "vision_config", {"patch_size": [64, 64]}, "vision_config.patch_size"),
        ("internvl", "vision_config", {"model_type": "internvl_visoin"}, "vision_config.model_type"),
        ("internvl", "text_config", {"model_type": "qwen9"}, "text_config.model_type"),
        ("internvl", "text_config", {"hidden_size": -1}, "text_config.hidden_size"),
        ("internvl", None, {"downsample_ratio": 0.3}, "downsample_ratio"),
        ("llava, clip and llama", None, {"vision_feature_layer": -9}, "vision_feature_layer"),
        ("gemma3", None, {"mm_tokens_per_image": 15}, "mm_tokens_per_image"),
        ("gemma3", "vision_config", {"model_type": "pixtral"}, "vision_config.model_type"),
    ],
)
def test_a_bad_card_names_its_field(kind, part, change, field):
    card = dict(_ALL[kind])
    card = {**card, part: {**cast("dict[str, Json]", card[part]), **change}} if part else {**card, **change}
    with pytest.raises(BadInput) as caught:
        read_card(card, name="bad")
    assert caught.value.field == field
