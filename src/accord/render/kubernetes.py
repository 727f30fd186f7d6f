"""The target `kubernetes`: plain Kubernetes with LeaderWorkerSet and dynamic resource allocation.

In: a `FleetPlan`. Out: one file of documents. Invariant: what plain Kubernetes can't express is in `lost`.
"""

from accord.render.assemble import assemble
from accord.render.dress import Member
from accord.render.gangs import running
from accord.render.kubernetes_claims import claim_devices
from accord.render.kubernetes_drivers import FRACTIONS, WHOLE
from accord.render.kubernetes_judge import judge_wish
from accord.render.kubernetes_slices import slice_of_member
from accord.render.rendered import Options, Rendered
from accord.render.workloads import members
from accord.terms.fleet import Fleet
from accord.terms.fleet_plan import FleetPlan


def render(plan: FleetPlan, fleet: Fleet | None, options: Options) -> Rendered:
    """The manifests of `plan`."""
    return assemble(
        "kubernetes", plan, fleet, options, dresser=claim_devices, judge=judge_wish, needs=needs(plan, fleet, options)
    )


def needs(plan: FleetPlan, fleet: Fleet | None, options: Options) -> tuple[str, ...]:
    """What the cluster must have for claims, in the order in which it is installed."""
    found = ["Kubernetes 1.34 or later (resource.k8s.io/v1)"]
    for pool in running(plan):
        found += _drivers(members(plan, pool, fleet, options)[0][0])
    for vendor, driver in FRACTIONS.items():
        both = [f"the resource driver {one.name}" for one in (WHOLE[vendor], driver)]
        if driver is not WHOLE[vendor] and set(both) <= set(found):
            found.append(f"only one of {WHOLE[vendor].name} and {driver.name} on a node: both would give a device out")
    return tuple(dict.fromkeys(found))


def _drivers(member: Member) -> list[str]:
    need, found = member.part.need, []
    if (need.cards or need.share) and member.vendor in WHOLE:
        claimed = slice_of_member(member)
        found.append(f"the resource driver {claimed.driver.name}")
        if claimed.shared:
            found.append("the feature DRAConsumableCapacity (beta since 1.36)")
        if claimed.template:
            found.append(
                "the feature DRAPartitionableDevices (beta since 1.36), or devices that are partitioned already"
            )
    if need.nic_bytes_per_s or member.part.nic_within:
        found.append("the resource driver dra.net (DRANET)")
    return found
