"""What a fleet has free of each kind, as far as counting can say it.

In: a `Fleet`. Out: `Supply`, one a kind, by name. Invariant: a device that somebody has a part of isn't counted; what
counting says is there, placement may still not find together, never the other way round.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass

from accord.estimate.performance import NETWORK_BYTES_PER_S
from accord.plan.fleet.cores import PROCESS_CORES
from accord.terms.fleet import DeviceKind, Fleet, Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Supply:
    """One kind. `free` is how many free devices each node has, largest first.

    `linked` devices at most share fast links; `network_bytes_per_s` is what a device has of its node's NICs (None:
    the fleet doesn't say). `grouped`: the fleet says which devices are joined.
    """

    kind: DeviceKind
    free: tuple[int, ...]
    linked: int
    network_bytes_per_s: float | None
    grouped: bool

    @property
    def cards(self) -> int:
        """All free devices."""
        return sum(self.free)

    @property
    def network(self) -> float:
        """The network of a device, a usual one where the fleet doesn't say."""
        return NETWORK_BYTES_PER_S if self.network_bytes_per_s is None else self.network_bytes_per_s

    def nodes_of(self, ranks: int) -> int | None:
        """On how many nodes a replica of so many ranks stands, in equal parts; None: it can't."""
        for nodes in range(1, ranks + 1):
            if ranks % nodes == 0 and sum(free >= ranks // nodes for free in self.free) >= nodes:
                return nodes
        return None

    def replicas_max(self, ranks: int, nodes: int) -> int:
        """How many such replicas there could be."""
        return sum(free // (ranks // nodes) for free in self.free) // nodes


def supplies(fleet: Fleet) -> tuple[Supply, ...]:
    """What is free of each kind that the fleet has devices of."""
    held = {(item.node, item.device) for item in fleet.taken if item.device is not None}
    free: dict[str, list[int]] = defaultdict(list)
    linked: Counter[str] = Counter()
    grouped: dict[str, bool] = {}
    network: dict[str, list[float]] = defaultdict(list)
    for node in fleet.nodes:
        counts = Counter(device.kind for number, device in enumerate(node.devices) if (node.name, number) not in held)
        cores = sum(numa.cpus for numa in node.numa) - sum(one.cpus for one in fleet.taken if one.node == node.name)
        for kind, count in counts.items():
            free[kind].append(min(count, int(cores / PROCESS_CORES)))
            named = all(device.group is not None for device in node.devices if device.kind == kind)
            grouped[kind] = grouped.get(kind, True) and named
            linked[kind] = max(linked[kind], _linked(node, kind))
            if node.nics:
                network[kind].append(sum(nic.bandwidth_bytes_per_s for nic in node.nics) / len(node.devices))
    return tuple(
        Supply(
            kind=fleet.kind(kind),
            free=tuple(sorted(free[kind], reverse=True)),
            linked=linked[kind],
            network_bytes_per_s=min(network[kind]) if len(network[kind]) == len(free[kind]) else None,
            grouped=grouped[kind],
        )
        for kind in sorted(free)
    )


def _linked(node: Node, kind: str) -> int:
    """Devices of a kind in its largest link group; without groups all of the node are taken to be joined alike."""
    groups = Counter(device.group for device in node.devices if device.kind == kind)
    named = [count for group, count in groups.items() if group is not None]
    return max(named) if named else sum(groups.values())
