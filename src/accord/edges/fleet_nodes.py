"""The `nodes` section of a fleet file: machines written out, or many equal ones in a line.

In: trees, and the kinds. Out: `Node`s. Invariant: devices, NICs and NUMA domains are numbered as they stand in the
file; a leaf switch has one spine.
"""

import dataclasses
import re
from collections.abc import Sequence

from accord.edges.fields import Fields, at, leaf_int, leaf_text, leaf_unit, shown
from accord.edges.fleet_inside import Inside, compact, domains, linked
from accord.edges.fleet_kinds import Kinds
from accord.edges.name_range import expand
from accord.edges.yaml_tree import Items, Table, Tree
from accord.terms import units
from accord.terms.errors import BadInput
from accord.terms.fleet import Node

NODES_MAX = 100_000
# What may stand in a name: it ends up in manifests, command lines and drawings.
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?", re.ASCII)
_FULL = ("roots", "switches", "cpus", "memory")


def nodes_of(tree: Tree, field: str, *, kinds: Kinds) -> tuple[Node, ...]:
    """All nodes, in their order. BadInput names the entry, the line and the fix."""
    if not isinstance(tree, Items):
        fix = "write a list: `- name: n01` and what it has below"
        raise BadInput(field=field, value=shown(tree), problem=f"not a list{at(tree)}", fix=fix)
    nodes: list[Node] = []
    for number, item in enumerate(tree.items):
        nodes += _entry(item, f"{field}[{number}]", kinds=kinds, most=NODES_MAX - len(nodes))
    _distinct(nodes, field)
    return tuple(nodes)


def names_of(tree: Tree, field: str, *, most: int = NODES_MAX) -> tuple[str, ...]:
    """The names that a pattern stands for, each checked."""
    names = expand(leaf_text(tree, field), field=field, most=most)
    for name in (names[0], names[-1]):  # all differ in digits alone
        if not _NAME.fullmatch(name):
            fix = "use up to 253 letters, digits, dots, dashes and underscores"
            raise BadInput(field=field, value=name, problem=f"not a name{at(tree)}", fix=fix)
    return names


def _entry(tree: Tree, field: str, *, kinds: Kinds, most: int) -> list[Node]:
    fields = Fields(tree, field=field)
    names = fields.must("name", lambda below, name: names_of(below, name, most=most))
    none: tuple[str, ...] = ()
    leaves, spines = (fields.read(key, names_of, none) for key in ("leaf", "spine"))
    inside = _inside(fields, kinds)
    model = Node(
        name=names[0],
        numa=inside.numa,
        devices=fields.read("links", linked(inside.devices), tuple(inside.devices)),
        nics=tuple(inside.nics),
        nvme_bytes=fields.read("nvme", lambda below, name: leaf_unit(units.parse_size_bytes, below, name), 0),
        price_usd_per_hour=fields.read("price_per_hour", _price, None),
        labels=fields.read("labels", _labels, ()),
    )
    fields.end()
    for key, dealt in (("leaf", leaves), ("spine", spines)):
        if len(dealt) > len(names):
            fix = "write no more switches than nodes"
            raise BadInput(field=fields.name(key), value=len(dealt), problem=f"for {len(names)} nodes", fix=fix)
    # Spines are dealt to leaves, so that no leaf is torn in two.
    above = dict(zip(leaves, _dealt(spines, len(leaves)), strict=True))
    places = zip(names, _dealt(leaves, len(names)), _dealt(spines, len(names)), strict=True)
    return [
        dataclasses.replace(model, name=name, leaf=leaf, spine=above.get(leaf or "", spine))
        for name, leaf, spine in places
    ]


def _dealt(things: Sequence[str], count: int) -> list[str | None]:
    """What each of `count` gets when `things` are dealt in order, in runs as equal as can be."""
    return [things[number * len(things) // count] if things else None for number in range(count)]


def _inside(fields: Fields, kinds: Kinds) -> Inside:
    numa = fields.take("numa")
    if not isinstance(numa, Items):
        return compact(fields, None if numa is None else leaf_int(numa, fields.name("numa")), kinds=kinds)
    for key in _FULL:
        tree = fields.take(key)
        if tree is not None:
            problem = f"`numa` is a list{at(tree)}"
            fix = "write it in each NUMA domain, or write `numa: 2` and deal everything out"
            raise BadInput(field=fields.name(key), value=shown(tree), problem=problem, fix=fix)
    return domains(numa, fields, kinds=kinds)


def _price(tree: Tree, field: str) -> float | None:
    return leaf_unit(units.parse_usd, tree, field)


def _labels(tree: Tree, field: str) -> tuple[tuple[str, str], ...]:
    if not isinstance(tree, Table):
        raise BadInput(field=field, value=shown(tree), problem=f"not a mapping{at(tree)}", fix="write `key: value`")
    return tuple(sorted((key, plain_text(below, f"{field}.{key}", empty=True)) for key, below in tree.entries))


def plain_text(tree: Tree, field: str, *, empty: bool = False) -> str:
    """A text of one line, at most 253 characters."""
    text = "" if empty and shown(tree) == "" else leaf_text(tree, field)
    if len(text) > 253 or not all(character.isprintable() for character in text):
        fix = "write one line of at most 253 printable characters"
        raise BadInput(field=field, value=text, problem=f"not a short text{at(tree)}", fix=fix)
    return text


def _distinct(nodes: Sequence[Node], field: str) -> None:
    seen: set[str] = set()
    spine_of: dict[str, str | None] = {}
    for node in nodes:
        if node.name in seen:
            raise BadInput(field=field, value=node.name, problem="this name comes twice", fix="give each node its own")
        seen.add(node.name)
        if node.leaf is not None and spine_of.setdefault(node.leaf, node.spine) != node.spine:
            problem = f"its leaf {node.leaf} has the spines {spine_of[node.leaf]} and {node.spine}"
            fix = "give each leaf one spine, or leave `spine` out"
            raise BadInput(field=field, value=node.name, problem=problem, fix=fix)
