"""The target `kubernetes`: plain Kubernetes with LeaderWorkerSet and dynamic resource allocation.

In: a `FleetPlan`. Out: one file of documents. Invariant: what plain Kubernetes can't express is in `lost`.
"""

from accord.render.common import judge_common
from accord.render.dress import Dress, Member
from accord.render.rendered import File, Options, Rendered
from accord.render.wishes import Wish, lost
from accord.render.workloads import workloads
from accord.render.yaml_text import yaml_text
from accord.terms.fleet import Fleet
from accord.terms.fleet_plan import FleetPlan


def render(plan: FleetPlan, fleet: Fleet | None, options: Options) -> Rendered:
    """The manifests of `plan`."""
    text = yaml_text(workloads(plan, fleet, options, _dress))
    missing = lost(plan, fleet, judge, pinned=options.pinned)
    return Rendered(files=(File(name="kubernetes.yaml", text=text),), lost=missing)


def judge(wish: Wish) -> str | None:
    """Why plain Kubernetes can't express a wish."""
    return judge_common(wish)


def _dress(_member: Member) -> Dress:
    return Dress()
