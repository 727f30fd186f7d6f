"""A fleet document -> `Fleet`.

In: a YAML file or text. Out: `Fleet`, with all figures in base units. Invariant: every field is understood or
refused, and nothing is guessed; kinds stand sorted by name. docs/fleet.md lists the fields.
"""

import dataclasses
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from accord.edges.fields import Fields, at, leaf_bool, leaf_int, leaf_number, leaf_text, leaf_unit, leaf_version, shown
from accord.edges.fleet_inside import numbers_of
from accord.edges.fleet_kinds import Kinds, all_of, codecs_of, share
from accord.edges.fleet_nodes import names_of, nodes_of, plain_text
from accord.edges.yaml_tree import Items, Limits, Tree, read_file, read_text
from accord.terms import units
from accord.terms.errors import BadInput
from accord.terms.fleet import Codec, DeviceKind, Fleet, Node, Taken

LIMITS = Limits(text_bytes_max=32 << 20, nodes_max=4_000_000)
_TAKEN_MAX = 1_000_000
_Amount = tuple[str, int | None, float, float]  # what, of which device or NIC, how much, and how much there is


def load_fleet(path: Path) -> Fleet:
    """The fleet of a YAML file. BadInput with field, value, line and fix."""
    return parse_fleet(read_file(path, what="fleet", limits=LIMITS))


def fleet_from_text(text: str) -> Fleet:
    """The same for the text of a document."""
    return parse_fleet(read_text(text, what="fleet", limits=LIMITS))


def parse_fleet(tree: Tree) -> Fleet:
    """The same for a tree."""
    fields = Fields(tree, field="")
    fields.must("accord", leaf_version)
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
    codecs = fields.read("codecs", codecs_of, None)
    cut = fields.read("template", leaf_text, None)
    if not devices and any(its is not None for its in (part, memory, codecs, cut)):
        fix = "say which: `devices: 0`, or write host_memory"
        problem = "share, memory, codecs and template are of devices"
        raise BadInput(field=fields.name("devices"), value="absent", problem=problem, fix=fix)
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
        move_cost_usd=fields.read("move_cost", lambda tree, path: leaf_unit(units.parse_usd, tree, path), 0.0),
    )
    fields.end()
    if model.nic is None and model.nic_bytes_per_s:
        fix = "say which: `nic: 0`"
        raise BadInput(field=fields.name("nic"), value="absent", problem="bandwidth is of a NIC", fix=fix)
    given = _Given(share=part, memory_bytes=memory, codecs=codecs, template=cut, field=fields.name("template"))
    found = [one for name in names for one in _each(model, by_name[name], devices, given=given, kinds=kinds)]
    if any(len(by_name[name].devices) <= max(devices, default=-1) for name in names):
        fix = "write nodes with as many devices, or an entry for each"
        raise BadInput(field=fields.name("devices"), value=max(devices), problem="not on all of these nodes", fix=fix)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """What is written of each device that is taken."""

    share: float | None
    memory_bytes: int | None
    codecs: tuple[Codec, ...] | None
    template: str | None
    field: str  # of the template

    def of(self, kind: DeviceKind) -> tuple[float, int, tuple[Codec, ...]]:
        """Share, memory and codecs: those of the template, those of the whole device if nothing is written."""
        if self.template is not None:
            cut = next((its for its in kind.templates if its.name == self.template), None)
            if cut is None:
                names = ", ".join(its.name for its in kind.templates) or "nothing: it has no templates"
                problem = f"no such template of {kind.name}"
                raise BadInput(field=self.field, value=self.template, problem=problem, fix=f"known here: {names}")
            whole = (cut.share, cut.memory_bytes, cut.codecs)
        elif self.share is None and self.memory_bytes is None and self.codecs is None:
            return all_of(kind)
        else:
            whole = (0.0, 0, ())
        return (
            whole[0] if self.share is None else self.share,
            whole[1] if self.memory_bytes is None else self.memory_bytes,
            whole[2] if self.codecs is None else self.codecs,
        )


def _each(model: Taken, node: Node, devices: Sequence[int], *, given: _Given, kinds: Kinds) -> Iterator[Taken]:
    """One for each device that is there."""
    if not devices:
        yield dataclasses.replace(model, node=node.name)
    for place, device in enumerate(number for number in devices if number < len(node.devices)):
        part, memory, codecs = given.of(kinds.found[node.devices[device].kind])
        of_node = model if place == 0 else Taken(node=node.name, owner=model.owner, movable=model.movable)
        yield dataclasses.replace(
            of_node, node=node.name, device=device, share=part, memory_bytes=memory, codecs=codecs,
            template=given.template,
        )  # fmt: skip


def _fits(taken: Sequence[Taken], by_name: Mapping[str, Node], kinds: Kinds, *, field: str) -> None:
    """BadInput where more is taken than there is."""
    used: defaultdict[tuple[str, str, int | None], float] = defaultdict(float)
    for one in taken:
        node = by_name[one.node]
        amounts: list[_Amount] = [
            ("cpus", None, one.cpus, sum(numa.cpus for numa in node.numa)),
            ("host_memory", None, one.host_memory_bytes, sum(numa.memory_bytes for numa in node.numa)),
            ("nvme", None, one.nvme_bytes, node.nvme_bytes),
        ]
        if one.device is not None:
            amounts += _of_device(one, kinds.found[node.devices[one.device].kind], one.device)
        if one.nic is not None:
            amounts.append(("bandwidth of NIC", one.nic, one.nic_bytes_per_s, node.nics[one.nic].bandwidth_bytes_per_s))
        for what, number, amount, most in amounts:
            used[one.node, what, number] += amount
            if used[one.node, what, number] > most * (1 + 1e-9):
                which = what if number is None else f"{what} {number}"
                problem = f"with {one.owner} more {which} is taken than there is"
                raise BadInput(field=field, value=one.node, problem=problem, fix="check what each owner has")


def _of_device(one: Taken, kind: DeviceKind, device: int) -> Iterator[_Amount]:
    """What an entry takes of one device, and what such a device has."""
    yield "share of device", device, one.share, 1
    yield "memory of device", device, one.memory_bytes, kind.memory_bytes.value if kind.memory_bytes else math.inf
    has = {codec.name: codec.units for codec in kind.codecs}
    for codec in one.codecs:
        yield f"{codec.name} of device", device, codec.units, has.get(codec.name, 0)
    for cut in kind.templates:
        if cut.name == one.template:
            yield f"{cut.name} of device", device, 1, cut.count_max


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
