"""What every Kubernetes target keeps of a plan's wishes, since workloads.py writes it, and what none of them can.

In: a `Wish`. Out: why it is lost, or None. Invariant: a target asks here last, for what it doesn't answer itself.
"""

from accord.render.dress import Member
from accord.render.relations import TOPOLOGY_KEYS, keeps, one_node_a_seat
from accord.render.wishes import Aspect, Wish
from accord.terms.gang import Scope

_INSIDE = "pods name nodes and their labels, nothing inside a host; only the host is kept"


_SETS = "pods are counted that fit all required affinity of a pod at once, so that the nearer parts alone are kept near"
_WORKERS = "one template serves all workers of a replica, so that two that share a node can't be told from the others"


def judge_common(wish: Wish, member: Member) -> str | None:
    """Why no Kubernetes target can express `wish` of these pods; None if the shared part of a render does."""
    match wish.aspect:
        case Aspect.CPUS | Aspect.NVME:
            return None
        case Aspect.PIN_NODE:
            return None if one_node_a_seat(member) else _WORKERS
        case Aspect.TOGETHER if wish.scope in TOPOLOGY_KEYS:
            return None if not wish.required or keeps(member.plan, wish.parts) else _SETS
        case Aspect.TOGETHER:
            return _INSIDE
        case Aspect.APART:
            return None if wish.scope in TOPOLOGY_KEYS else "pods stand apart by node labels, not inside a host"
        case Aspect.WITHIN if wish.scope in (Scope.HOST, Scope.LEAF, Scope.SPINE):
            return None  # a pod is on one host
        case Aspect.BANDWIDTH:
            return "Kubernetes doesn't know the bandwidth between nodes"
        case Aspect.NIC_RATE:
            return "a network port's bandwidth isn't counted"
        case _:
            return f"{wish.aspect}: there is no field for it"


def judge_rate(member: Member) -> str | None:
    """A port is given whole, so that its own bandwidth is what counts."""
    nodes = member.fleet.nodes if member.fleet else ()
    ports = [nic for node in nodes if any(one.kind == member.pool.kind for one in node.devices) for nic in node.nics]
    slowest = min((nic.bandwidth_bytes_per_s for nic in ports if nic.rdma), default=0.0)
    return None if slowest >= member.part.need.nic_bytes_per_s else "a port is given whole, whatever its bandwidth"
