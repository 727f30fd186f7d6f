"""The target `kueue`: quota and admission by Kueue, and its topology-aware scheduling where a replica needs it.

In: a `FleetPlan`. Out: one file. Invariant: a plan uses either resource claims or topology-aware scheduling, since
Kueue 0.19 doesn't count claimed devices by topology (its page on dynamic resource allocation, "Limitations"); claims,
where whole devices by themselves don't say all that the plan wants.
"""

from dataclasses import replace

from accord.render import kubernetes
from accord.render.around import is_grouped
from accord.render.assemble import assemble
from accord.render.common import judge_common
from accord.render.dress import Dress, Member, Pairs
from accord.render.gangs import Near, nears, running
from accord.render.kubernetes_claims import claim_devices
from accord.render.kubernetes_judge import judge_wish
from accord.render.plugin_names import judge_plugin_cards, judge_plugin_kind, whole_devices
from accord.render.relations import TOPOLOGY_KEYS
from accord.render.rendered import Options, Rendered
from accord.render.switches import TOPOLOGY, topology
from accord.render.wishes import Aspect, Wish
from accord.render.workloads import members
from accord.terms.fleet import Fleet
from accord.terms.fleet_plan import FleetPlan
from accord.terms.gang import Scope

_QUEUE: Pairs = (("kueue.x-k8s.io/queue-name", "default"),)
# Kueue makes a label of the LeaderWorkerSet's name and an ending (its page on LeaderWorkerSets).
_LONGEST_NAME = 39
_INSIDE = (Scope.LINK_GROUP, Scope.PCIE_SWITCH, Scope.PCIE_ROOT, Scope.NUMA)


def render(plan: FleetPlan, fleet: Fleet | None, options: Options) -> Rendered:
    """The manifests of `plan`."""
    by_topology = _by_topology(plan, options)

    def dress(member: Member) -> Dress:
        return _dress_by_topology(member) if by_topology else _dress_by_claims(member)

    def judge(wish: Wish, member: Member) -> str | None:
        if wish.aspect is Aspect.GANG:
            return _judge_gang(plan)
        return _judge_by_topology(wish, member) if by_topology else judge_wish(wish, member)

    return assemble(
        "kueue",
        plan,
        fleet,
        options,
        dresser=dress,
        judge=judge,
        first=(topology("kueue.x-k8s.io/v1beta2"),) if by_topology else (),
        noter=_notes_by_topology if by_topology else _notes_by_claims,
        needs=_needs(plan, fleet, options, by_topology=by_topology),
    )


def _by_topology(plan: FleetPlan, options: Options) -> bool:
    kept = options.pinned and bool(plan.seats)
    return not kept and not _wants_claims(plan) and any(_is_one_group(near) for near in nears(plan))


def _wants_claims(plan: FleetPlan) -> bool:
    """Whether the plan asks for what a device plugin can't give: fractions, ports, devices near each other."""
    parts = plan.gang.parts
    return any(part.need.share or part.need.nic_bytes_per_s or part.nic_within for part in parts) or any(
        part.need.cards > 1 and part.within in _INSIDE for part in parts
    )


def _is_one_group(near: Near) -> bool:
    """Kueue keeps one replica on several nodes below a switch, nothing larger and nothing smaller."""
    return len(near.pools) == 1 and near.pools[0].nodes > 1 and near.pools[0].replicas == 1


def _needs(plan: FleetPlan, fleet: Fleet | None, options: Options, *, by_topology: bool) -> tuple[str, ...]:
    queue = f"Kueue 0.19 with a LocalQueue default in namespace {options.namespace}"
    if by_topology:
        switches = f"nodes labelled with all levels of the Topology {TOPOLOGY} below"
        what = [f"a ResourceFlavor of that queue with topologyName {TOPOLOGY}", switches]
    else:
        mapped = "deviceClassMappings in Kueue's configuration for the device classes below"
        what = [mapped, *kubernetes.needs(plan, fleet, options)]
    sets = [members(plan, pool, fleet, options)[0][0].workload for pool in running(plan) if is_grouped(pool)]
    gate = "Kueue's feature gate WorkloadIdentifierAnnotations for the long name"
    long = [f"{gate} {name}" for name in sets if len(name) > _LONGEST_NAME]
    return (queue, *what, *long)


def _dress_by_claims(member: Member) -> Dress:
    claims = claim_devices(member)
    return replace(claims, owner_labels=claims.owner_labels + _QUEUE)


def _dress_by_topology(member: Member) -> Dress:
    annotations: Pairs = ()
    for near in nears(member.plan):
        if _is_one_group(near) and near.pools[0].name == member.pool.name and not annotations:
            how = "required" if near.required else "preferred"
            annotations = (
                (f"kueue.x-k8s.io/podset-{how}-topology", TOPOLOGY_KEYS[near.scope]),
                # Leader and workers are two sets of pods, which stand below one switch only as one group.
                ("kueue.x-k8s.io/podset-group-name", "replica"),
            )
    return Dress(limits=whole_devices(member), annotations=annotations, owner_labels=_QUEUE)


def _notes_by_claims(member: Member) -> tuple[str, ...]:
    parts = {pool.part for near in nears(member.plan) for pool in near.pools}
    if member.seats or member.part.name not in parts:
        return ()
    affinity = f"{member.part.name}: its pods' affinity keeps the switch"
    return (f"{affinity}; Kueue doesn't count claimed devices by topology, and may admit pods that then wait",)


def _notes_by_topology(member: Member) -> tuple[str, ...]:
    parts = {pool.part for near in nears(member.plan) if not _is_one_group(near) for pool in near.pools}
    if member.part.name not in parts:
        return ()
    affinity = "its pods' affinity keeps it near the others, and they wait where both can't be had"
    return (f"{member.part.name}: Kueue chooses nodes for each replica by itself; {affinity}",)


def _judge_gang(plan: FleetPlan) -> str | None:
    pools = running(plan)
    alone = len(pools) == 1 and pools[0].replicas == 1
    return None if alone else "Kueue admits each pod of a Deployment and each group of a LeaderWorkerSet by itself"


def _judge_by_topology(wish: Wish, member: Member) -> str | None:
    match wish.aspect:
        case Aspect.KIND:
            return judge_plugin_kind(member)
        case Aspect.CARDS:
            return judge_plugin_cards(member)
        case Aspect.CODECS:
            return None  # they come with the whole device
        case Aspect.APART if wish.scope is Scope.CARD:
            return None  # each takes a whole device
        case _:
            return judge_common(wish, member)
