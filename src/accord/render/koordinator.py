"""The target `koordinator`: devices and RDMA ports given out together, by PCIe switch and NUMA node, in gangs.

In: a `FleetPlan`. Out: one file. Invariant: a pod's resources are one of the combinations that Koordinator 1.8 takes
(github.com/koordinator-sh/koordinator at a7a1b76, pkg/scheduler/plugins/deviceshare/utils.go).
"""

import json

from accord.render import hami
from accord.render.assemble import assemble
from accord.render.common import judge_common, judge_rate
from accord.render.dress import Dress, Member, Pairs
from accord.render.gangs import all_pods, group_name, running, takes_devices
from accord.render.hami_ask import memory_of, percent
from accord.render.relations import kind_label
from accord.render.rendered import Options, Rendered
from accord.render.wishes import Aspect, Wish, held
from accord.render.workloads import members
from accord.terms.fleet import Fleet, Vendor
from accord.terms.fleet_plan import FleetPlan
from accord.terms.gang import Scope

SCHEDULER = "koord-scheduler"
_PORT = 100  # hundredths of a port: a whole one
# The vendors that its node agent reports (apis/extension/device_share.go), besides those of its own resource names.
_REPORTED = {
    Vendor.NVIDIA: "nvidia",
    Vendor.ASCEND: "huawei",
    Vendor.CAMBRICON: "cambricon",
    Vendor.METAX: "metax",
    Vendor.KUNLUNXIN: "baidu",
}
# Its resources count devices of any vendor.
_VENDOR_LABEL = "node.koordinator.sh/gpu-vendor"
_PROVIDER = "koordinator.sh/gpu-isolation-provider"
_ISOLATION = f"HAMi-core on nodes labelled {_PROVIDER}=HAMi-core; pods that share a device go to these alone"
_OWN_NAMES = {Vendor.AMD: "amd.com/gpu", Vendor.HYGON: "dcu.com/gpu"}
_SHARED = (Vendor.NVIDIA, Vendor.ASCEND)
_PCIE = (Scope.PCIE_ROOT, Scope.PCIE_SWITCH)
_NEEDS = ("Koordinator 1.8 with its device daemon (koordlet) on the nodes",)


def render(plan: FleetPlan, fleet: Fleet | None, options: Options) -> Rendered:
    """The manifests of `plan`."""
    pods = [members(plan, pool, fleet, options)[0][0] for pool in running(plan)]
    needs = (*_NEEDS, *((_ISOLATION,) if any(map(_is_isolated, pods)) else ()))
    return assemble("koordinator", plan, fleet, options, dresser=dress, judge=judge, noter=_notes, needs=needs)


def dress(member: Member) -> Dress:
    """Koordinator's scheduler, gang, devices and ports for these pods."""
    vendor = _REPORTED.get(member.vendor) if member.vendor else None
    return Dress(
        limits=_devices(member) + _ports(member),
        labels=((_PROVIDER, "HAMi-core"),) if _is_isolated(member) else (),
        annotations=_gang(member) + _topology(member),
        node_labels=((_VENDOR_LABEL, vendor),) if takes_devices(member) and vendor else (),
        scheduler=SCHEDULER,
    )


def _is_isolated(member: Member) -> bool:
    """Without isolation a share of an NVIDIA device binds nobody."""
    return member.vendor is Vendor.NVIDIA and bool(member.part.need.share)


def _gang(member: Member) -> Pairs:
    count = all_pods(member.plan)
    if count < 2:
        return ()
    prefix = "gang.scheduling.koordinator.sh"
    return (
        (f"{prefix}/name", group_name(member.plan)),
        (f"{prefix}/min-available", str(count)),
        (f"{prefix}/mode", "Strict"),
        # Once all have started, a pod that died comes back alone.
        (f"{prefix}/match-policy", "once-satisfied"),
    )


def _devices(member: Member) -> Pairs:
    need, kind = member.part.need, member.kind
    if not takes_devices(member) or member.vendor is None or kind is None:
        return ()
    if member.vendor in _OWN_NAMES:
        return ((_OWN_NAMES[member.vendor], str(need.cards or 1)),)
    if member.vendor not in _REPORTED:
        return ()
    if need.share and member.vendor is Vendor.NVIDIA:
        memory = memory_of(need, kind)
        wanted = ("koordinator.sh/gpu-memory", str(memory)) if memory else _ratio(percent(need.share))
        return (("koordinator.sh/gpu.shared", "1"), ("koordinator.sh/gpu-core", str(percent(need.share))), wanted)
    asked = hami.asked_of(member) if need.share and member.vendor is Vendor.ASCEND else None
    if asked is not None and asked.template is not None:
        template = asked.template
        return (
            ("koordinator.sh/gpu.shared", "1"),
            ("huawei.com/npu-core", str(template.ai_cores)),
            ("huawei.com/npu-cpu", str(template.ai_cpus)),
            ("koordinator.sh/gpu-memory", f"{template.memory_mib}Mi"),
        )
    cards = need.cards or 1
    if member.vendor is Vendor.NVIDIA:
        return (("koordinator.sh/gpu", str(100 * cards)),)
    # An NPU has no `gpu-core`; all of its memory is all of it.
    return (("koordinator.sh/gpu.shared", str(cards)), _ratio(100 * cards))


