"""Cosmos's autoregressive world models: against transformers where it has the same layers, else against NVIDIA's files.

Without a prompt they are Qwen3's layers with other figures. With one, each layer also attends to it; the sizes of
`model.pt` in nvidia/Cosmos-Predict1-5B-Video2World and -13B-Video2World (bf16) are 9.17 and 26.6 GB.
"""

from typing import Any

import pytest
import torch

from accord.edges import model_catalog
from accord.estimate.cache import request_bytes
from accord.estimate.work import step_flops
from accord.models.card import Json
from accord.models.read import read_card
from accord.terms.architecture import Needs
from accord.terms.errors import BadInput
from accord.terms.graph import Payload
from accord.terms.tensors import Dtype
from accord.terms.work import Load, Phase
from tests.models import peers, pipelines

_SMALL: dict[str, Json] = {
    "model_type": "cosmos_ar", "dim": 96, "n_layers": 3, "n_heads": 6, "n_kv_heads": 2, "head_dim": 32,
    "ffn_hidden_size": 160, "vocab_size": 320, "max_seq_len": 128,
}  # fmt: skip
_T5: dict[str, Json] = {
    "model_type": "t5", "architectures": ["T5EncoderModel"], "d_model": 48, "d_ff": 80, "d_kv": 12, "num_heads": 4,
    "num_layers": 2, "vocab_size": 96,
}  # fmt: skip
_PROMPTED: dict[str, Json] = {**_SMALL, "insert_cross_attn": True, "context_dim": 48, "text_encoder": _T5}
_PROMPT = 512


@pytest.mark.parametrize("size", ["4b", "12b"])
def test_parameters_equal_those_of_the_same_layers(size):
    card = model_catalog.entry(f"cosmos-1.0-autoregressive-{size}").card
    theirs = peers.parameters_of(peers.meta_model(_alike(card)))
    assert read_card(card, name=size).parameters == theirs


@pytest.mark.parametrize(("size", "file_gb"), [("5b", 9.17), ("13b", 26.6)])
def test_a_prompted_decoder_is_as_large_as_its_file(size, file_gb):
    card = model_catalog.entry(f"cosmos-1.0-autoregressive-{size}-video2world").card
    assert 2 * read_card(card, name=size).of("decoder").parameters / 1e9 == pytest.approx(file_gb, abs=0.06)


def test_a_prompt_costs_one_more_attention_a_layer():
    plain, prompted = (read_card(card, name="small").of("decoder") for card in (_SMALL, _PROMPTED))
    model = peers.small_model(_alike(_SMALL))
    first = peers.run(model, new=8)
    assert _flops(plain, Load(new=8), Phase.PREFILL) == pytest.approx(first.flops, rel=0.01)
    added = first.flops + 3 * _cross_flops(new=8, project=True)
    assert _flops(prompted, Load(new=8), Phase.PREFILL) == pytest.approx(added, rel=0.01)

    then = peers.run(model, new=1, cache=first.cache)
    added = then.flops + 3 * _cross_flops(new=1, project=False)
    assert _flops(prompted, Load(new=1, context=8), Phase.DECODE) == pytest.approx(added, rel=0.01)
    held = peers.cache_bytes(then.cache)
    assert request_bytes(plain.cache, tokens=9, dtype=Dtype.F32) == held
    prompt = 3 * 2 * (_PROMPT * 2 * 32) * 4  # layers, keys and values, positions of two heads, float32
    assert request_bytes(prompted.cache, tokens=9, dtype=Dtype.F32) == held + prompt


def test_the_graph_streams_codes_and_takes_the_prompt_in_once():
    built = read_card(_PROMPTED, name="small")
    assert [(edge.source, edge.target, edge.payload) for edge in built.graph.edges] == [
        ("door", "decoder", Payload.CODES),
        ("door", "text_encoder", Payload.TOKENS),
        ("text_encoder", "decoder", Payload.HIDDEN),
        ("decoder", "door", Payload.CODES),
    ]
    assert built.unread == ()


@pytest.mark.parametrize(
    ("change", "field"),
    [({"n_kv_heads": 4}, "n_heads"), ({"context_dim": 64}, "context_dim"), ({"text_encoder": None}, "text_encoder")],
)
def test_what_is_wrong_is_named(change, field):
    with pytest.raises(BadInput) as caught:
        read_card({**_PROMPTED, **change}, name="wrong")
    assert caught.value.field == field


def _alike(card: Any) -> Any:
    """Qwen3's configuration with these figures."""
    return peers.config_of(
        {
            "model_type": "qwen3",
            "hidden_size": card["dim"],
            "num_hidden_layers": card["n_layers"],
            "num_attention_heads": card["n_heads"],
            "num_key_value_heads": card["n_kv_heads"],
            "head_dim": card["head_dim"],
            "intermediate_size": card["ffn_hidden_size"],
            "vocab_size": card["vocab_size"],
            "tie_word_embeddings": False,
        }
    )


def _flops(needs: Needs, load: Load, phase: Phase) -> float:
    return step_flops(needs.operators, load, phase=phase, rectangle=True)


def _cross_flops(*, new: int, project: bool) -> int:
    """One layer's attention to the prompt, written out in torch: keys and values are made once a request."""
    hidden, prompt, made = torch.randn(new, 96), torch.randn(_PROMPT, 48), torch.randn(_PROMPT, 2 * 32)

    def call() -> None:
        queries = (hidden @ torch.randn(96, 6 * 32)).view(new, 6, 32).transpose(0, 1)
        sides = [prompt @ torch.randn(48, 2 * 32) if project else made for _ in range(2)]
        keys, values = (side.view(_PROMPT, 2, 32).transpose(0, 1).repeat_interleave(3, dim=0) for side in sides)
        out = torch.softmax(queries @ keys.transpose(1, 2), dim=-1) @ values
        torch.mm(out.transpose(0, 1).reshape(new, 6 * 32), torch.randn(6 * 32, 96))

    return pipelines.flops_of(call)
