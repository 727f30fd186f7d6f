"""What a Kubernetes API server says, as far as a fleet needs it.

In: JSON. Out: typed values. Invariant: fields that aren't asked for are ignored, and absent ones are empty.
"""

import re
from collections.abc import Mapping
from decimal import Decimal

import msgspec

_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?(?:[eE][0-9]{1,2})?)(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?", re.ASCII)
_FACTORS: Mapping[str, Decimal] = {
    "": Decimal(1), "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "k": Decimal(10**3),
    "M": Decimal(10**6), "G": Decimal(10**9), "T": Decimal(10**12), "P": Decimal(10**15), "E": Decimal(10**18),
    "Ki": Decimal(1 << 10), "Mi": Decimal(1 << 20), "Gi": Decimal(1 << 30), "Ti": Decimal(1 << 40),
    "Pi": Decimal(1 << 50), "Ei": Decimal(1 << 60),
}  # fmt: skip


class _Shape(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Names as the API has them."""


class Meta(_Shape, frozen=True):
    """`metadata`; `more` is the token of the next page of a list."""

    name: str = ""
    namespace: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    more: str = msgspec.field(default="", name="continue")


class Amounts(_Shape, frozen=True):
    """Quantities by resource name, of a node's status or a container's resources."""

    allocatable: dict[str, str] = {}
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}


class KubeNode(_Shape, frozen=True):
    """A node."""

    metadata: Meta
    status: Amounts = Amounts()


class Attribute(_Shape, frozen=True):
    """A device's attribute: one of these."""

    string: str | None = None
    number: int | None = msgspec.field(default=None, name="int")
    flag: bool | None = msgspec.field(default=None, name="bool")


class Capacity(_Shape, frozen=True):
    """A device's capacity."""

    value: str = "0"


class SliceDevice(_Shape, frozen=True):
    """A device of a ResourceSlice."""

    name: str
    attributes: dict[str, Attribute] = {}
    capacity: dict[str, Capacity] = {}


class SliceSpec(_Shape, frozen=True):
    """`spec` of a ResourceSlice."""

    driver: str = ""
    node_name: str = ""
    devices: tuple[SliceDevice, ...] = ()


class ResourceSlice(_Shape, frozen=True):
    """Devices of one driver on one node."""

    metadata: Meta
    spec: SliceSpec = SliceSpec()


class Result(_Shape, frozen=True):
    """One device that a claim got."""

    driver: str = ""
    pool: str = ""
    device: str = ""


class Results(_Shape, frozen=True):
    """`status.allocation.devices`."""

    results: tuple[Result, ...] = ()


class Allocation(_Shape, frozen=True):
    """`status.allocation`."""

    devices: Results = Results()


class Reserver(_Shape, frozen=True):
    """Who uses a claim."""

    resource: str = ""
    name: str = ""


class ClaimStatus(_Shape, frozen=True):
    """`status` of a ResourceClaim."""

    allocation: Allocation = Allocation()
    reserved_for: tuple[Reserver, ...] = ()


class Claim(_Shape, frozen=True):
    """A ResourceClaim."""

    metadata: Meta
    status: ClaimStatus = ClaimStatus()


class Container(_Shape, frozen=True):
    """A container of a pod."""

    resources: Amounts = Amounts()


class PodSpec(_Shape, frozen=True):
    """`spec` of a pod."""

    node_name: str = ""
    containers: tuple[Container, ...] = ()


class PodStatus(_Shape, frozen=True):
    """`status` of a pod."""

    phase: str = ""


class Pod(_Shape, frozen=True):
    """A pod."""

    metadata: Meta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class KoordinatorTopology(_Shape, frozen=True):
    """Where Koordinator saw a device; its PCIe id is the root."""

    node: int = msgspec.field(default=0, name="nodeID")
    pcie: str = msgspec.field(default="", name="pcieID")
    bus: str = msgspec.field(default="", name="busID")


class KoordinatorInfo(_Shape, frozen=True):
    """One device of a Koordinator Device."""

    id: str = ""
    type: str = ""
    minor: int = 0
    health: bool = True
    resources: dict[str, str] = {}
    topology: KoordinatorTopology = KoordinatorTopology()


class KoordinatorSpec(_Shape, frozen=True):
    """`spec` of a Koordinator Device."""

    devices: tuple[KoordinatorInfo, ...] = ()


class KoordinatorDevice(_Shape, frozen=True):
    """`scheduling.koordinator.sh/v1alpha1 Device`: a node's devices, under the node's name."""

    metadata: Meta
    spec: KoordinatorSpec = KoordinatorSpec()


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """All that was read of a cluster."""

    nodes: tuple[KubeNode, ...]
    pods: tuple[Pod, ...] = ()
    slices: tuple[ResourceSlice, ...] = ()
    claims: tuple[Claim, ...] = ()
    koordinator: tuple[KoordinatorDevice, ...] = ()
    unseen: tuple[str, ...] = ()


def quantity(text: str) -> float:
    """ "96", "127500m", "2Ti" -> a number; 0 for what isn't a quantity."""
    match = _QUANTITY.fullmatch(text)
    return float(Decimal(match[1]) * _FACTORS[match[2] or ""]) if match else 0.0