def _ratio(parts: int) -> tuple[str, str]:
    return "koordinator.sh/gpu-memory-ratio", str(parts)


def _ports(member: Member) -> Pairs:
    return (("koordinator.sh/rdma", str(_PORT)),) if _talks(member) else ()


def _talks(member: Member) -> bool:
    return bool(member.part.need.nic_bytes_per_s or member.part.nic_within)


def _topology(member: Member) -> Pairs:
    """How near the devices stand to each other and to the port."""
    part, found = member.part, []
    if _talks(member) and takes_devices(member):
        joint: dict[str, object] = {"deviceTypes": ["gpu", "rdma"]}
        if part.nic_within in _PCIE:
            joint["requiredScope"] = "SamePCIe"
        found.append(("scheduling.koordinator.sh/device-joint-allocate", _json(joint)))
    scope = "PCIe" if part.within in _PCIE else "NUMANode" if part.within is Scope.NUMA else None
    if scope and part.need.cards > 1:
        hint = {"gpu": {"requiredTopologyScope": scope}}
        found.append(("scheduling.koordinator.sh/device-allocate-hint", _json(hint)))
    if _wants_partition(member):
        found.append(("scheduling.koordinator.sh/gpu-partition-spec", _json({"allocatePolicy": "Restricted"})))
    return tuple(found)


def _wants_partition(member: Member) -> bool:
    """Whether links must be asked for. A pod that asks goes only to nodes with a partition table, so that one whose
    devices are linked wherever it stands doesn't.
    """
    part = member.part
    several = part.within is Scope.LINK_GROUP and part.need.cards > 1
    return several and not held(member.fleet, (member.pool.kind,), Scope.LINK_GROUP, nics=False)


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def _notes(member: Member) -> tuple[str, ...]:
    found: tuple[str, ...] = ()
    if member.vendor is Vendor.ASCEND and member.part.need.share:
        asked = hami.asked_of(member)
        own = f"{member.part.name}: the template must stand with these amounts among Koordinator's GPU shared templates"
        found = (*hami.notes(member), own) if asked and asked.template else hami.notes(member)
    if _talks(member) and member.part.need.cards > 1:
        found += (f"{member.part.name}: a port is taken for each PCIe switch of its devices that has one",)
    if _wants_partition(member):
        known = "it knows those of H100, H800 and H20 (1, 2, 4 or 8 devices) and of devices that report their links"
        found += (f"{member.part.name}: goes only to nodes whose GPU partitions Koordinator knows: {known}",)
    return found


def judge(wish: Wish, member: Member) -> str | None:
    """Why Koordinator can't express a wish; None if it does."""
    need = member.part.need
    match wish.aspect:
        case Aspect.KIND:
            return _judge_kind(member)
        case Aspect.CARDS:
            return _judge_cards(member)
        case Aspect.MEMORY | Aspect.COMPUTE:
            own = f"Koordinator shares devices of NVIDIA and Ascend; of {member.vendor} a whole one is taken"
            return _judge_cards(member) or (None if member.vendor in _SHARED else own)
        case Aspect.CODECS:
            return "Koordinator counts no codec units (npu-dvpp is a mark of a template)" if need.share else None
        case Aspect.NIC:
            return None
        case Aspect.NIC_RATE:
            return judge_rate(member)
        case Aspect.WITHIN | Aspect.NIC_WITHIN:
            return _judge_near(wish, member)
        case Aspect.TOGETHER | Aspect.APART if wish.scope is Scope.CARD:
            whole = wish.aspect is Aspect.APART and need.cards
            return None if whole else "Koordinator can't be told which pods share a card"
        case Aspect.GANG:
            return None
        case Aspect.PIN_DEVICE | Aspect.PIN_NIC:
            return "Koordinator chooses devices by their labels, and they have none that name one"
        case _:
            return judge_common(wish, member)


def _judge_kind(member: Member) -> str | None:
    """The vendor is told by a label of the nodes or by the resource's name, the model by neither."""
    kinds = member.fleet.kinds if member.fleet else ()
    alike = next((one.name for one in kinds if one.vendor is member.vendor and one.name != member.pool.kind), None)
    if alike is None or member.vendor is Vendor.CPU or kind_label(member) is not None:
        return None
    return f"nothing tells {member.pool.kind} from {alike}: Koordinator's label for models is a driver's own text"


def _judge_cards(member: Member) -> str | None:
    known = member.vendor in (*_REPORTED, *_OWN_NAMES, Vendor.CPU)
    return None if known else f"Koordinator doesn't know devices of {member.vendor or 'this vendor'}"


def _judge_near(wish: Wish, member: Member) -> str | None:
    ports = wish.aspect is Aspect.NIC_WITHIN
    if member.vendor in _OWN_NAMES and wish.scope in (*_PCIE, Scope.NUMA, Scope.LINK_GROUP):
        return f"Koordinator doesn't see where devices of {member.vendor} stand"
    match wish.scope:
        case Scope.PCIE_SWITCH:
            return None
        case Scope.PCIE_ROOT:
            return None  # its PCIe scope is the switch, which is nearer
        case Scope.NUMA:
            return "Koordinator prefers one NUMA node for device and port, it doesn't require it" if ports else None
        case Scope.LINK_GROUP:
            return "a port has no such link" if ports else None
        case _:
            return judge_common(wish, member)
