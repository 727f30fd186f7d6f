"""A list of gangs -> `Gang`s.

In: a YAML file or text. Out: `Gang`s, in their order, with figures in base units. Invariant: every field is understood
or refused. docs/fleet.md lists the fields; examples/gangs.yaml shows them.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from accord.edges.fields import Fields, at, leaf_int, leaf_number, leaf_unit, leaf_version, shown
from accord.edges.fleet_kinds import codecs_of, enum_of, share
from accord.edges.fleet_nodes import plain_text
from accord.edges.yaml_tree import Items, Leaf, Limits, Table, Tree, read_file, read_text
from accord.terms import units
from accord.terms.errors import BadInput
from accord.terms.gang import Apart, Bandwidth, Gang, Need, Part, Relation, Scope, Together

_LIMITS = Limits(text_bytes_max=8 << 20, nodes_max=1_000_000)
_GANGS_MAX = 100_000
_REPLICAS_MAX = 10_000
T = TypeVar("T")


def load_gangs(path: Path) -> tuple[Gang, ...]:
    """The gangs of a YAML file. BadInput with field, value, line and fix."""
    return parse_gangs(read_file(path, what="gangs", limits=_LIMITS))


def gangs_from_text(text: str) -> tuple[Gang, ...]:
    """The same for the text of a document."""
    return parse_gangs(read_text(text, what="gangs", limits=_LIMITS))


def parse_gangs(tree: Tree) -> tuple[Gang, ...]:
    """The same for a tree."""
    fields = Fields(tree, field="")
    fields.must("accord", leaf_version)
    gangs = [gang for copies in fields.must("gangs", _list_of(_copies)) for gang in copies]
    fields.end()
    if len(gangs) > _GANGS_MAX:
        raise BadInput(field="gangs", value=len(gangs), problem="too many", fix=f"write {_GANGS_MAX} at most")
    names = [gang.name for gang in gangs]
    if len(set(names)) < len(names):
        twice = next(name for number, name in enumerate(names) if name in names[:number])
        raise BadInput(field="gangs", value=twice, problem="this name comes twice", fix="give each gang its own")
    return tuple(gangs)


def _copies(tree: Tree, field: str) -> list[Gang]:
    """One gang, or `count` equal ones, numbered from 1."""
    fields = Fields(tree, field=field)
    name = fields.must("name", plain_text)
    count = fields.read("count", leaf_int, 0)
    parts = fields.must("parts", _parts)
    none: tuple[Relation, ...] = ()
    relations = fields.read("relations", lambda below, path: _relations(below, path, parts), none)
    fields.end()
    gang = Gang(name=name, parts=parts, relations=relations)
    if count > _GANGS_MAX:
        raise BadInput(field=f"{field}.count", value=count, problem="too many", fix=f"write {_GANGS_MAX} at most")
    return [replace(gang, name=f"{name}-{number}") for number in range(1, count + 1)] if count else [gang]


def _parts(tree: Tree, field: str) -> tuple[Part, ...]:
    if not isinstance(tree, Table) or not tree.entries:
        fix = "write `name: {cards: 1}` lines below it"
        raise BadInput(field=field, value=shown(tree), problem=f"no parts{at(tree)}", fix=fix)
    return tuple(_part(Fields(below, field=f"{field}.{name}"), name) for name, below in tree.entries)


def _part(fields: Fields, name: str) -> Part:
    plain_text(Leaf(value=name, line=fields.line), fields.name(""))
    none: tuple[str, ...] = ()
    part = Part(
        name=name,
        replicas=fields.read("replicas", _replicas, 1),
        kinds=fields.read("kinds", _texts, none),
        within=fields.read("within", enum_of(Scope), None),
        nic_within=fields.read("nic_within", enum_of(Scope), None),
        need=Need(
            cards=fields.read("cards", leaf_int, 0),
            share=fields.read("share", share, 0.0),
            memory_bytes=fields.read("memory", _size, 0),
            codecs=fields.read("codecs", codecs_of, ()),
            cpus=fields.read("cpus", leaf_number, 0.0),
            host_memory_bytes=fields.read("host_memory", _size, 0),
            nic_bytes_per_s=fields.read("bandwidth", _bandwidth, 0.0),
            nvme_bytes=fields.read("nvme", _size, 0),
        ),
    )
    fields.end()
    if part.need == Need():
        fix = "write cards, or share and memory, or cpus"
        raise BadInput(field=fields.name("cards"), value="absent", problem="the part needs nothing", fix=fix)
    if part.need.cards and part.need.share:
        fix = "keep `cards` for whole devices, or `share` for a part of one"
        raise BadInput(field=fields.name("share"), value=part.need.share, problem="both cards and share", fix=fix)
    return part


def _relations(tree: Tree, field: str, parts: tuple[Part, ...]) -> tuple[Relation, ...]:
    return tuple(_list_of(lambda below, path: _relation(below, path, parts))(tree, field))


def _relation(tree: Tree, field: str, parts: tuple[Part, ...]) -> Relation:
    """`together: [a, b]` + `within`, `apart: [a]` + `over`, or `from: a` + `to: b` + `bandwidth`."""
    fields = Fields(tree, field=field)
    names = tuple(part.name for part in parts)
    keys = {key for key, _ in tree.entries} if isinstance(tree, Table) else set()
    kind = keys & {"together", "apart", "from"}
    if len(kind) != 1:
        fix = "write one of `together: [...]`, `apart: [...]`, or `from: ...` with `to` and `bandwidth`"
        raise BadInput(field=field, value=shown(tree), problem=f"not one relation{at(tree)}", fix=fix)

    def members(below: Tree, path: str) -> tuple[str, ...]:
        return tuple(_known(name, path, names) for name in _texts(below, path))

    def member(below: Tree, path: str) -> str:
        return _known(plain_text(below, path), path, names)

    relation: Relation
    if "from" in kind:
        relation = Bandwidth(
            source=fields.must("from", member),
            target=fields.must("to", member),
            bytes_per_s=fields.must("bandwidth", _bandwidth),
        )
    elif "together" in kind:
        bound = fields.must("together", members)
        scope = fields.must("within", enum_of(Scope))
        weight = fields.read("preferred", leaf_number, None)
        relation = Together(parts=bound, scope=scope, required=weight is None, weight=1.0 if weight is None else weight)
    else:
        bound = fields.must("apart", members)
        scope = fields.must("over", enum_of(Scope))
        most = fields.read("most", _replicas, 1)
        weight = fields.read("preferred", leaf_number, None)
        relation = Apart(
            parts=bound, scope=scope, most=most, required=weight is None, weight=1.0 if weight is None else weight
        )
    fields.end()
    return relation


def _known(name: str, field: str, names: tuple[str, ...]) -> str:
    if name not in names:
        raise BadInput(field=field, value=name, problem="no such part", fix=f"name one of {', '.join(names)}")
    return name


def _list_of(parse: Callable[[Tree, str], T]) -> Callable[[Tree, str], list[T]]:
    def items(tree: Tree, field: str) -> list[T]:
        if not isinstance(tree, Items) or not tree.items:
            fix = "write a list, each entry after a dash"
            raise BadInput(field=field, value=shown(tree), problem=f"not a list{at(tree)}", fix=fix)
        return [parse(item, f"{field}[{number}]") for number, item in enumerate(tree.items)]

    return items


def _texts(tree: Tree, field: str) -> tuple[str, ...]:
    """One text, or a list of them."""
    return (plain_text(tree, field),) if isinstance(tree, Leaf) else tuple(_list_of(plain_text)(tree, field))


def _replicas(tree: Tree, field: str) -> int:
    count = leaf_int(tree, field)
    if not 1 <= count <= _REPLICAS_MAX:
        fix = f"write 1 to {_REPLICAS_MAX}"
        raise BadInput(field=field, value=count, problem=f"out of range{at(tree)}", fix=fix)
    return count


def _size(tree: Tree, field: str) -> int:
    return leaf_unit(units.parse_size_bytes, tree, field)


def _bandwidth(tree: Tree, field: str) -> float:
    return leaf_unit(units.parse_bandwidth_bytes_per_s, tree, field)
