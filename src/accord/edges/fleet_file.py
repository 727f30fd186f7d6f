"""A fleet document -> `Fleet`.

In: a YAML file or text. Out: `Fleet`, with all figures in base units. Invariant: every field is understood or
refused, and nothing is guessed; kinds stand sorted by name. docs/fleet.md lists the fields.
"""

import dataclasses
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from accord.edges.fields import Fields, at, leaf_bool, leaf_int, leaf_number, leaf_text, leaf_unit, shown
from accord.edges.fleet_inside import numbers_of
from accord.edges.fleet_kinds import Kinds, share
from accord.edges.fleet_nodes import names_of, nodes_of, plain_text
from accord.edges.yaml_tree import Items, Leaf, Limits, Tree, read_file, read_text
from accord.terms import units
from accord.terms.errors import BadInput
from accord.terms.fleet import Fleet, Node, Taken

LIMITS = Limits(text_bytes_max=32 << 20, nodes_max=4_000_000)
_TAKEN_MAX = 1_000_000


def load_fleet(path: Path) -> Fleet:
    """The fleet of a YAML file. BadInput with field, value, line and fix."""
    return parse_fleet(read_file(path, what="fleet", limits=LIMITS))


def fleet_from_text(text: str) -> Fleet:
    """The same for the text of a document."""
    return parse_fleet(read_text(text, what="fleet", limits=LIMITS))


def parse_fleet(tree: Tree) -> Fleet:
    """The same for a tree."""
    fields = Fields(tree, field="")
    fields.must("accord", _version)
    kinds = Kinds()
    devices = fields.take("devices")
    if devices is not None:
        kinds.declare(devices, "devices")
    nodes = fields.must("nodes", lambda below, field: nodes_of(below, field, kinds=kinds))
    none: tuple[Taken, ...] = ()
    taken = fields.read("taken", lambda below, field: _taken(below, field, nodes=nodes, kinds=kinds), none)
    nothing: tuple[str, ...] = ()
    unseen = fields.read("unseen", _unseen, nothing)
    fields.end()
    found = tuple(kinds.found[name] for name in sorted(kinds.found))
    return Fleet(kinds=found, nodes=nodes, taken=taken, unseen=unseen)


def _version(tree: Tree, field: str) -> None:
    if not (isinstance(tree, Leaf) and tree.value == 1 and not isinstance(tree.value, bool | float)):
        raise BadInput(field=field, value=shown(tree), problem=f"unknown format{at(tree)}", fix="write `accord: 1`")


def _unseen(tree: Tree, field: str) -> tuple[str, ...]:
    if not isinstance(tree, Items):
        raise BadInput(field=field, value=shown(tree), problem=f"not a list{at(tree)}", fix="write a list of texts")
    return tuple(leaf_text(item, f"{field}[{number}]") for number, item in enumerate(tree.items))


def _taken(tree: Tree, field: str, *, nodes: Sequence[Node], kinds: Kinds) -> tuple[Taken, ...]:
    if not isinstance(tree, Items):
        fix = "write a list of {node, owner, device, share, memory}"
        raise BadInput(field=field, value=shown(tree), problem=f"not a list{at(tree)}", fix=fix)
    by_name = {node.name: node for node in nodes}
    found: list[Taken] = []
    for number, item in enumerate(tree.items):
        found += _entry(Fields(item, field=f"{field}[{number}]"), by_name, kinds)
        if len(found) > _TAKEN_MAX:
            raise BadInput(field=field, value=len(found), problem="too many", fix=f"write {_TAKEN_MAX} at most")
    _fits(found, by_name, kinds, field=field)
    return tuple(found)


