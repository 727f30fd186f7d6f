"""The target `kubernetes`: plain Kubernetes with LeaderWorkerSet and dynamic resource allocation.

In: a `FleetPlan`. Out: one file of documents. Invariant: what plain Kubernetes can't express is in `lost`.
"""

from accord.render.rendered import File, Options, Rendered
from accord.render.wishes import Wish, lost
from accord.render.yaml_text import yaml_text
from accord.terms.fleet import Fleet
from accord.terms.fleet_plan import FleetPlan


def render(plan: FleetPlan, fleet: Fleet | None, options: Options) -> Rendered:
    """The manifests of `plan`."""
    text = yaml_text(())
    return Rendered(
        files=(File(name="kubernetes.yaml", text=text),), lost=lost(plan, fleet, judge, pinned=options.pinned)
    )


def judge(wish: Wish) -> str | None:
    """Why plain Kubernetes can't express a wish."""
    return f"{wish.aspect}: not written yet"
