"""One row of the table of families.

In: nothing. Out: `Family`. Invariant: reading the table imports no family's code.
"""

from collections.abc import Callable
from dataclasses import dataclass

from accord.models.card import Card
from accord.terms.architecture import Architecture

Build = Callable[[Card, str], Architecture]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A family: `words` for people, the `model_type`s that it reads, and `load`, which imports what builds it."""

    name: str
    words: str
    model_types: tuple[str, ...]
    load: Callable[[], Build]
