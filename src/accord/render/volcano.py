"""The target `volcano`: one PodGroup a plan, HyperNodes of the fleet's switches, shared NVIDIA and Ascend devices.

In: a `FleetPlan`. Out: one file. Invariant: all pods belong to the PodGroup, which starts them together or not at all.
"""

from accord.render import hami
from accord.render.assemble import assemble
from accord.render.common import judge_common
from accord.render.dress import Dress, Member, Pairs
from accord.render.gangs import Near, all_pods, group_name, nears, pods_of, running, takes_devices, task_name
from accord.render.hami_ask import memory_of, mib, percent
from accord.render.names import label_value
from accord.render.plugin_names import WHOLE_ONLY, judge_plugin_cards, judge_plugin_kind, whole_devices
from accord.render.relations import COMPONENT, INSTANCE, kind_label
from accord.render.rendered import Options, Rendered
from accord.render.switches import TIERS, has_switches, hyper_nodes
from accord.render.wishes import Aspect, Wish, kind_of
from accord.render.yaml_text import Document, Value
from accord.terms.fleet import Fleet, Vendor
from accord.terms.fleet_plan import FleetPlan, Pool
from accord.terms.gang import Apart, Bandwidth, Scope

SCHEDULER = "volcano"
_LWS_KEYS = ("leaderworkerset.sigs.k8s.io/name", "leaderworkerset.sigs.k8s.io/group-index")
_NEEDS = ("Volcano 1.15 with the plugins gang, predicates, deviceshare and network-topology-aware; its queue default",)
_TREE = "no other HyperNodes over these nodes, such as discovered ones: leave the ones below out where there are some"


def render(plan: FleetPlan, fleet: Fleet | None, options: Options) -> Rendered:
    """The manifests of `plan`."""
    first = _documents(plan, fleet, options)
    needs = (*_NEEDS, *((_TREE,) if len(first) > 1 else ()))
    return assemble("volcano", plan, fleet, options, dresser=dress, judge=judge, noter=_notes, first=first, needs=needs)


def dress(member: Member) -> Dress:
    """Volcano's scheduler, group and resources for these pods."""
    limits, annotations = _devices(member)
    grouped = (
        ("scheduling.k8s.io/group-name", group_name(member.plan)),
        ("volcano.sh/task-spec", task_name(member.pool)),
    )
    return Dress(limits=limits, annotations=grouped + annotations, scheduler=SCHEDULER)


def _devices(member: Member) -> tuple[Pairs, Pairs]:
    """Resources and annotations."""
    if not takes_devices(member):
        return (), ()
    if member.vendor is Vendor.ASCEND:
        asked = hami.asked_of(member)
        return (asked.limits, ()) if asked else (whole_devices(member), ())
    return _virtual(member) if _is_virtual(member) else (whole_devices(member), ())


def _is_virtual(member: Member) -> bool:
    """Whether NVIDIA devices are counted as vGPUs: a cluster has either these or whole ones."""
    if member.vendor is not Vendor.NVIDIA:
        return False
    kinds = {pool.part: kind_of(pool.kind, member.fleet) for pool in member.plan.pools}
    shared = (kinds.get(part.name) for part in member.plan.gang.parts if part.need.share)
    some = any(kind is not None and kind.vendor is Vendor.NVIDIA for kind in shared)
    return some or bool(hami.pinned_uuids(member))


def _virtual(member: Member) -> tuple[Pairs, Pairs]:
    need, kind = member.part.need, member.kind
    limits: Pairs = (("volcano.sh/vgpu-number", str(need.cards or 1)),)
    annotations: Pairs = (("volcano.sh/vgpu-mode", "hami-core"),)
    if need.share and kind is not None:
        memory = memory_of(need, kind)
        limits += (("volcano.sh/vgpu-memory", str(mib(memory))),) if memory else ()
        limits += (("volcano.sh/vgpu-cores", str(percent(need.share))),)
    if _alone(member):
        annotations += (("volcano.sh/vgpu-podgroup-policy", "spread"),)
    model, chosen = hami.model_word(member.pool.kind), hami.pinned_uuids(member)
    annotations += (("nvidia.com/use-gputype", model),) if model else ()
    annotations += (("volcano.sh/vgpu-use-gpuuuid", ",".join(chosen)),) if chosen else ()
    return limits, annotations


def _alone(member: Member) -> bool:
    """Whether the pods share a card with no other pod of the plan: what Volcano's policy does."""
    on_card = [one for one in member.plan.gang.relations if not isinstance(one, Bandwidth) and one.scope is Scope.CARD]
    mine = [one for one in on_card if member.part.name in one.parts]
    return bool(mine) and all(isinstance(one, Apart) and one.most == 1 for one in mine)


def _notes(member: Member) -> tuple[str, ...]:
    return hami.notes(member) if member.vendor is Vendor.ASCEND else ()


def _documents(plan: FleetPlan, fleet: Fleet | None, options: Options) -> tuple[Document, ...]:
    near = _written(plan, fleet, options)
    group: Document = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": group_name(plan), "namespace": options.namespace},
        "spec": _group(plan, near),
    }
    return (*(hyper_nodes(fleet) if fleet is not None and near else ()), group)


