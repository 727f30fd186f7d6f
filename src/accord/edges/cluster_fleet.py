"""A cluster's listing -> `Fleet`.

In: a `Listing`. Out: `Fleet` with what pods have taken. Invariant: pure; nothing is taken twice, and each assumption
that had to be made is in `unseen`.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec

from accord.edges.cluster_devices import COUNTED, Held, held
from accord.edges.cluster_types import Amounts, KubeNode, Listing, Pod, ResourceSlice, quantity
from accord.edges.device_names import slug
from accord.edges.name_range import compress
from accord.terms.fleet import DeviceKind, Fleet, Node, Numa, Taken

# Labels that name a node's leaf switch and spine: NVIDIA topograph's, and those of AWS.
_SWITCHES = (
    ("network.topology.nvidia.com/leaf", "network.topology.nvidia.com/spine"),
    ("topology.k8s.aws/network-node-layer-3", "topology.k8s.aws/network-node-layer-2"),
    ("topology.kubernetes.io/rack", ""),
)
_LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region", "node.kubernetes.io/instance-type")
_HAMI = re.compile(r"hami\.io/.+-devices-allocated")
_KOORDINATOR = "scheduling.koordinator.sh/device-allocated"


_Unseen = defaultdict[str, list[str]]  # text -> the nodes that it is true of


class _Allocated(msgspec.Struct, frozen=True):
    """One device in Koordinator's annotation."""

    minor: int = 0
    resources: Mapping[str, str] = {}


def fleet_of(listing: Listing) -> Fleet:
    """The cluster as a fleet."""
    slices: defaultdict[str, list[ResourceSlice]] = defaultdict(list)
    for one in listing.slices:
        slices[one.spec.node_name].append(one)
    koordinator = {one.metadata.name: one for one in listing.koordinator}
    kinds: dict[str, DeviceKind] = {}
    nodes: dict[str, tuple[Node, Held]] = {}
    unseen: _Unseen = defaultdict(list)
    for told in listing.nodes:
        name = told.metadata.name
        devices = held(told, slices[name], koordinator.get(name))
        kinds |= {kind.name: kind for kind in devices.kinds}
        for text in devices.unseen:
            unseen[text].append(name)
        nodes[name] = (_node(told, devices, unseen), devices)
    ledger = _Ledger(nodes, kinds, {one.metadata.name: one.status for one in listing.nodes}, unseen)
    claims = _claims(listing)
    for pod in listing.pods:
        if pod.spec.node_name in nodes and pod.status.phase not in ("Succeeded", "Failed"):
            ledger.take(pod, claims.get((pod.metadata.namespace, pod.metadata.name), ()))
    found = _one_spine([node for node, _ in nodes.values()], unseen)
    return Fleet(
        kinds=tuple(kinds[name] for name in sorted(kinds)),
        nodes=found,
        taken=tuple(ledger.taken),
        unseen=(
            *listing.unseen,
            *(f"{compress(names) or f'{len(names)} nodes'}: {text}" for text, names in unseen.items()),
            "NVMe, link groups and PCIe switches: the API server doesn't know them",
        ),
    )


