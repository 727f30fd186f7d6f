"""Reads a `Tree` field by field, and says precisely what is wrong with it.

In: the tables and leaves of `yaml_tree`. Out: typed values. Invariant: every field is either read or
reported; an error names the field's dotted path, its value, its line where there is one, and the fix.
"""

import difflib
from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from accord.edges.yaml_tree import Items, Leaf, Table, Tree
from accord.terms.errors import BadInput

T = TypeVar("T")
N_co = TypeVar("N_co", covariant=True)
_NUMBER_MAX = 2.0**53  # every whole number up to here is exact


class UnitParser(Protocol[N_co]):
    """One of the parsers of `terms/units.py`."""

    def __call__(self, text: object, /, *, field: str) -> N_co: ...


class Fields:
    """Reads a `Table` field by field; `end` refuses what nobody asked for."""

    def __init__(self, tree: Tree, *, field: str) -> None:
        if not isinstance(tree, Table):
            fix = "write `name: value` lines below it"
            raise BadInput(field=field or "document", value=shown(tree), problem=f"not a mapping{at(tree)}", fix=fix)
        self._left = dict(tree.entries)
        self._field = field
        self._known: list[str] = []
        self.line = tree.line

    def name(self, key: str) -> str:
        """The dotted path of one of these fields."""
        return f"{self._field}.{key}" if self._field else key

    def take(self, key: str) -> Tree | None:
        """Takes one field; None if it isn't there."""
        self._known.append(key)
        return self._left.pop(key, None)

    def read(self, key: str, parse: Callable[[Tree, str], T], default: T) -> T:
        """Takes and parses one field, or gives the default."""
        tree = self.take(key)
        return default if tree is None else parse(tree, self.name(key))

    def must(self, key: str, parse: Callable[[Tree, str], T]) -> T:
        """Takes and parses one field that has to be there."""
        tree = self.take(key)
        if tree is None:
            for meant in difflib.get_close_matches(key, self._left, n=1):
                raise unknown(self.name(meant), meant, [key], tree=self._left[meant])
            raise BadInput(field=self.name(key), value="absent", problem="required", fix=f"add `{key}: ...`")
        return parse(tree, self.name(key))

    def rest(self) -> tuple[tuple[str, Tree], ...]:
        """Takes all that is left, for tables whose keys are open."""
        left = tuple(self._left.items())
        self._left = {}
        return left

    def end(self) -> None:
        """BadInput for the first field that nobody took, with the nearest known one."""
        for key, tree in self._left.items():
            raise unknown(self.name(key), key, self._known, tree=tree)


def unknown(field: str, key: str, known: Iterable[str], *, tree: Tree) -> BadInput:
    """The error for a key that isn't one of `known`."""
    names = list(known)
    near = difflib.get_close_matches(key, names, n=1, cutoff=0.5)
    fix = f"did you mean {near[0]}?" if near else f"known here: {', '.join(names)}"
    return BadInput(field=field, value=shown(tree), problem=f"unknown field{at(tree)}", fix=fix)


def at(tree: Tree) -> str:
    """Where a tree stands, for the end of a sentence: " (line 3)", or nothing."""
    return "" if tree.line is None else f" (line {tree.line})"


def shown(tree: Tree) -> object:
    """A value for an error text."""
    match tree:
        case Leaf():
            return tree.value
        case Items():
            return f"a list of {len(tree.items)}"
        case Table():
            return f"a mapping of {len(tree.entries)}"


def leaf_text(tree: Tree, field: str) -> str:
    """A string that isn't empty. BadInput for anything else."""
    if isinstance(tree, Leaf) and isinstance(tree.value, str) and tree.value.strip():
        return tree.value
    raise BadInput(
        field=field, value=shown(tree), problem=f"not a text{at(tree)}", fix="write a text, in quotes if need be"
    )


def leaf_number(tree: Tree, field: str) -> float:
    """A finite number, 0 or more."""
    value = tree.value if isinstance(tree, Leaf) else None
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _NUMBER_MAX:
        return float(value)
    fix = "write a plain number, 0 or more"
    raise BadInput(field=field, value=shown(tree), problem=f"not a number of that kind{at(tree)}", fix=fix)


def leaf_int(tree: Tree, field: str) -> int:
    """A whole number, 0 or more."""
    number = leaf_number(tree, field)
    if not number.is_integer():
        problem = f"not a whole number{at(tree)}"
        raise BadInput(field=field, value=shown(tree), problem=problem, fix="write a whole number, 0 or more")
    return int(number)


def leaf_bool(tree: Tree, field: str) -> bool:
    """true or false."""
    if isinstance(tree, Leaf) and isinstance(tree.value, bool):
        return tree.value
    raise BadInput(field=field, value=shown(tree), problem=f"not true or false{at(tree)}", fix="write true or false")


def leaf_unit(parse: UnitParser[T], tree: Tree, field: str) -> T:
    """A figure with its unit, and the line in the error."""
    value = tree.value if isinstance(tree, Leaf) else shown(tree)
    try:
        return parse(value, field=field)
    except BadInput as error:
        raise BadInput(field=field, value=value, problem=f"{error.problem}{at(tree)}", fix=error.fix) from None


def leaf_version(tree: Tree, field: str) -> None:
    """The version of Accord's documents, 1."""
    if not (isinstance(tree, Leaf) and tree.value == 1 and not isinstance(tree.value, bool | float)):
        raise BadInput(field=field, value=shown(tree), problem=f"unknown format{at(tree)}", fix="write `accord: 1`")
