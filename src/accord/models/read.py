"""A model card -> its `Architecture`, or an error that says what to supply.

In: the parsed JSON of a card. Out: `Architecture`. Invariant: a `model_type` that no family knows is BadInput that
names the nearest one; nothing is guessed unless `like` says so.
"""

import difflib
from collections.abc import Mapping

from accord.models.card import Card, Json
from accord.models.families.table import FAMILIES, Family
from accord.terms.architecture import Architecture
from accord.terms.errors import BadInput


def read_card(values: Mapping[str, Json], *, name: str, like: str | None = None) -> Architecture:
    """The architecture of one card. `like` names a family to read it as."""
    card = Card(values)
    family = _named(like) if like is not None else _of(card)
    return family.load()(card, name)


def _of(card: Card) -> Family:
    kind = card.word("model_type", "") or card.word("_class_name", "")
    for family in FAMILIES:
        if kind in family.model_types:
            return family
    known = {name: family.name for family in FAMILIES for name in family.model_types}
    near = difflib.get_close_matches(kind, known, n=1, cutoff=0.0)
    hint = f"the nearest is {near[0]} (--like {known[near[0]]})" if near else "add `model_type`"
    raise BadInput(field="model_type", value=kind or "absent", problem="no family knows this architecture", fix=hint)


def _named(like: str) -> Family:
    for family in FAMILIES:
        if like == family.name:
            return family
    names = ", ".join(family.name for family in FAMILIES)
    raise BadInput(field="--like", value=like, problem="no such family", fix=f"use one of {names}")