def _entry(fields: Fields, by_name: Mapping[str, Node], kinds: Kinds) -> list[Taken]:
    """One entry: of a node alone, or of some of its devices; what is of the node counts with the first of them."""
    names = fields.must("node", names_of)
    for name in names:
        if name not in by_name:
            raise BadInput(field=fields.name("node"), value=name, problem="no such node", fix="name one of `nodes`")
    node = by_name[names[0]]
    none: tuple[int, ...] = ()
    devices = fields.read("devices", lambda tree, path: numbers_of(tree, path, count=len(node.devices)), none)
    part = fields.read("share", share, None)
    memory = fields.read("memory", _size, None)
    if not devices and (part is not None or memory is not None):
        fix = "say which: `devices: 0`, or write host_memory"
        raise BadInput(field=fields.name("devices"), value="absent", problem="share and memory are of devices", fix=fix)
    model = Taken(
        node=node.name,
        owner=fields.must("owner", plain_text),
        cpus=fields.read("cpus", leaf_number, 0.0),
        host_memory_bytes=fields.read("host_memory", _size, 0),
        numa=fields.read("numa", _number_below(len(node.numa)), None),
        nic=fields.read("nic", _number_below(len(node.nics)), None),
        nic_bytes_per_s=fields.read("bandwidth", _bandwidth, 0.0),
        nvme_bytes=fields.read("nvme", _size, 0),
        movable=fields.read("movable", leaf_bool, False),
    )
    fields.end()
    if model.nic is None and model.nic_bytes_per_s:
        fix = "say which: `nic: 0`"
        raise BadInput(field=fields.name("nic"), value="absent", problem="bandwidth is of a NIC", fix=fix)
    given = None if part is None and memory is None else (part or 0.0, memory or 0)
    found = [one for name in names for one in _each(model, by_name[name], devices, given=given, kinds=kinds)]
    if any(len(by_name[name].devices) <= max(devices, default=-1) for name in names):
        fix = "write nodes with as many devices, or an entry for each"
        raise BadInput(field=fields.name("devices"), value=max(devices), problem="not on all of these nodes", fix=fix)
    return found


def _each(
    model: Taken, node: Node, devices: Sequence[int], *, given: tuple[float, int] | None, kinds: Kinds
) -> Iterator[Taken]:
    """One for each device; without `given` (share and memory) the devices are taken whole."""
    if not devices:
        yield dataclasses.replace(model, node=node.name)
    for place, device in enumerate(devices):
        kind = kinds.found[node.devices[device].kind] if device < len(node.devices) else None
        whole = round(kind.memory_bytes.value) if kind and kind.memory_bytes else 0
        part, memory = given or (1.0, whole)
        of_node = model if place == 0 else Taken(node=node.name, owner=model.owner, movable=model.movable)
        yield dataclasses.replace(of_node, node=node.name, device=device, share=part, memory_bytes=memory)


def _fits(taken: Sequence[Taken], by_name: Mapping[str, Node], kinds: Kinds, *, field: str) -> None:
    """BadInput where more is taken than there is."""
    used: defaultdict[tuple[str, str, int], float] = defaultdict(float)
    for one in taken:
        node = by_name[one.node]
        amounts: list[tuple[str, int, float, float]] = [
            ("cpus", 0, one.cpus, sum(numa.cpus for numa in node.numa)),
            ("host_memory", 0, one.host_memory_bytes, sum(numa.memory_bytes for numa in node.numa)),
            ("nvme", 0, one.nvme_bytes, node.nvme_bytes),
        ]
        if one.device is not None:
            memory = kinds.found[node.devices[one.device].kind].memory_bytes
            amounts.append(("share of device", one.device, one.share, 1))
            amounts.append(("memory of device", one.device, one.memory_bytes, memory.value if memory else math.inf))
        if one.nic is not None:
            amounts.append(("bandwidth of NIC", one.nic, one.nic_bytes_per_s, node.nics[one.nic].bandwidth_bytes_per_s))
        for what, number, amount, most in amounts:
            used[one.node, what, number] += amount
            if used[one.node, what, number] > most * (1 + 1e-9):
                which = f"{what} {number}" if what.endswith(("device", "NIC")) else what
                problem = f"with {one.owner} more {which} is taken than there is"
                raise BadInput(field=field, value=one.node, problem=problem, fix="check what each owner has")


def _size(tree: Tree, field: str) -> int:
    return leaf_unit(units.parse_size_bytes, tree, field)


def _bandwidth(tree: Tree, field: str) -> float:
    return leaf_unit(units.parse_bandwidth_bytes_per_s, tree, field)


def _number_below(count: int) -> Callable[[Tree, str], int | None]:
    def parse(tree: Tree, field: str) -> int | None:
        number = leaf_int(tree, field)
        if number >= count:
            fix = f"write a number from 0 to {count - 1}" if count else "leave it out"
            raise BadInput(field=field, value=number, problem=f"the node has {count}{at(tree)}", fix=fix)
        return number

    return parse
