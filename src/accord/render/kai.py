"""The target `kai`: one PodGroup a plan, with a subgroup a pool, and NVIDIA devices shared by memory.

In: a `FleetPlan`. Out: one file. Invariant: the pods are kept from KAI's own grouping (which makes a group of each pod
of a Deployment), so that the plan's group is the one that counts; KAI 0.15 and later honour that.
"""

from dataclasses import dataclass, field

from accord.render.assemble import assemble
from accord.render.common import judge_common
from accord.render.dress import Dress, Member, Pairs
from accord.render.gangs import Near, group_name, nears, pods_of, running, task_name
from accord.render.hami_ask import mib
from accord.render.plugin_names import WHOLE_ONLY, judge_plugin_cards, judge_plugin_kind, whole_devices
from accord.render.relations import TOPOLOGY_KEYS
from accord.render.rendered import Options, Rendered
from accord.render.switches import TOPOLOGY, topology
from accord.render.wishes import Aspect, Wish
from accord.render.yaml_text import Document, Value
from accord.terms.fleet import Fleet, Vendor
from accord.terms.fleet_plan import FleetPlan
from accord.terms.gang import Scope

SCHEDULER = "kai-scheduler"
_QUEUE = "default-queue"
_NEEDS = ("KAI 0.17 with its queue default-queue and, for shared devices, global.gpuSharing=true",)

_LABELS = f"nodes labelled with all levels of the Topology {TOPOLOGY} below"


def render(plan: FleetPlan, fleet: Fleet | None, options: Options) -> Rendered:
    """The manifests of `plan`."""
    first = _documents(plan, options)
    needs = (*_NEEDS, *((_LABELS,) if len(first) > 1 else ()))
    return assemble("kai", plan, fleet, options, dresser=dress, judge=judge, first=first, needs=needs)


def dress(member: Member) -> Dress:
    """KAI's scheduler, queue, group and devices for these pods."""
    shared = _is_shared(member)
    annotations: Pairs = (
        ("kai.scheduler/skip-podgrouper", "true"),
        ("pod-group-name", group_name(member.plan)),
        *(_share(member) if shared else ()),
    )
    labels: Pairs = (("kai.scheduler/queue", _QUEUE), ("kai.scheduler/subgroup-name", task_name(member.pool)))
    return Dress(
        confines=not member.part.need.share,  # KAI counts a device's memory; nobody keeps a process to its part
        limits=() if shared else whole_devices(member),
        labels=labels,
        annotations=annotations,
        scheduler=SCHEDULER,
    )


def _is_shared(member: Member) -> bool:
    return bool(member.part.need.share) and member.vendor is Vendor.NVIDIA


def _share(member: Member) -> Pairs:
    """By memory where it is stated: a fraction is one of the memory, too, and can't be asked for besides."""
    need = member.part.need
    if need.memory_bytes:
        return (("gpu-memory", str(mib(need.memory_bytes))),)
    return (("gpu-fraction", f"{need.share:.3f}".rstrip("0")),)


def _documents(plan: FleetPlan, options: Options) -> tuple[Document, ...]:
    tree = _tree(plan, options)
    group: Document = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": group_name(plan), "namespace": options.namespace},
        "spec": _group(plan, tree),
    }
    return (*((topology("kai.scheduler/v1alpha1"),) if tree.written else ()), group)


@dataclass(slots=True, kw_only=True)
class _Tree:
    """Subgroups while they are put together: constraints of all pods, of groups above pools, and of pools; the group
    above a pool; and the relations that these tell.
    """

    whole: dict[str, Value] = field(default_factory=dict)
    above: dict[str, dict[str, Value]] = field(default_factory=dict)
    below: dict[str, dict[str, Value]] = field(default_factory=dict)
    parent: dict[str, str] = field(default_factory=dict)
    written: list[Near] = field(default_factory=list)


def _tree(plan: FleetPlan, options: Options) -> _Tree:
    """What a pool's one parent and a level's one constraint can't hold is left to the pods' affinity."""
    tree = _Tree()
    for near in () if options.pinned and plan.seats else nears(plan):
        names = [task_name(pool) for pool in near.pools]
        if near.whole:
            constraint = tree.whole
        elif len(names) == 1:
            constraint = tree.below.setdefault(names[0], {})
        elif any(name in tree.parent for name in names):
            continue
        else:
            parent = f"near-{len(tree.above)}"
            constraint = tree.above.setdefault(parent, {})
            tree.parent |= dict.fromkeys(names, parent)
        level = "requiredTopologyLevel" if near.required else "preferredTopologyLevel"
        if level not in constraint:
            constraint |= {"topology": TOPOLOGY, level: TOPOLOGY_KEYS[near.scope]}
            tree.written.append(near)
    return tree


def _group(plan: FleetPlan, tree: _Tree) -> Document:
    groups: list[Value] = [
        {
            "name": name,
            "minSubGroup": sum(1 for parent in tree.parent.values() if parent == name),
            "topologyConstraint": constraint,
        }
        for name, constraint in tree.above.items()
    ]
    groups += [_leaf(task_name(pool), pods_of(pool), tree) for pool in running(plan)]
    roots = len(tree.above) + len(running(plan)) - len(tree.parent)
    return {
        "queue": _QUEUE,
        # KAI's own class for what serves; it isn't preempted.
        "priorityClassName": "inference",
        "minSubGroup": roots,
        "subGroups": groups,
        **({"topologyConstraint": tree.whole} if tree.whole else {}),
    }


def _leaf(name: str, pods: int, tree: _Tree) -> Document:
    return {
        "name": name,
        "minMember": pods,
        **({"parent": tree.parent[name]} if name in tree.parent else {}),
        **({"topologyConstraint": tree.below[name]} if name in tree.below else {}),
    }


def judge(wish: Wish, member: Member) -> str | None:
    """Why KAI can't express a wish; None if it does."""
    need, nvidia = member.part.need, member.vendor is Vendor.NVIDIA
    match wish.aspect:
        case Aspect.KIND:
            return judge_plugin_kind(member)
        case Aspect.CARDS:
            return judge_plugin_cards(member)
        case Aspect.MEMORY:
            return None if nvidia else WHOLE_ONLY
        case Aspect.COMPUTE:
            return "KAI shares a device by its memory; nobody's compute is bounded" if nvidia else WHOLE_ONLY
        case Aspect.CODECS:
            return "KAI counts no codec units" if need.share and nvidia else None
        case Aspect.NIC | Aspect.NIC_RATE | Aspect.NIC_WITHIN | Aspect.PIN_NIC:
            return "KAI gives out devices, no network ports"
        case Aspect.WITHIN if wish.scope in (Scope.LINK_GROUP, Scope.PCIE_ROOT, Scope.PCIE_SWITCH, Scope.NUMA):
            return "KAI knows the levels above a node; which of its devices a pod gets is left to the device plugin"
        case Aspect.TOGETHER | Aspect.APART if wish.scope is Scope.CARD:
            whole = wish.aspect is Aspect.APART and need.cards
            return None if whole else "KAI can't be told which pods share a card"
        case Aspect.TOGETHER if any(one.fulfils(wish) for one in _tree(member.plan, member.options).written):
            return None
        case Aspect.GANG:
            return None
        case Aspect.PIN_DEVICE:
            return "KAI chooses the devices itself"
        case _:
            return judge_common(wish, member)
