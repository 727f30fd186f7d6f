"""Relations between pods -> affinity and spread, for every target that leaves them to the kube-scheduler's rules.

In: a `Member`. Out: the pod's `affinity` and `topologySpreadConstraints`. Invariant: only scopes that nodes have a
label for are written; nearer ones stand at least on one host, and their target says what is lost.

The kube-scheduler counts only pods that fit all required terms of a pod at once (podMatchesAllAffinityTerms in its
plugin InterPodAffinity). Of two sets of parts, then, only what is in both is kept near: see `keeps`.
"""

from collections.abc import Iterator, Mapping

from accord.render.dress import Member
from accord.render.gangs import running
from accord.render.names import label_value
from accord.render.yaml_text import Document, Value
from accord.terms.fleet_plan import FleetPlan
from accord.terms.gang import Apart, Scope, Together

# Leaf and spine as NVIDIA's topograph labels nodes (github.com/NVIDIA/topograph, docs/engines/k8s.md).
TOPOLOGY_KEYS: Mapping[Scope, str] = {
    Scope.HOST: "kubernetes.io/hostname",
    Scope.LEAF: "network.topology.nvidia.com/leaf",
    Scope.SPINE: "network.topology.nvidia.com/spine",
}
INSTANCE = "app.kubernetes.io/instance"
COMPONENT = "app.kubernetes.io/component"
REPLICA = "accord/replica"  # of a pool whose replicas have workloads of their own
SERVES = "accord/serves"  # on the pods that answer requests: all of a Deployment's, a LeaderWorkerSet's leaders
# Labels that say which devices a node has, as the vendors' feature discovery writes them.
KIND_LABELS = ("nvidia.com/gpu.product", "amd.com/gpu.product-name", "accelerator", "node.kubernetes.io/instance-type")
# With more domains wanted than any cluster has, the scheduler counts from zero, so that maxSkew is the most a domain.
_DOMAINS = 1_000_000


def affinity(member: Member) -> Document:
    """The pod's affinity; empty if it has none."""
    apart = [one for one in _relations(member) if isinstance(one, Apart) and one.most == 1]
    terms: dict[str, Value] = {
        "nodeAffinity": _node_affinity(member),
        "podAffinity": _pods(member, [one for one in _relations(member) if isinstance(one, Together)]),
        "podAntiAffinity": _one_a_seat(member) if member.seats else _pods(member, apart),
    }
    return {name: term for name, term in terms.items() if term}


def keeps(plan: FleetPlan, parts: tuple[str, ...]) -> bool:
    """Whether required affinity keeps all of `parts` together: none of them has terms that only fewer parts fit."""
    wanted = set(parts) & {pool.part for pool in running(plan)}
    return all(wanted <= _counted(plan, part) for part in wanted)


def _counted(plan: FleetPlan, part: str) -> set[str]:
    """The parts whose pods fit all required terms of this part's pods."""
    relations = [one for one in plan.gang.relations if isinstance(one, Together) and one.required]
    near = [set(one.parts) for one in relations if part in one.parts]
    return set.intersection(*near) if near else {part}


def spread(member: Member) -> list[Value]:
    """How many pods may stand in one domain, where that is more than one."""
    return [
        {
            "maxSkew": relation.most,
            "topologyKey": TOPOLOGY_KEYS[relation.scope],
            "whenUnsatisfiable": "DoNotSchedule" if relation.required else "ScheduleAnyway",
            "labelSelector": _selector(member, relation.parts),
            **({"minDomains": _DOMAINS} if relation.required else {}),
        }
        for relation in _relations(member)
        if isinstance(relation, Apart) and relation.most > 1 and relation.scope in TOPOLOGY_KEYS
    ]


def key_of(scope: Scope) -> str | None:
    """The label that keeps `scope`, or the nearest wider one for scopes within a host."""
    if scope in TOPOLOGY_KEYS:
        return TOPOLOGY_KEYS[scope]
    return TOPOLOGY_KEYS[Scope.HOST]


