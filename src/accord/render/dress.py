"""What a target adds to the pods of one pool: its resource names, annotations, scheduler, claims.

In: nothing. Out: `Member`, `Dress`. Invariant: everything else about a pod is the same for all Kubernetes targets
(workloads.py writes it), so that a target is a function from `Member` to `Dress`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from accord.render.rendered import Options
from accord.render.yaml_text import Document
from accord.terms.fleet import DeviceKind, Fleet, Vendor
from accord.terms.fleet_plan import FleetPlan, Pool
from accord.terms.gang import Part, Seat

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One pool with all that a target may ask about it. `name` is the name of its workload object.

    `seats` are those of its part, replica by replica; empty unless the plan has them and they are to be kept.
    """

    plan: FleetPlan
    pool: Pool
    part: Part
    name: str
    kind: DeviceKind | None
    fleet: Fleet | None
    options: Options
    seats: tuple[Seat, ...] = ()

    @property
    def vendor(self) -> Vendor | None:
        """Who makes the pool's devices."""
        return self.kind.vendor if self.kind else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dress:
    """What a target adds. All of it is of one pod; `limits` are the container's resources, requests and limits alike.

    `owner_labels` and `owner_annotations` go on the Deployment or LeaderWorkerSet itself; `claims` are entries of
    the pod's `resourceClaims`, all of which its container uses. `documents` stand before the workload.
    """

    limits: Pairs = ()
    labels: Pairs = ()
    annotations: Pairs = ()
    owner_labels: Pairs = ()
    owner_annotations: Pairs = ()
    environment: Pairs = ()
    scheduler: str | None = None
    runtime_class: str | None = None
    claims: tuple[Document, ...] = ()
    documents: tuple[Document, ...] = ()


Dresser = Callable[[Member], Dress]
