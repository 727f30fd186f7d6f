"""Dense decoders against transformers: parameters to the last one, cache bytes, FLOPs."""

import pytest

from accord.estimate.cache import request_bytes
from accord.estimate.work import step_flops
from accord.models.card import Json
from accord.models.read import read_card
from accord.terms.tensors import Dtype
from accord.terms.work import Load
from tests.models import peers
from tests.models.cards import public_card

_CARDS = (
    "meta-llama--Meta-Llama-3.1-8B",
    "meta-llama--Meta-Llama-3.1-405B",
    "Qwen--Qwen3-0.6B",
    "Qwen--Qwen3-32B",
)

_SMALL: dict[str, dict[str, Json]] = {
    "llama": {"hidden_size": 96, "intermediate_size": 160, "num_hidden_layers": 3, "num_attention_heads": 6,
              "num_key_value_heads": 2, "vocab_size": 320, "max_position_embeddings": 512, "model_type": "llama"},
    "qwen2": {"hidden_size": 96, "intermediate_size": 160, "num_hidden_layers": 3, "num_attention_heads": 6,
              "num_key_value_heads": 2, "vocab_size": 320, "tie_word_embeddings": True, "model_type": "qwen2"},
    "qwen3": {"hidden_size": 96, "intermediate_size": 160, "num_hidden_layers": 3, "num_attention_heads": 6,
              "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 320, "model_type": "qwen3"},
    "mistral": {"hidden_size": 96, "intermediate_size": 160, "num_hidden_layers": 3, "num_attention_heads": 6,
                "num_key_value_heads": 2, "vocab_size": 320, "sliding_window": 16, "model_type": "mistral"},
}  # fmt: skip


@pytest.mark.parametrize("name", _CARDS)
def test_parameters_equal_transformers(name):
    card = public_card(name)
    assert read_card(card, name=name).parameters == peers.parameters_of(peers.meta_model(peers.config_of(card)))


@pytest.mark.parametrize("kind", _SMALL)
def test_a_small_model_has_our_parameters_cache_and_flops(kind):
    card = _SMALL[kind]
    needs = read_card(card, name=kind).needs[0]
    model = peers.small_model(peers.config_of(card))
    assert needs.parameters == peers.parameters_of(model)

    first = peers.run(model, new=12, batch=2)
    counted = step_flops(needs.operators, Load(new=12, batch=2), rectangle=True)
    assert counted == pytest.approx(first.flops, rel=0.01)
    assert 2 * request_bytes(needs.cache, tokens=12, dtype=Dtype.F32) == peers.cache_bytes(first.cache)

    then = peers.run(model, new=1, batch=2, cache=first.cache)
    counted = step_flops(needs.operators, Load(new=1, context=12, batch=2), rectangle=True)
    assert counted == pytest.approx(then.flops, rel=0.01)
