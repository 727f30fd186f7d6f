"""Latent attention against transformers: parameters to the last one, cache bytes, FLOPs.

transformers keeps MLA's latents and expands them for all heads in each step, so its FLOPs are those of our prefill
form; the latent form's are held against DeepSeek-V2's formula. Scores that balance experts (`e_score_correction_bias`)
are buffers there and here: in the bytes, not in the parameters.
"""

import pytest
from transformers import Mistral4ForCausalLM

from accord.estimate.cache import request_bytes
from accord.estimate.work import step_flops
from accord.models.card import Json
from accord.models.read import read_card
from accord.terms.errors import BadInput
from accord.terms.tensors import Dtype
from accord.terms.work import Attention, Load, Phase
from tests.models import peers
from tests.models.cards import public_card, public_cards

# transformers has no kimi_k2: Moonshot's own code is DeepSeek-V3's.
_ALIKE = {"deepseek_v3": "deepseek_v3", "kimi_k2": "deepseek_v3", "deepseek_v32": "deepseek_v32",
          "glm_moe_dsa": "glm_moe_dsa"}  # fmt: skip
_CARDS = tuple(name for name in public_cards() if public_card(name)["model_type"] in _ALIKE)

_MLA: dict[str, Json] = {
    "hidden_size": 128, "intermediate_size": 192, "moe_intermediate_size": 64, "num_hidden_layers": 3,
    "num_attention_heads": 8, "num_key_value_heads": 8, "q_lora_rank": 48, "kv_lora_rank": 32, "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8, "v_head_dim": 16, "n_routed_experts": 8, "n_shared_experts": 1, "n_group": 2,
    "topk_group": 1, "num_experts_per_tok": 2, "first_k_dense_replace": 1, "vocab_size": 320,
    "max_position_embeddings": 512,
}  # fmt: skip
_INDEX: dict[str, Json] = {"index_n_heads": 4, "index_head_dim": 16, "index_topk": 64}

_SMALL: dict[str, dict[str, Json]] = {
    "deepseek_v2": {**_MLA, "topk_method": "group_limited_greedy"},
    "deepseek_v2 without a query latent": {**_MLA, "model_type": "deepseek_v2", "q_lora_rank": None,
                                           "topk_method": "greedy", "n_shared_experts": 2},
    "deepseek_v3": _MLA,
    "deepseek_v3 with biases, tied": {**_MLA, "model_type": "deepseek_v3", "attention_bias": True,
                                      "tie_word_embeddings": True},
    "glm4_moe_lite": {**_MLA, "mlp_layer_types": ["dense", "sparse", "sparse"]},
    "mistral4": _MLA,
}  # fmt: skip
_SPARSE: dict[str, dict[str, Json]] = {
    "deepseek_v32": {**_MLA, **_INDEX},
    "glm_moe_dsa": {**_MLA, **_INDEX, "num_hidden_layers": 5, "index_topk_freq": 2, "index_skip_topk_offset": 2},
}


class _Mistral4:
    """transformers' automatic classes know Mistral 4 inside its composed model only."""

    from_config = staticmethod(Mistral4ForCausalLM._from_config)


def small_card(cards: dict[str, dict[str, Json]], kind: str) -> dict[str, Json]:
    """One shrunk card, with its model_type."""
    return {"model_type": kind, **cards[kind]}


@pytest.mark.parametrize("name", _CARDS)
def test_parameters_equal_transformers(name):
    card = public_card(name)
    read = read_card(card, name=name)
    twin = {**card, "model_type": _ALIKE[str(card["model_type"])]}
    assert read.parameters == peers.parameters_of(peers.meta_model(peers.config_of(twin)))
    assert [key for key in read.unread if key != "quantization_config"] == []


@pytest.mark.parametrize("kind", _SMALL)
def test_a_small_model_has_our_parameters_cache_and_flops(kind):
    card = small_card(_SMALL, kind)
    needs = read_card(card, name=kind).needs[0]
    config = peers.config_of(card)
    model = peers.small_model(config, _Mistral4) if kind == "mistral4" else peers.small_model(config)
    assert needs.parameters == peers.parameters_of(model)

    first = peers.run(model, new=12, batch=2)
    counted = step_flops(needs.operators, Load(new=12, batch=2), rectangle=True)
    assert counted == pytest.approx(first.flops, rel=0.01)
    assert 2 * request_bytes(needs.cache, tokens=12, dtype=Dtype.F32) == peers.cache_bytes(first.cache)

    then = peers.run(model, new=1, batch=2, cache=first.cache)
    load = Load(new=1, context=12, batch=2)
    counted = step_flops(needs.operators, load, phase=Phase.PREFILL, rectangle=True)
    assert counted == pytest.approx(then.flops, rel=0.01)


