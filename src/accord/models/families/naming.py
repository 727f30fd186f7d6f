"""One name for each figure: cards write some of them under another name, too, as transformers' classes let them.

In: a `Card`. Out: the same card, in the family's names. Invariant: two names of one figure never say two things.
"""

from collections.abc import Mapping

from accord.models.card import Card

# What counts experts, in turn by transformers' release and by publisher.
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")


def one_name(card: Card, names: Mapping[str, str]) -> Card:
    """The card with what stands under `names`' keys put under their values; BadInput where both stand and differ."""
    found = {}
    for other, name in names.items():
        if other not in card:
            continue
        value = card.raw(other)
        if name in card and card.raw(name) != value:
            card.wrong(other, problem=f"not {name} = {card.raw(name)}", fix=f"write one of the two, `{name}`")
        found[name] = value
    return card.given(**found)


def expert_count(card: Card, name: str) -> Card:
    """The card with its number of experts under `name`."""
    return one_name(card, {other: name for other in _EXPERTS if other != name})
