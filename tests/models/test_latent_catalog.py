"""Catalog cards with latent, chosen or compressed attention: as the public cards say, or as transformers counts."""

import json
from importlib.resources import files
from typing import Any

import pytest

from accord.models.read import read_card
from tests.models import peers
from tests.models.cards import public_card

# Which public card an entry is taken from. Those of DeepSeek-V2 aren't in the wheel.
_SAME = {
    "deepseek-v3": "deepseek-ai--DeepSeek-V3",
    "deepseek-r1": "deepseek-ai--DeepSeek-R1",
    "deepseek-v3.2": "deepseek-ai--DeepSeek-V3.2",
    "deepseek-v4-flash": "deepseek-ai--DeepSeek-V4-Flash",
    "deepseek-v4-pro": "deepseek-ai--DeepSeek-V4-Pro",
    "kimi-k2": "moonshotai--Kimi-K2-Instruct",
    "kimi-k2.5": "moonshotai--Kimi-K2.5",
    "kimi-k3": "moonshotai--Kimi-K3",
    "glm-5": "zai-org--GLM-5",
    "glm-5.3": "zai-org--GLM-5.3",
    "minimax-m3": "nvidia--MiniMax-M3-NVFP4",
}
# Half of the last digit that the source prints.
_PRECISION = {
    "deepseek-v2-lite": 0.05e9, "deepseek-v2": 0.5e9, "deepseek-v3": 0.5e9, "deepseek-r1": 0.5e9,
    "deepseek-v4-flash": 0.5e9, "deepseek-v4-pro": 0.05e12, "kimi-k2": 0.5e12, "kimi-k3": 0.05e12,
}  # fmt: skip


@pytest.mark.parametrize("name", _SAME)
def test_an_entry_says_what_the_public_card_says(name):
    entry = _catalog(name)
    ours, public = (read_card(card, name=name) for card in (entry["card"], public_card(_SAME[name])))
    assert ours.needs == public.needs
    assert (ours.context_max, ours.remarks, ours.flows) == (public.context_max, public.remarks, public.flows)
    assert ours.unread == ()
    if name != "minimax-m3":  # the catalog has the plain release, the wheel only NVIDIA's NVFP4 one with the tower
        assert ours.stored == public.stored


@pytest.mark.parametrize("name", ["deepseek-v2", "deepseek-v2-lite"])
def test_an_entry_has_transformers_parameters(name):
    card = _catalog(name)["card"]
    assert read_card(card, name=name).parameters == peers.parameters_of(peers.meta_model(peers.config_of(card)))


@pytest.mark.parametrize("name", _PRECISION)
def test_an_entry_has_the_published_parameters(name):
    entry = _catalog(name)
    assert abs(read_card(entry["card"], name=name).parameters - entry["published"]["parameters"]) <= _PRECISION[name]


def _catalog(name: str) -> Any:
    return json.loads((files("accord.models") / "cards" / f"{name}.json").read_text())
