"""Where the devices and NICs of a node stand, as numbers.

In: nodes. Out: `Layout`s, worked out when they are first asked for. Invariant: ids of a scope are equal for what
stands together; what is not known has a negative id of its own, so that it is never taken for near.
"""

from dataclasses import dataclass

from accord.terms.fleet import Device, Nic, Node
from accord.terms.gang import Scope

_NOWHERE = -(1 << 40)  # a NIC whose place is not known stands near nothing
_PLACES = (Scope.LINK_GROUP, Scope.PCIE_SWITCH, Scope.PCIE_ROOT, Scope.NUMA)
_NIC_PLACES = (Scope.PCIE_SWITCH, Scope.PCIE_ROOT, Scope.NUMA)
_Names = dict[Scope, dict[tuple[str | None, ...], int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Ids of devices and NICs by scope; `pair` is a device's number among its kind, halved."""

    kinds: tuple[int, ...]
    full_memory: tuple[int, ...]
    ids: dict[Scope, tuple[int, ...]]
    nic_ids: dict[Scope, tuple[int, ...]]
    pair: tuple[int, ...]
    places: tuple[tuple[int, ...], ...]  # for each device its ids, with -1 for what isn't known


class Layouts:
    """The layouts of nodes, by row; nodes that are laid out alike share one value."""

    def __init__(self, nodes: tuple[Node, ...], kinds: tuple[str, ...], memories: tuple[int, ...]) -> None:
        self._nodes = nodes
        self._kinds = {name: number for number, name in enumerate(kinds)}
        self._memories = memories
        self._rows: dict[int, Layout] = {}
        self._alike: dict[tuple[object, ...], Layout] = {}

    def of(self, row: int) -> Layout:
        """The layout of one node."""
        known = self._rows.get(row)
        if known is None:
            node = self._nodes[row]
            devices = tuple((its.kind, its.numa, its.root, its.bridge, its.group) for its in node.devices)
            key = (devices, tuple((nic.numa, nic.root, nic.bridge) for nic in node.nics))
            known = self._alike.get(key)
            if known is None:
                its = self._new(node)
                known = self._alike[key] = self._alike.setdefault((its.kinds, its.places, *its.nic_ids.values()), its)
            self._rows[row] = known
        return known

    def _new(self, node: Node) -> Layout:
        names: _Names = {scope: {} for scope in _PLACES}
        its = list(enumerate(node.devices))
        ids = {scope: tuple(_id(names, scope, device, -1 - number) for number, device in its) for scope in _PLACES}
        ids[Scope.CARD] = tuple(range(len(node.devices)))
        kinds = tuple(self._kinds[device.kind] for device in node.devices)
        return Layout(
            kinds=kinds,
            full_memory=tuple(self._memories[kind] for kind in kinds),
            ids=ids,
            nic_ids={scope: tuple(_id(names, scope, nic, _NOWHERE) for nic in node.nics) for scope in _NIC_PLACES},
            pair=tuple(kinds[:number].count(kind) // 2 for number, kind in enumerate(kinds)),
            places=tuple(tuple(max(-1, ids[scope][number]) for scope in _PLACES) for number, _ in its),
        )


def _id(names: _Names, scope: Scope, thing: Device | Nic, unknown: int) -> int:
    if scope is Scope.NUMA:
        return thing.numa
    name: tuple[str | None, ...]
    if scope is Scope.LINK_GROUP:
        name = (thing.group,) if isinstance(thing, Device) else (None,)
    else:
        # The switches below two roots may have one name.
        name = (thing.root,) if scope is Scope.PCIE_ROOT else (thing.bridge, thing.root)
    if name[0] is None:
        return unknown
    return names[scope].setdefault(name, len(names[scope]))
