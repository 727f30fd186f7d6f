"""The families that are known: a written-out table, one row each.

In: nothing. Out: `FAMILIES`. Invariant: a `model_type` stands in one row only.
"""

from collections.abc import Callable
from dataclasses import dataclass

from accord.models.card import Card
from accord.terms.architecture import Architecture

Build = Callable[[Card, str], Architecture]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One row. `build` is imported when it is called, so that one card costs one family's import."""

    name: str
    words: str
    model_types: tuple[str, ...]
    load: Callable[[], Build]


def _dense() -> Build:
    from accord.models.families.dense import build

    return build


def _whisper() -> Build:
    from accord.models.families.whisper import build

    return build


FAMILIES: tuple[Family, ...] = (
    Family(
        name="dense",
        words="dense decoders with grouped-query attention",
        model_types=("llama", "mistral", "qwen2", "qwen3", "mimo"),
        load=_dense,
    ),
    Family(
        name="whisper",
        words="speech recognition by an encoder and a decoder with cross attention",
        model_types=("whisper",),
        load=_whisper,
    ),
)
