"""Kimi-K2.5 against transformers, and Kimi-K3, which transformers doesn't know, against what is published of it."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from accord.estimate.work import step_flops
from accord.models.card import Json
from accord.models.read import read_card
from accord.terms.errors import BadInput
from accord.terms.graph import Payload
from accord.terms.work import Load
from tests.models import peers
from tests.models.cards import public_card, public_cards

_CARDS = tuple(name for name in public_cards() if public_card(name)["model_type"] == "kimi_k25")

_VISION: dict[str, Json] = {"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2,
                            "num_attention_heads": 4, "pos_emb_height": 8, "pos_emb_width": 8}  # fmt: skip
_SMALL: dict[str, Json] = {
    "model_type": "kimi_k25", "tie_word_embeddings": False, "projection_hidden_size": 48, "vision_config": _VISION,
    "text_config": {
        "model_type": "deepseek_v3", "hidden_size": 64, "intermediate_size": 96, "moe_intermediate_size": 32,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "q_lora_rank": 24,
        "kv_lora_rank": 16, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16, "n_routed_experts": 4,
        "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1, "vocab_size": 320,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", _CARDS)
def test_parameters_equal_transformers(name):
    card = public_card(name)
    read = read_card(card, name=name)
    model = peers.meta_model(peers.config_of(card), peers.AutoModelForImageTextToText)
    assert read.parameters == peers.parameters_of(model)
    assert not [key for key in read.unread if not key.endswith("quantization_config")]


@pytest.mark.parametrize("tied", [False, True])
def test_a_small_tower_has_our_parameters_and_flops(tied):
    card = {**_SMALL, "tie_word_embeddings": tied}
    read = read_card(card, name="small")
    model = peers.small_model(peers.config_of(card), peers.AutoModelForImageTextToText)
    assert read.parameters == peers.parameters_of(model)
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        model.model.get_image_features(torch.zeros(24, 3, 14, 14), torch.tensor([[1, 4, 6]]))
    assert step_flops(read.of("vision").operators, Load(new=24)) == pytest.approx(counter.get_total_flops(), rel=0.01)


def test_pictures_reach_the_decoder_as_hidden_states():
    read = read_card(public_card("moonshotai--Kimi-K2.5"), name="k2.5")
    hidden = next(edge for edge in read.graph.edges if edge.payload is Payload.HIDDEN)
    flow = next(flow for flow in read.flows if flow.edge == hidden.name)
    assert (hidden.source, hidden.target, flow.unit_bytes) == ("vision", "decoder", 2 * 7168)


def test_kimi_k3_has_its_published_size():
    """2.8T, as its page on Hugging Face says (huggingface.co/moonshotai/collections), printed to 0.1T."""
    read = read_card(public_card("moonshotai--Kimi-K3"), name="k3")
    assert abs(read.parameters - 2.8e12) < 0.05e12
    assert not [key for key in read.unread if not key.endswith("quantization_config")]


def test_kimi_k3s_tower_has_the_tensors_that_vllm_gives_it():
    """RMS norms, no biases, heads of 128: vLLM's MoonViT3dPretrainedModel and KimiK25MultiModalProjector."""
    layer = 2 * 1024 + 4 * 1024 * 1536 + 2 * 1024 * 4096
    tower = 3 * 14 * 14 * 1024 + 64 * 64 * 1024 + 27 * layer + 1024
    projector = 4096 * 4096 + 4096 * 7168 + 7168
    read = read_card(public_card("moonshotai--Kimi-K3"), name="k3")
    assert read.of("vision").parameters == tower + projector


@pytest.mark.parametrize(
    ("field", "value"),
    [("num_attention_heads", 5), ("merge_kernel_size", [2]), ("norm_type", "batch"), ("mm_projector_type", "linear")],
)
def test_a_wrong_figure_of_the_tower_is_named(field, value):
    with pytest.raises(BadInput) as caught:
        read_card({**_SMALL, "vision_config": {**_VISION, field: value}}, name="small")
    assert caught.value.field == f"vision_config.{field}"
