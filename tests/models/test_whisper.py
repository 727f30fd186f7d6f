"""Whisper against transformers: parameters of all sizes, caches of both kinds, FLOPs."""

from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModelForSpeechSeq2Seq

from accord.estimate.cache import request_bytes
from accord.estimate.work import step_flops
from accord.models.card import Json
from accord.models.read import read_card
from accord.terms.errors import BadInput
from accord.terms.tensors import Dtype
from accord.terms.work import Load
from tests.models import peers

# Layers, width, heads: table 1 of arXiv 2212.04356; large-v3 has 128 mel bins, turbo 4 decoder layers.
_SIZES = {
    "tiny": (4, 384, 6), "base": (6, 512, 8), "small": (12, 768, 12), "medium": (24, 1024, 16),
    "large": (32, 1280, 20),
}  # fmt: skip


def _card(size: str, **more: Json) -> dict[str, Json]:
    layers, width, heads = _SIZES[size]
    return {
        "model_type": "whisper", "d_model": width, "encoder_layers": layers, "decoder_layers": layers,
        "encoder_attention_heads": heads, "decoder_attention_heads": heads, "encoder_ffn_dim": 4 * width,
        "decoder_ffn_dim": 4 * width, **more,
    }  # fmt: skip


_CARDS = {
    **{size: _card(size) for size in _SIZES},
    "large-v3": _card("large", num_mel_bins=128, vocab_size=51866),
    "large-v3-turbo": _card("large", num_mel_bins=128, vocab_size=51866, decoder_layers=4),
    "untied": _card("tiny", tie_word_embeddings=False),
}

_SMALL: dict[str, Json] = {
    "model_type": "whisper", "d_model": 96, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 6,
    "decoder_attention_heads": 6, "encoder_ffn_dim": 384, "decoder_ffn_dim": 384, "vocab_size": 320,
    "max_source_positions": 50, "max_target_positions": 40, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "decoder_start_token_id": 1,
}  # fmt: skip


@pytest.mark.parametrize("name", _CARDS)
def test_parameters_equal_transformers(name):
    card = _CARDS[name]
    model: Any = peers.meta_model(peers.config_of(card), AutoModelForSpeechSeq2Seq)
    ours = read_card(card, name=name)
    assert ours.of("encoder").parameters == peers.parameters_of(model.model.encoder)
    assert ours.parameters == peers.parameters_of(model)
    assert ours.unread == ()


def test_a_small_model_has_our_caches_and_flops():
    model = peers.small_model(peers.config_of(_SMALL), AutoModelForSpeechSeq2Seq)
    ours = read_card(_SMALL, name="small")
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        heard = model.model.encoder(torch.randn(2, 80, 100)).last_hidden_state
    counted = step_flops(ours.of("encoder").operators, Load(new=100, batch=2))
    assert counted == pytest.approx(counter.get_total_flops(), rel=0.01)

    needs, cache = ours.of("decoder"), None
    for new, context in ((6, 0), (1, 6)):
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            ids = torch.full((2, new), 7)
            out = model.model.decoder(input_ids=ids, encoder_hidden_states=heard, cache=cache, use_cache=True)
            model.proj_out(out.last_hidden_state[:, -1:])
        cache = out.cache
        counted = step_flops(needs.operators, Load(new=new, context=context, batch=2), rectangle=True)
        assert counted == pytest.approx(counter.get_total_flops(), rel=0.01)
        held = 2 * request_bytes(needs.cache, tokens=new + context, dtype=Dtype.F32)
        assert held == peers.cache_bytes((cache.self_attention_cache, cache.cross_attention_cache))


def test_heads_must_divide_the_width():
    with pytest.raises(BadInput, match="d_model"):
        read_card({**_SMALL, "decoder_attention_heads": 7}, name="bad")