def _node(told: KubeNode, devices: Held, unseen: _Unseen) -> Node:
    name, labels = told.metadata.name, told.metadata.labels
    domains = [device.numa for device in devices.devices] + [nic.numa for nic in devices.nics]
    count = 1 + max(domains, default=0)
    cpus = int(quantity(told.status.allocatable.get("cpu", "0")))
    memory = int(quantity(told.status.allocatable.get("memory", "0")))
    if count > 1:
        text = "cores and memory of each NUMA domain: the API server has the sum; even shares are written"
        unseen[text].append(name)
    leaf, spine = next(
        ((slug(labels[leaf]), labels.get(spine)) for leaf, spine in _SWITCHES if labels.get(leaf)), (None, None)
    )
    if leaf is None:
        unseen[f"leaf switch: no label names it ({_SWITCHES[0][0]})"].append(name)
    return Node(
        name=name,
        numa=tuple(
            Numa(cpus=cpus // count + (number < cpus % count), memory_bytes=memory // count + (number < memory % count))
            for number in range(count)
        ),
        devices=devices.devices,
        nics=devices.nics,
        leaf=leaf,
        spine=slug(spine) if spine else None,
        labels=tuple((key, labels[key]) for key in sorted(_LABELS) if labels.get(key)),
    )


def _one_spine(nodes: Sequence[Node], unseen: _Unseen) -> tuple[Node, ...]:
    """A leaf has one spine; where labels say otherwise (each leaf joins all spines), spines say nothing."""
    spines: defaultdict[str, set[str | None]] = defaultdict(set)
    for node in nodes:
        if node.leaf:
            spines[node.leaf].add(node.spine)
    if all(len(found) == 1 for found in spines.values()):
        return tuple(nodes)
    unseen["spines: labels give one leaf several of them"] = [node.name for node in nodes]
    return tuple(replace(node, spine=None) for node in nodes)


def _claims(listing: Listing) -> Mapping[tuple[str, str], tuple[str, ...]]:
    """Devices (driver/name) that pods hold by claims, by namespace and pod."""
    found: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for claim in listing.claims:
        for user in claim.status.reserved_for:
            if user.resource == "pods":
                results = claim.status.allocation.devices.results
                found[claim.metadata.namespace, user.name] += [f"{one.driver}/{one.device}" for one in results]
    return {key: tuple(names) for key, names in found.items()}


class _Ledger:
    """What pods take, capped at what there is."""

    def __init__(
        self,
        nodes: Mapping[str, tuple[Node, Held]],
        kinds: Mapping[str, DeviceKind],
        amounts: Mapping[str, Amounts],
        unseen: _Unseen,
    ) -> None:
        self.taken: list[Taken] = []
        self._kinds = kinds
        self._nodes = nodes
        self._unseen = unseen
        self._share = {name: [1.0] * len(node.devices) for name, (node, _) in nodes.items()}
        self._memory = {
            name: [_memory(held, n) for n in range(len(node.devices))] for name, (node, held) in nodes.items()
        }
        self._cpus = {name: float(sum(numa.cpus for numa in node.numa)) for name, (node, _) in nodes.items()}
        self._host = {name: sum(numa.memory_bytes for numa in node.numa) for name, (node, _) in nodes.items()}

    def take(self, pod: Pod, claimed: Sequence[str]) -> None:
        """Everything that one pod has."""
        name = pod.spec.node_name
        node, _ = self._nodes[name]
        owner = f"{pod.metadata.namespace}/{pod.metadata.name}"
        requests = [container.resources.requests for container in pod.spec.containers]
        cpus = min(self._cpus[name], round(sum(quantity(one.get("cpu", "0")) for one in requests), 3))
        host = min(self._host[name], round(sum(quantity(one.get("memory", "0")) for one in requests)))
        self._cpus[name] = round(self._cpus[name] - cpus, 3)
        self._host[name] -= host
        bare = Taken(node=name, owner=owner, cpus=cpus, host_memory_bytes=host)
        rest = Taken(node=name, owner=owner)
        for place, (device, part, memory) in enumerate(self._devices(pod, claimed)):
            share = min(part, self._share[name][device])
            bytes_taken = min(memory, self._memory[name][device])
            self._share[name][device] = round(self._share[name][device] - share, 6)
            self._memory[name][device] -= bytes_taken
            base = bare if place == 0 else rest
            codecs = self._kinds[node.devices[device].kind].codecs if share == 1 else ()
            self.taken.append(replace(base, device=device, share=share, memory_bytes=bytes_taken, codecs=codecs))
        if (not self.taken or self.taken[-1].owner != owner) and (cpus or host):
            self.taken.append(bare)

    def _devices(self, pod: Pod, claimed: Sequence[str]) -> list[tuple[int, float, int]]:
        """(device, share, memory) of what the pod has, from the first source that says."""
        name = pod.spec.node_name
        node, devices = self._nodes[name]
        number = {key: place for place, key in enumerate(devices.keys)}
        number |= {device.uuid: place for place, device in enumerate(node.devices) if device.uuid}
        notes = pod.metadata.annotations
        found = [(number[key], 1.0, _memory(devices, number[key])) for key in claimed if key in number]
        for key, text in sorted(notes.items()):
            if _HAMI.fullmatch(key):
                found += [(number[uuid], core / 100, mib << 20) for uuid, mib, core in _hami(text) if uuid in number]
        if not found and _KOORDINATOR in notes:
            found = [
                (number[f"minor {one.minor}"], *_parts(one, devices, number[f"minor {one.minor}"]))
                for one in _koordinator(notes[_KOORDINATOR])
                if f"minor {one.minor}" in number
            ]
        return found or self._whole(pod)

    def _whole(self, pod: Pod) -> list[tuple[int, float, int]]:
        """Whole devices that were counted, not named: the first free ones, which is an assumption."""
        name = pod.spec.node_name
        node, devices = self._nodes[name]
        wanted = sum(
            round(quantity(container.resources.limits.get(resource, "0")))
            for container in pod.spec.containers
            for resource in COUNTED
        )
        free = [place for place in range(len(node.devices)) if self._share[name][place] >= 1.0][:wanted]
        if wanted:
            text = "which devices its pods have: the API server has counts; the first free are taken"
            if name not in self._unseen[text]:
                self._unseen[text].append(name)
        return [(place, 1.0, _memory(devices, place)) for place in free]


def _memory(devices: Held, number: int) -> int:
    kinds = {kind.name: kind for kind in devices.kinds}
    figure = kinds[devices.devices[number].kind].memory_bytes
    return round(figure.value) if figure else 0


def _hami(text: str) -> list[tuple[str, int, int]]:
    """ "UUID,TYPE,memory,core:;" -> (UUID, MiB, percent of cores); `;` ends a container, `:` a device."""
    rows = [row.split(",") for row in re.split("[:;]", text)]
    return [
        (row[0], int(row[2]), int(row[3])) for row in rows if len(row) >= 4 and row[2].isdigit() and row[3].isdigit()
    ]


def _koordinator(text: str) -> Sequence[_Allocated]:
    try:
        told = msgspec.json.decode(text, type=dict[str, list[_Allocated]])
    except msgspec.DecodeError:
        return ()
    return [one for kind in ("gpu", "npu", "xpu") for one in told.get(kind, ())]


def _parts(one: _Allocated, devices: Held, number: int) -> tuple[float, int]:
    core = quantity(one.resources.get("koordinator.sh/gpu-core", "0")) / 100
    ratio = quantity(one.resources.get("koordinator.sh/gpu-memory-ratio", "0")) / 100
    given = one.resources.get("koordinator.sh/gpu-memory")
    return core, round(quantity(given)) if given else round(ratio * _memory(devices, number))
