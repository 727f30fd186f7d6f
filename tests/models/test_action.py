"""Vision-language-action models: pi0 against transformers, OpenVLA against its published size."""

import json
from importlib.resources import files
from typing import Any

import pytest
import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode

from accord.estimate.cache import request_bytes
from accord.estimate.work import step_flops
from accord.models.read import read_card
from accord.terms.architecture import Rule
from accord.terms.errors import BadInput
from accord.terms.graph import Capability, Payload
from accord.terms.tensors import Dtype
from accord.terms.work import Load
from tests.models import peers

_GEMMA: dict[str, Any] = {
    "model_type": "gemma", "hidden_size": 64, "num_hidden_layers": 3, "intermediate_size": 128,
    "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 16, "vocab_size": 320,
}  # fmt: skip
_SMALL: dict[str, Any] = {
    "model_type": "pi0", "chunk_size": 10, "max_state_dim": 8, "max_action_dim": 8,
    "vlm_config": {
        "model_type": "paligemma", "projection_dim": 64, "image_token_id": 320, "text_config": _GEMMA,
        "vision_config": {"model_type": "siglip_vision_model", "hidden_size": 48, "num_hidden_layers": 2,
                          "intermediate_size": 96, "patch_size": 14, "image_size": 56, "num_attention_heads": 4,
                          "vision_use_head": False},
    },
    "dit_config": {**_GEMMA, "hidden_size": 32, "intermediate_size": 64},
}  # fmt: skip


def _catalog(name: str) -> dict[str, Any]:
    return json.loads((files("accord.models") / "cards" / f"{name}.json").read_text())["card"]


def _stages(model: Any) -> dict[str, int]:
    vlm = model.model.vlm
    return {
        "vision": peers.parameters_of(vlm.vision_tower) + peers.parameters_of(vlm.multi_modal_projector),
        "prefix": peers.parameters_of(vlm.language_model),
        "action": sum(
            peers.parameters_of(part) for part in (model.model.dit, model.embed_action_time, model.action_out_proj)
        ),
    }


@pytest.mark.parametrize("card", [_catalog("pi0"), {"model_type": "pi0"}, _SMALL])
def test_parameters_of_each_stage_of_pi0_equal_transformers(card):
    ours = read_card(card, name="pi0")
    with torch.device("meta"):
        model = transformers.PI0ForConditionalGeneration._from_config(peers.config_of(card))
    assert {item.stage: item.parameters for item in ours.needs} == _stages(model)
    assert ours.parameters == peers.parameters_of(model)
    assert ours.unread == ()


def test_a_small_pi0_has_our_cache_and_flops():
    torch.manual_seed(0)
    ours = read_card(_SMALL, name="small")
    model: Any = transformers.PI0ForConditionalGeneration._from_config(
        peers.config_of(_SMALL), attn_implementation="eager"
    ).eval()
    vlm, prefix = model.model.vlm, 20
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        vlm.get_image_features(torch.randn(1, 3, 56, 56))
    counted = step_flops(ours.of("vision").operators, Load(new=16))
    assert counted == pytest.approx(counter.get_total_flops(), rel=0.01)

    embedded = torch.randn(1, prefix, 64)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        cache = vlm(inputs_embeds=embedded, token_type_ids=torch.zeros(1, prefix), use_cache=True).cache
    assert step_flops(ours.of("prefix").operators, Load(new=prefix)) == pytest.approx(
        counter.get_total_flops(), rel=0.01
    )
    held = request_bytes(ours.of("action").cache, tokens=prefix, dtype=Dtype.F32)
    assert held == peers.cache_bytes(cache)

    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(state=torch.randn(1, 8), noise=torch.randn(1, 10, 8), timestep=torch.tensor([0.5]), cache=cache)
    counted = step_flops(ours.of("action").operators, Load(new=10, context=prefix))
    assert counted == pytest.approx(counter.get_total_flops(), rel=0.01)


def test_pi0_denoises_a_chunk_in_ten_steps_against_the_prefix():
    ours = read_card(_catalog("pi0"), name="pi0")
    rules = {item.rule: item.figure for item in ours.of("action").constraints}
    assert rules == {Rule.STEPS: 10, Rule.UNITS_MULTIPLE: 50}
    flows = {flow.edge: flow for flow in ours.flows}
    # 18 layers, one head of 256, keys and values, in bf16.
    assert flows["prefix-action.hidden"].unit_bytes == 18 * 2 * 256 * 2
    assert flows["action-door.actions"].chunk_units == 50
    assert Capability.ACT in ours.graph.stage("action").capabilities


def test_pi0s_expert_must_match_the_prefixs_keys():
    with pytest.raises(BadInput, match="dit_config"):
        read_card({**_SMALL, "dit_config": {**_SMALL["dit_config"], "num_hidden_layers": 4}}, name="bad")


def test_openvla_has_its_published_size():
    ours = read_card(_catalog("openvla-7b"), name="openvla-7b")
    # https://huggingface.co/openvla/openvla-7b: 7.54 billion.
    assert round(ours.parameters / 1e9, 2) == 7.54
    assert ours.unread == ()
    # Llama 2 as transformers has it, with the vocabulary padded to a multiple of 64.
    llama = {**_LLAMA2, "model_type": "llama"}
    assert ours.of("action").parameters == peers.parameters_of(peers.meta_model(peers.config_of(llama)))
    assert ours.graph.edges[-1].payload is Payload.ACTIONS
    assert [(rule.rule, rule.figure) for rule in ours.of("action").constraints] == [(Rule.ANSWER, 7)]


def test_openvlas_towers_have_the_flops_of_their_blocks():
    ours = read_card(_catalog("openvla-7b"), name="openvla-7b")
    # DINOv2-L at 256 patches with 5 more positions, SigLIP-so400m at 256; two FLOPs a multiply and add, and the
    # projector's three matrices. The shapes are those of the two papers (arXiv 2304.07193, 2303.15343).
    large = 24 * (261 * 2 * (4 * 1024**2 + 2 * 1024 * 4096) + 4 * 261**2 * 1024)
    so400m = 27 * (256 * 2 * (4 * 1152**2 + 2 * 1152 * 4304) + 4 * 256**2 * 1152)
    projector = 256 * 2 * (2176 * 8704 + 8704 * 4096 + 4096**2)
    patches = 256 * 2 * 588 * (1024 + 1152)
    counted = step_flops(ours.of("vision").operators, Load(new=256))
    assert counted == pytest.approx(large + so400m + projector + patches, rel=0.001)


_LLAMA2: dict[str, Any] = {
    "vocab_size": 32064, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
    "num_attention_heads": 32,
}  # fmt: skip
