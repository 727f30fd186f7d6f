"""A `Tree` -> frozen data classes of `terms`, by their types alone.

In: the tree of a document that a program wrote and a person may have edited. Out: the value. Invariant: every field
is taken or refused; an error names the field's path.
"""

import re
from typing import TypeVar

import msgspec

from accord.edges.fields import at, shown
from accord.edges.yaml_tree import Items, Leaf, Scalar, Table, Tree
from accord.terms.errors import BadInput

T = TypeVar("T")
_Plain = Scalar | list["_Plain"] | dict[str, "_Plain"]


def typed(tree: Tree, kind: type[T], *, field: str, fix: str) -> T:
    """The value of this type. BadInput for what doesn't fit it, or is no field of it."""
    try:
        value = msgspec.convert(plain(tree), type=kind)
    except msgspec.ValidationError as error:
        raise _wrong(str(error), field=field, fix=fix) from error
    _no_more(tree, msgspec.to_builtins(value), field=field)
    return value


def plain(tree: Tree) -> _Plain:
    """The tree as mappings, lists and scalars."""
    match tree:
        case Leaf():
            return tree.value
        case Items():
            return [plain(item) for item in tree.items]
        case Table():
            return {key: plain(item) for key, item in tree.entries}


def _wrong(said: str, *, field: str, fix: str) -> BadInput:
    """msgspec says "what - at `$.path`"."""
    match = re.fullmatch(r"(?s)(.*?)(?: - at `(?:key in )?\$?(.*)`)?", said)
    problem, path = (match.group(1), match.group(2) or "") if match else (said, "")
    return BadInput(field=f"{field}{path}", value="as written", problem=problem, fix=fix)


def _no_more(tree: Tree, known: object, *, field: str) -> None:
    """Refuses what conversion ignored: fields that the type doesn't have."""
    match tree, known:
        case Table(entries=entries), dict():
            for key, below in entries:
                if key not in known:
                    fix = f"known here: {', '.join(map(str, known))}"
                    raise BadInput(
                        field=f"{field}.{key}", value=shown(below), problem=f"unknown field{at(below)}", fix=fix
                    )
                _no_more(below, known[key], field=f"{field}.{key}")
        case Items(items=items), list() | tuple():
            for number, (below, item) in enumerate(zip(items, known, strict=True)):
                _no_more(below, item, field=f"{field}[{number}]")
        case _:
            return
