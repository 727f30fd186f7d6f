"""The target `kubernetes`: plain Kubernetes with LeaderWorkerSet and dynamic resource allocation.

In: a `FleetPlan`. Out: one file of documents. Invariant: what plain Kubernetes can't express is in `lost`.
"""

from accord.render.kubernetes_claims import claim_devices
from accord.render.kubernetes_judge import judge_of
from accord.render.rendered import File, Options, Rendered
from accord.render.wishes import lost
from accord.render.workloads import workloads
from accord.render.yaml_text import yaml_text
from accord.terms.fleet import Fleet
from accord.terms.fleet_plan import FleetPlan


def render(plan: FleetPlan, fleet: Fleet | None, options: Options) -> Rendered:
    """The manifests of `plan`."""
    text = yaml_text(workloads(plan, fleet, options, claim_devices))
    missing = lost(plan, fleet, judge_of(plan, fleet, options), pinned=options.pinned)
    return Rendered(files=(File(name="kubernetes.yaml", text=text),), lost=missing)
