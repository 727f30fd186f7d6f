"""Cards of every family, and random legal ones near them.

In: our catalog, and small cards for families that it has inside other models only. Out: `EXAMPLES`, `varied`.
"""

import copy
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from accord.edges import model_catalog
from accord.models.families.table import FAMILIES
from accord.models.read import read_card
from accord.terms.errors import BadInput

_UNIFIED: dict[str, Any] = {
    "model_type": "gemma4_unified",
    "text_config": {
        "model_type": "gemma4_unified_text", "hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 6,
        "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64, "vocab_size": 2048, "sliding_window": 128,
    },
    "vision_config": {"mm_embed_dim": 512, "output_proj_dims": 512},
    "audio_config": {"audio_embed_dim": 64},
}  # fmt: skip
# Language models that the catalog has inside of others.
_INNER = {
    "llama4": "llama-4-scout", "gemma4": "gemma-4-e4b", "gemma3n": "gemma-3n-e4b",
}  # fmt: skip


def _examples() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {"gemma4-unified": _UNIFIED}
    for name in model_catalog.names():
        card: Any = copy.deepcopy(dict(model_catalog.entry(name).card))
        found.setdefault(read_card(card, name=name).family, card)
    for family, name in _INNER.items():
        below: Any = copy.deepcopy(dict(model_catalog.entry(name).card)["text_config"])
        kinds = next(item.model_types for item in FAMILIES if item.name == family)
        found[family] = {"max_position_embeddings": 8192, **below, "model_type": kinds[0]}
    return found


# One card of each family, by the family's name.
EXAMPLES = _examples()


@st.composite
def varied(draw: st.DrawFn, family: str) -> dict[str, Any]:
    """The family's example with a few of its whole numbers halved or doubled, and switches turned, while it reads."""
    card = copy.deepcopy(EXAMPLES[family])
    places = list(figures(card))
    for place in draw(st.lists(st.sampled_from(places), min_size=1, max_size=6)):
        value = at(card, place)
        changed: Any = not value if isinstance(value, bool) else draw(st.sampled_from((value // 2, value * 2)))
        trial = put(card, place, changed)
        if reads(trial):
            card = trial
    return card


def figures(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Where a card has whole numbers and switches, outside lists and settings of quantization."""
    for key, below in value.items():
        if isinstance(below, dict) and key != "quantization_config":
            yield from figures(below, (*path, key))
        elif isinstance(below, int):
            yield (*path, key)


def at(card: dict[str, Any], place: tuple[str, ...]) -> Any:
    """What stands there."""
    found: Any = card
    for key in place:
        found = found[key]
    return found


def put(card: dict[str, Any], place: tuple[str, ...], value: Any) -> dict[str, Any]:
    """A copy of the card with something else there."""
    made = copy.deepcopy(card)
    at(made, place[:-1])[place[-1]] = value
    return made


def reads(card: dict[str, Any]) -> bool:
    """Whether our reader takes it."""
    try:
        read_card(card, name="varied")
    except BadInput:
        return False
    return True
