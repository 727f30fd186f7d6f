"""Dense decoders against transformers: parameters to the last one, cache bytes, FLOPs."""

import json

import pytest

from accord.edges import model_catalog
from accord.models.card import Card, Json
from accord.models.families.decoders.dense import build
from accord.models.read import read_card
from accord.terms.errors import BadInput
from accord.terms.tensors import Split
from tests.models import peers
from tests.models.cards import public_card, public_cards_of
from tests.models.decoders import check_beyond_the_window, check_catalog, check_small

_BASE: dict[str, Json] = {
    "hidden_size": 96, "intermediate_size": 160, "num_hidden_layers": 4, "num_attention_heads": 6,
    "num_key_value_heads": 2, "vocab_size": 320, "max_position_embeddings": 512,
}  # fmt: skip
_SMALL: dict[str, dict[str, Json]] = {
    "llama": {"model_type": "llama"},
    "llama with biases": {"model_type": "llama", "attention_bias": True, "mlp_bias": True, "head_dim": 24},
    "llama, as many kv heads": {"model_type": "llama", "num_key_value_heads": 6},
    "mistral": {"model_type": "mistral", "sliding_window": 16},
    "mistral without a window": {"model_type": "mistral", "sliding_window": None},
    "ministral": {"model_type": "ministral", "head_dim": 16, "sliding_window": 16,
                  "layer_types": ["sliding_attention"] * 3 + ["full_attention"]},
    "ministral3": {"model_type": "ministral3", "head_dim": 32},
    "qwen2": {"model_type": "qwen2", "tie_word_embeddings": True},
    "qwen2 with windows": {"model_type": "qwen2", "use_sliding_window": True, "sliding_window": 16,
                           "max_window_layers": 3},
    "qwen3": {"model_type": "qwen3", "head_dim": 32},
    "qwen3 with biases": {"model_type": "qwen3", "head_dim": 32, "attention_bias": True},
}  # fmt: skip


@pytest.mark.parametrize("name", public_cards_of("llama", "mistral", "qwen2", "qwen3"))
def test_parameters_equal_transformers(name):
    card = public_card(name)
    read = read_card(card, name=name)
    assert read.parameters == peers.parameters_of(peers.meta_model(peers.config_of(card)))
    assert read.unread == ()


@pytest.mark.parametrize(
    "name",
    ["llama-2-7b", "llama-3.1-8b", "llama-3.1-70b", "mistral-7b-v0.1", "qwen2.5-7b", "qwen2.5-72b", "qwen3-0.6b",
     "qwen3-8b", "qwen3-32b"],
)  # fmt: skip
def test_catalog_cards_equal_transformers(name):
    check_catalog(name)


def test_mimo_is_qwen2_by_another_name():
    # modeling_mimo.py of XiaomiMiMo/MiMo-7B-Base derives its model from Qwen2's; transformers doesn't have it.
    card = public_card("XiaomiMiMo--MiMo-7B-Base")
    alike = peers.config_of({**card, "model_type": "qwen2"})
    read = read_card(card, name="mimo")
    assert read.parameters == peers.parameters_of(peers.meta_model(alike))
    assert read.remarks == ("1 multi-token-prediction layer isn't counted",)


def test_a_searched_nemotron_has_the_published_parameters():
    # "49.9B" on the model's page at Hugging Face (nvidia/Llama-3_3-Nemotron-Super-49B-v1).
    read = read_card(public_card("nvidia--Llama-3_3-Nemotron-Super-49B-v1"), name="nas")
    shortened = read_card(model_catalog.entry("llama-3.3-nemotron-super-49b").card, name="nas")
    assert shortened.needs == read.needs
    assert read.parameters == pytest.approx(49.9e9, abs=0.05e9)
    assert sum(len(group.layers) for group in read.needs[0].cache) == 49
    assert read.unread == ()


def test_a_nemotron_whose_blocks_are_all_alike_is_a_llama():
    # A block's width is two thirds of its multiplier, rounded up to a multiple of 256: 2 * 3.5 * 96 / 3 = 224 -> 256.
    block: Json = {"attention": {"n_heads_in_group": 3, "no_op": False}, "ffn": {"ffn_mult": 3.5, "no_op": False}}
    llama: dict[str, Json] = {**_BASE, "intermediate_size": 256, "model_type": "llama"}
    check_small({**llama, "model_type": "nemotron-nas", "block_configs": [block] * 4}, alike=llama)


def test_blocks_without_a_part_have_no_norm_before_it():
    none: Json = {"no_op": True}
    blocks: list[Json] = [
        {"attention": none, "ffn": {"ffn_mult": 3.5}},
        {"attention": {"n_heads_in_group": 3}, "ffn": none},
        {"attention": {"replace_with_linear": True}, "ffn": {"replace_with_linear": True}},
        {"attention": none, "ffn": none},
    ]
    needs = read_card({**_BASE, "model_type": "nemotron-nas", "block_configs": blocks}, name="nas").needs[0]
    found = {tensor.name: tensor.layers for tensor in needs.tensors}
    assert found["input_norm"] == (1, 2)
    assert found["post_norm"] == (0, 2)
    assert found["attention.2.q"] == (1,)
    assert found["attention.linear"] == found["mlp.linear"] == (2,)
    assert [group.layers for group in needs.cache] == [(1,)]


@pytest.mark.parametrize("kind", _SMALL)
def test_a_small_model_has_our_parameters_cache_and_flops(kind):
    check_small({**_BASE, **_SMALL[kind]})


@pytest.mark.parametrize(("kind", "windows"), [("mistral", 4), ("ministral", 3), ("qwen2 with windows", 1)])
def test_windows_bound_cache_and_flops(kind, windows):
    check_beyond_the_window({**_BASE, **_SMALL[kind]}, tokens=40, windows=windows, width=2 * 2 * 16)


@pytest.mark.parametrize("kind", ["llama", "mistral", "ministral3", "qwen2", "qwen3"])
def test_what_a_nested_card_leaves_out_is_transformers_default(kind):
    # Nested in a composed card, `{"model_type": ...}` may be all there is.
    below = Card({"text_config": {"model_type": kind}}).sub("text_config")
    assert build(below, kind).parameters == peers.parameters_of(peers.meta_model(peers.config_of({"model_type": kind})))


def test_tensor_parallelism_divides_by_heads():
    needs = read_card(public_card("meta-llama--Meta-Llama-3.1-8B"), name="llama").needs[0]
    found = {tensor.name: (tensor.split, tensor.pieces) for tensor in needs.tensors}
    assert found["attention.q"] == (Split.ROWS, 32)
    assert found["attention.k"] == found["attention.v"] == (Split.KV_ROWS, 8)
    assert found["attention.o"] == (Split.COLUMNS, 32)
    assert found["mlp.down"] == (Split.COLUMNS, 14336)
    assert found["input_norm"] == (Split.NONE, 1)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"num_attention_heads": 7}, "num_attention_heads"),
        ({"num_key_value_heads": 5}, "num_attention_heads"),
        ({"hidden_size": -96}, "hidden_size"),
        ({"hidden_size": "96"}, "hidden_size"),
        ({"hidden_size": None}, "hidden_size"),
        ({"num_hidden_layers": 10**12}, "num_hidden_layers"),
        ({"hidden_act": "sillu"}, "hidden_act"),
        ({"attention_bias": "yes"}, "attention_bias"),
    ],
)
def test_a_wrong_figure_is_named(change, field):
    with pytest.raises(BadInput) as caught:
        read_card({**_BASE, "model_type": "llama", **change}, name="wrong")
    assert caught.value.field == field
    assert json.dumps(str(caught.value))
