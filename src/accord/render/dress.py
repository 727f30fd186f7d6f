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
    """The equal pods of one pool, with all that a target may ask about them.

    `workload` names their Deployment or LeaderWorkerSet, `name` these pods of it. Where seats are kept, each replica
    has a workload of its own: `replicas` is 1 and `seats` are those of these pods. `pods` is how many there are in one
    replica: a replica on several nodes has one leader, and workers with another command.
    """

    plan: FleetPlan
    pool: Pool
    part: Part
    workload: str
    name: str
    kind: DeviceKind | None
    fleet: Fleet | None
    options: Options
    replicas: int
    pods: int = 1
    leader: bool = True
    seats: tuple[Seat, ...] = ()

    @property
    def vendor(self) -> Vendor | None:
        """Who makes the pool's devices."""
        return self.kind.vendor if self.kind else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A resource claim of the pod: made anew for each pod from a `template`, or `shared` and made before by name.

    The container uses the whole claim, or only its `requests`.
    """

    name: str
    template: str | None = None
    shared: str | None = None
    requests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Dress:
    """What a target adds. All of it is of one pod; `limits` are the container's resources, requests and limits alike.

    `node_labels` are those that its node must have. `owner_labels` and `owner_annotations` go on the Deployment or
    LeaderWorkerSet itself. `documents` stand before the workload; a document that several pods bring is written once.
    `confines`: a process sees no more of a device's memory than its part; else the engine must be told to take no more,
    of `visible_bytes` or of the whole device.
    `tolerations` are keys of taints that keep other pods off nodes with devices.
    """

    limits: Pairs = ()
    labels: Pairs = ()
    annotations: Pairs = ()
    owner_labels: Pairs = ()
    owner_annotations: Pairs = ()
    environment: Pairs = ()
    node_labels: Pairs = ()
    confines: bool = True
    visible_bytes: int | None = None
    tolerations: tuple[str, ...] = ()
    scheduler: str | None = None
    runtime_class: str | None = None
    claims: tuple[Claim, ...] = ()
    documents: tuple[Document, ...] = ()


Dresser = Callable[[Member], Dress]