def _relations(member: Member) -> Iterator[Together | Apart]:
    """The relations that bind these pods, while the scheduler and not Accord chooses the node."""
    if member.seats:
        return
    for relation in member.plan.gang.relations:
        match relation:
            case Together(parts=parts) | Apart(parts=parts) if member.part.name in parts:
                yield relation
            case _:
                continue


def _pods(member: Member, relations: list[Together] | list[Apart]) -> Document:
    required: list[Value] = []
    preferred: list[Value] = []
    heaviest = max((one.weight for one in relations if not one.required), default=1.0) or 1.0
    for relation in relations:
        key = _key(relation)
        if key is None:
            continue
        term: Document = {"labelSelector": _selector(member, relation.parts), "topologyKey": key}
        if relation.required:
            required.append(term)
        else:
            weight = max(1, round(100 * relation.weight / heaviest))
            preferred.append({"weight": weight, "podAffinityTerm": term})
        if relation.required and isinstance(relation, Together) and not keeps(member.plan, relation.parts):
            preferred.append({"weight": 100, "podAffinityTerm": term})
    return _both(required, preferred)


def _one_a_seat(member: Member) -> Document:
    """Keeps the workers of a replica on nodes of their own: one template names the nodes of them all."""
    if len(member.seats) < 2 or not one_node_a_seat(member):
        return {}
    labels: Document = {
        INSTANCE: label_value(member.plan.name),
        COMPONENT: label_value(member.pool.name),
        REPLICA: replica_of(member),
    }
    workers: Document = {"matchLabels": labels, "matchExpressions": [{"key": SERVES, "operator": "DoesNotExist"}]}
    return _both([{"labelSelector": workers, "topologyKey": TOPOLOGY_KEYS[Scope.HOST]}], [])


def one_node_a_seat(member: Member) -> bool:
    """Whether no two of these pods were given one node."""
    return len({seat.node for seat in member.seats}) == len(member.seats)


def replica_of(member: Member) -> str:
    """Which of the pool's replicas these pinned pods are."""
    return str(member.seats[0].replica // member.pool.nodes)


def _key(relation: Together | Apart) -> str | None:
    """What stands together on a card stands on one host; what stands apart on cards need not stand on two hosts."""
    return key_of(relation.scope) if isinstance(relation, Together) else TOPOLOGY_KEYS.get(relation.scope)


def _both(required: list[Value], preferred: list[Value]) -> Document:
    terms: dict[str, Value] = {}
    if required:
        terms["requiredDuringSchedulingIgnoredDuringExecution"] = required
    if preferred:
        terms["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
    return terms


def _selector(member: Member, parts: tuple[str, ...]) -> Document:
    pools = sorted(label_value(pool.name) for pool in member.plan.pools if pool.part in parts)
    return {
        "matchLabels": {INSTANCE: label_value(member.plan.name)},
        "matchExpressions": [{"key": COMPONENT, "operator": "In", "values": pools}],
    }


def _node_affinity(member: Member) -> Document:
    nodes = sorted({seat.node for seat in member.seats})
    if nodes:
        # A node's name is a field and not a label: `kubernetes.io/hostname` may differ from it.
        terms: list[Value] = [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]} for node in nodes
        ]
    else:
        label = kind_label(member)
        terms = [{"matchExpressions": [{"key": label[0], "operator": "In", "values": list(label[1])}]}] if label else []
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}} if terms else {}


def kind_label(member: Member) -> tuple[str, tuple[str, ...]] | None:
    """A label, and its values on the nodes that have devices of the pool's kind, if it tells them from all others."""
    nodes = member.fleet.nodes if member.fleet else ()
    for key in KIND_LABELS:
        values: dict[bool, set[str | None]] = {True: set(), False: set()}
        for node in nodes:
            fits = any(device.kind == member.pool.kind for device in node.devices)
            values[fits].add(dict(node.labels).get(key))
        found = values[True]
        if found and None not in found and not found & values[False]:
            return key, tuple(sorted(value for value in found if value))
    return None
