"""What is to be placed together, and where it came to stand.

In: nothing. Out: `Gang`, `Placement`. Invariant: a gang is placed whole or not at all.
"""

from dataclasses import dataclass
from enum import StrEnum

from accord.terms.fleet import Codec


class Scope(StrEnum):
    """How near two things stand, nearest first."""

    CARD = "card"
    LINK_GROUP = "link-group"
    PCIE_SWITCH = "pcie-switch"
    PCIE_ROOT = "pcie-root"
    NUMA = "numa"
    HOST = "host"
    LEAF = "leaf"
    SPINE = "spine"


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What each replica of a part takes.

    `cards` whole devices, or one device's `share` (0 to 1) with `memory_bytes` of its memory; `memory_bytes` is the
    least that each device must have free. Codec units, CPU cores, host memory, network bandwidth and NVMe count for
    the replica.
    """

    cards: int = 0
    share: float = 0.0
    memory_bytes: int = 0
    codecs: tuple[Codec, ...] = ()
    cpus: float = 0.0
    host_memory_bytes: int = 0
    nic_bytes_per_s: float = 0.0
    nvme_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """`replicas` equal pieces of a gang, each on one node. `kinds` are the device kinds that will do (empty: any)."""

    name: str
    need: Need
    replicas: int = 1
    kinds: tuple[str, ...] = ()
    within: Scope | None = None  # all devices of one replica stand at least this near
    nic_within: Scope | None = None  # the replica's NIC stands at least this near to its devices


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """All replicas of all `parts` stand in one `scope`; not required: it counts for as much as `weight` says."""

    parts: tuple[str, ...]
    scope: Scope
    required: bool = True
    weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Apart:
    """Replicas of `parts` stand in different `scope`s, at most `most` of them in one."""

    parts: tuple[str, ...]
    scope: Scope
    most: int = 1
    required: bool = True
    weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidth:
    """Each replica of `source` sends this much to `target`: over links within a host, else over NICs."""

    source: str
    target: str
    bytes_per_s: float


Relation = Together | Apart | Bandwidth


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """What is placed whole or not at all."""

    name: str
    parts: tuple[Part, ...]
    relations: tuple[Relation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """Where one replica of a part stands, and exactly what it takes there.

    `devices` and `nic` are numbers within the node. `share_milli` (thousandths of a device's compute), `memory_bytes`
    and `codecs` are taken of each of the devices; `cpus_milli` and `host_memory_bytes` of each NUMA domain, in order.
    """

    part: str
    replica: int
    node: str
    devices: tuple[int, ...] = ()
    share_milli: int = 0
    memory_bytes: int = 0
    codecs: tuple[Codec, ...] = ()
    template: str | None = None
    cpus_milli: tuple[int, ...] = ()
    host_memory_bytes: tuple[int, ...] = ()
    nic: int | None = None
    nic_bytes_per_s: int = 0
    nvme_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """One gang's seats, part by part and replica by replica. `snapshot` is the version that it was decided on."""

    gang: str
    seats: tuple[Seat, ...]
    snapshot: int
    unmet: tuple[str, ...] = ()  # preferences that could not be had