@pytest.mark.parametrize("kind", _SPARSE)
def test_a_small_sparse_model_has_our_parameters_cache_and_flops(kind):
    """transformers masks what the indexer left out: full attention, expanded for all heads, by the formula here."""
    card = small_card(_SPARSE, kind)
    needs = read_card(card, name=kind).needs[0]
    model = peers.small_model(peers.config_of(card))
    assert needs.parameters == peers.parameters_of(model)

    first = peers.run(model, new=12, batch=2)
    assert 2 * request_bytes(needs.cache, tokens=12, dtype=Dtype.F32) == peers.cache_bytes(first.cache)
    then = peers.run(model, new=1, batch=2, cache=first.cache)
    for load, seen in ((Load(new=12, batch=2), first), (Load(new=1, context=12, batch=2), then)):
        pairs = load.batch * load.new * (load.new + load.context)
        masked = int(str(card["num_hidden_layers"])) * 2 * 8 * (16 + 8 + 16) * pairs
        expanded = int(str(card["num_hidden_layers"])) * 2 * 32 * 8 * (16 + 16) * load.batch * load.context
        rest = [item for item in needs.operators if not (isinstance(item, Attention) and item.name == "attention")]
        counted = step_flops(rest, load, rectangle=True)
        assert counted == pytest.approx(seen.flops - masked - expanded, rel=0.01)


def test_a_token_of_deepseek_v3_keeps_the_papers_values():
    """(d_c + d_h^R) l values a token: DeepSeek-V2, arXiv 2405.04434, table 1; 576 for each of V3's 61 layers."""
    needs = read_card(public_card("deepseek-ai--DeepSeek-V3"), name="v3").needs[0]
    assert request_bytes(needs.cache, tokens=1, dtype=Dtype.BF16) == 576 * 61 * 2 == 70_272


def test_decoding_scores_latents():
    """One query of 128 heads against 4096 latents of 512 + 64 values, and the sum of their 512, in 61 layers."""
    needs = read_card(public_card("deepseek-ai--DeepSeek-V3"), name="v3").needs[0]
    scores = [item for item in needs.operators if isinstance(item, Attention)]
    assert step_flops(scores, Load(new=1, context=4095)) == 61 * 128 * 4096 * 2 * (576 + 512)


def test_an_indexer_bounds_what_attention_reads():
    """Past `index_topk` = 2048 entries only the indexer's 64 heads of 128 values see more."""
    needs = read_card(public_card("deepseek-ai--DeepSeek-V3.2"), name="v3.2").needs[0]
    scores = [item for item in needs.operators if isinstance(item, Attention)]
    near, far = (step_flops(scores, Load(new=1, context=context)) for context in (2047, 32767))
    assert near == 61 * 2 * 2048 * (128 * (576 + 512) + 64 * 128)
    assert far - near == 61 * 2 * (32768 - 2048) * 64 * 128


def test_shared_choices_have_no_index_keys():
    """GLM-5.2 runs its indexer in 21 of 78 layers, as its card lists them."""
    for name in ("zai-org--GLM-5.2", "zai-org--GLM-5.3"):
        card = public_card(name)
        kinds = card["indexer_types"]
        assert isinstance(kinds, list)
        groups = {group.name: group for group in read_card(card, name=name).needs[0].cache}
        assert len(groups["indexer"].layers) == kinds.count("full") < len(groups["attention"].layers) == 78


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("num_key_value_heads", 2), ("n_routed_experts", 9), ("topk_group", 3), ("num_experts_per_tok", 9),
        ("kv_lora_rank", 0), ("q_lora_rank", "48"), ("topk_method", "best"), ("indexer_types", ["shared"] * 3),
        ("index_topk_pattern", "FX"), ("mlp_layer_types", ["dense"]),
    ],
)  # fmt: skip
def test_a_wrong_figure_is_named(field, value):
    with pytest.raises(BadInput) as caught:
        read_card({**small_card(_SPARSE, "glm_moe_dsa"), "num_hidden_layers": 3, field: value}, name="small")
    assert caught.value.field == field
