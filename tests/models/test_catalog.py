"""The catalog: every card is read whole, names its source, and has the parameters that its makers publish."""

import json
import math

import pytest

from accord.edges import model_catalog
from accord.edges.model_card import find_card
from accord.models import catalog
from accord.models.families.table import FAMILIES
from accord.models.read import read_card
from accord.terms.errors import BadInput

NAMES = model_catalog.names()
# What published counts leave out: Vocos, a file of its own; the embedding and the head (48.4e9 stand in the layers).
_LEFT_OUT = {"minicpm-o-2.6": 13_500_000, "kimi-linear-48b-a3b": 2 * 163_840 * 2304}


def test_there_are_about_forty_models_and_every_family_has_one():
    assert len(NAMES) >= 40
    found = {read_card(model_catalog.entry(name).card, name=name).family for name in NAMES}
    # Language models inside composed ones need no card; Gemma 4's unified form is known from transformers alone.
    inner = {"llama4", "gemma4", "gemma3n", "gemma4-unified"}
    assert {family.name for family in FAMILIES} - found <= inner


@pytest.mark.parametrize("name", NAMES)
def test_a_card_is_read_whole(name):
    entry = model_catalog.entry(name)
    made = read_card(entry.card, name=name)
    assert len(entry.source) > 10
    assert not made.unread
    if entry.published is not None:
        counted = made.parameters - _LEFT_OUT.get(name, 0)
        assert abs(counted - entry.published.parameters) <= _last_digit(entry.published.parameters)


def _last_digit(figure: float) -> float:
    """What one step of a figure's last digit is worth: makers round, or cut."""
    digits = f"{figure:.12e}".partition("e")[0].rstrip("0").replace(".", "")
    return float(10 ** (math.floor(math.log10(figure)) - len(digits) + 1))


@pytest.mark.parametrize("name", NAMES)
def test_a_card_is_small_and_holds_what_the_format_says(name):
    path = model_catalog.FOLDER / f"{name}.json"
    assert name == name.lower()
    assert path.stat().st_size < 6000
    assert set(json.loads(path.read_text())) <= {"source", "published", "card"}


def test_names_are_found_in_any_case_and_with_an_owner():
    assert find_card("Qwen/Qwen3-8B").name == "qwen3-8b"
    assert find_card("qwen3-8b").source == model_catalog.entry("qwen3-8b").source


def test_a_misspelt_name_has_a_suggestion():
    with pytest.raises(BadInput, match=r"did you mean qwen3-32b\?"):
        find_card("qwen3-23b")
    with pytest.raises(BadInput, match="did you mean embedded-omni"):
        find_card("embeded-omni")
    assert "embedded-omni" in catalog.MODELS