def _written(plan: FleetPlan, fleet: Fleet | None, options: Options) -> tuple[Near, ...]:
    """The relations by switches that the group tells: one of all pools, and one of each pool besides, since a pod is in
    one subgroup. The others are left to the pods' affinity.
    """
    if not has_switches(fleet) or (options.pinned and plan.seats):
        return ()
    whole = [one for one in nears(plan) if one.whole][:1]
    used: set[str] = set()
    for one in nears(plan):
        names = {pool.name for pool in one.pools}
        if not one.whole and not names & used:
            used |= names
            whole.append(one)
    return tuple(whole)


def _group(plan: FleetPlan, near: tuple[Near, ...]) -> Document:
    whole = next((one for one in near if one.whole), None)
    policies = _policies(plan, tuple(one for one in near if not one.whole))
    tasks = {task_name(pool): pods_of(pool) for pool in running(plan)}
    return {
        "minMember": all_pods(plan),
        "queue": "default",
        **({"networkTopology": _topology(whole)} if whole else {}),
        # Volcano advises against both at once.
        **({"subGroupPolicy": policies} if policies else {}),
        **({"minTaskMember": tasks} if len(tasks) > 1 and not policies else {}),
    }


def _policies(plan: FleetPlan, near: tuple[Near, ...]) -> list[Value]:
    """Pools below one switch, and replicas on several nodes, each of which is a gang of its own."""
    found: list[Value] = [
        {
            "name": task_name(one.pools[0]) if len(one.pools) == 1 else f"near-{number}",
            "labelSelector": _selector(plan, one.pools),
            "subGroupSize": sum(map(pods_of, one.pools)),
            "minSubGroups": 1,
            "networkTopology": _topology(one),
        }
        for number, one in enumerate(near)
    ]
    used = {pool.name for one in near for pool in one.pools}
    for pool in running(plan):
        if pool.nodes > 1 and pool.name not in used:
            found.append(
                {
                    "name": task_name(pool),
                    "labelSelector": _selector(plan, (pool,)),
                    "matchLabelKeys": list(_LWS_KEYS),
                    "subGroupSize": pool.nodes,
                    "minSubGroups": pool.replicas,
                }
            )
    return found


def _topology(near: Near) -> Document:
    return {"mode": "hard" if near.required else "soft", "highestTierAllowed": TIERS[near.scope]}


def _selector(plan: FleetPlan, pools: tuple[Pool, ...]) -> Document:
    return {
        "matchLabels": {INSTANCE: label_value(plan.name)},
        "matchExpressions": [
            {"key": COMPONENT, "operator": "In", "values": sorted(label_value(pool.name) for pool in pools)}
        ],
    }


def judge(wish: Wish, member: Member) -> str | None:
    """Why Volcano can't express a wish; None if it does."""
    need, ascend, virtual = member.part.need, member.vendor is Vendor.ASCEND, _is_virtual(member)
    match wish.aspect:
        case Aspect.KIND:
            return _judge_kind(wish, member)
        case Aspect.CARDS:
            return judge_plugin_cards(member)
        case Aspect.MEMORY | Aspect.COMPUTE:
            return None if virtual or (ascend and hami.names_of_member(member)) else WHOLE_ONLY
        case Aspect.CODECS:
            shared = need.share and (virtual or ascend)
            return "Volcano counts memory and cores of a shared device, no codec units" if shared else None
        case Aspect.NIC | Aspect.NIC_RATE | Aspect.NIC_WITHIN | Aspect.PIN_NIC:
            return "Volcano gives out devices, no network ports"
        case Aspect.WITHIN if wish.scope in (Scope.LINK_GROUP, Scope.PCIE_ROOT, Scope.PCIE_SWITCH, Scope.NUMA):
            return "Volcano knows switches between nodes; a node's device plugin chooses among its devices"
        case Aspect.TOGETHER if wish.scope is Scope.CARD:
            return "Volcano fills up cards, but can't be told which pods share one"
        case Aspect.APART if wish.scope is Scope.CARD:
            alone = need.cards or (virtual and _alone(member))
            return None if alone else "Volcano keeps a pod off the cards of all others of its group, or of none"
        case Aspect.TOGETHER if any(one.fulfils(wish) for one in _written(member.plan, member.fleet, member.options)):
            return None
        case Aspect.GANG:
            return None
        case Aspect.PIN_DEVICE:
            return _judge_pin(wish, member)
        case _:
            return judge_common(wish, member)


def _judge_kind(wish: Wish, member: Member) -> str | None:
    if kind_label(member) is not None:
        return None
    named = _is_virtual(member) or (member.vendor is Vendor.ASCEND and hami.names_of_member(member))
    return hami.judge(wish, member) if named else judge_plugin_kind(member)


def _judge_pin(wish: Wish, member: Member) -> str | None:
    if member.vendor is not Vendor.NVIDIA:
        return "Volcano chooses devices by UUID for NVIDIA alone"
    return None if wish.named and hami.pinned_uuids(member) else "the fleet doesn't say its UUID"
