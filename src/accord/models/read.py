"""A model card -> its `Architecture`, or an error that says what to supply.

In: the parsed JSON of a card. Out: `Architecture`. Invariant: a `model_type` that no family knows is BadInput that
names the nearest one; nothing is guessed unless `like` says so, and then the remarks tell.
"""

import difflib
from collections.abc import Mapping
from dataclasses import replace

from accord.models.card import Card, Json
from accord.models.families.family import Family
from accord.models.families.table import FAMILIES
from accord.models.nearest import nearest
from accord.terms.architecture import Architecture
from accord.terms.errors import BadInput


def read_card(values: Mapping[str, Json], *, name: str, like: str | None = None) -> Architecture:
    """The architecture of one card. `like` names a family, or a `model_type`, to read it as."""
    card = Card(values)
    if like is not None:
        return _read_like(card, name, like)
    kind = _kind(card)
    for family in FAMILIES:
        if kind in family.model_types:
            return family.load()(card, name)
    raise _unknown(card, kind)


def _kind(card: Card) -> str:
    return card.word(_key(card), "")


def _key(card: Card) -> str:
    return "model_type" if "model_type" in card or "_class_name" not in card else "_class_name"


def _read_like(card: Card, name: str, like: str) -> Architecture:
    """Reads everything as that family does; only the name of the architecture is taken on trust."""
    for family in FAMILIES:
        if like == family.name or like in family.model_types:
            kind = like if like in family.model_types else _meant(card, family)
            made = family.load()(card.given(**{_key(card): kind}), name)
            remark = f"read as {kind} (family {family.name}), as --like says; the card's own is {_own(card)}"
            return replace(made, remarks=(remark, *made.remarks))
    known = [*(family.name for family in FAMILIES), *(kind for family in FAMILIES for kind in family.model_types)]
    near = difflib.get_close_matches(like, known, n=1, cutoff=0.5)
    fix = f"did you mean {near[0]}?" if near else "`accord model --list` names the families"
    raise BadInput(field="--like", value=like, problem="no such family", fix=fix)


def _meant(card: Card, family: Family) -> str:
    """The family's architecture that is named most like the card's own; its first one where none is."""
    near = difflib.get_close_matches(_kind(card)[:80], family.model_types, n=1, cutoff=0.5)
    return near[0] if near else family.model_types[0]


def _own(card: Card) -> str:
    return repr(_kind(card)[:80]) if _kind(card) else "absent"


def _unknown(card: Card, kind: str) -> BadInput:
    near = nearest(card, kind)
    if near is None:
        fix = "give a card with `model_type` and the sizes of its layers; `accord model --list` names the families"
    else:
        fix = (
            f"the nearest family is {near.family.name} ({near.family.words}), since {near.why}; "
            f"if its layers are the same, add --like {near.like}"
        )
    problem = "no family knows this architecture" if kind else "the card names no architecture"
    return BadInput(field=_key(card), value=kind or "absent", problem=problem, fix=fix)
