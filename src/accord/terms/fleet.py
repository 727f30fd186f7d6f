"""The fleet at hand: device kinds with sourced figures, and nodes with their topology.

In: nothing. Out: `Fleet`. Invariant: devices, NICs and NUMA domains of a node are numbered from 0 in the order in
which they stand; what is not known is None, never a guess.
"""

from dataclasses import dataclass
from enum import StrEnum

from accord.terms.tensors import Math


class Vendor(StrEnum):
    """Who makes a device."""

    NVIDIA = "nvidia"
    AMD = "amd"
    ASCEND = "ascend"
    CAMBRICON = "cambricon"
    KUNLUNXIN = "kunlunxin"
    ILUVATAR = "iluvatar"
    METAX = "metax"
    HYGON = "hygon"
    MOORE_THREADS = "mthreads"
    ENFLAME = "enflame"
    CPU = "cpu"
    OTHER = "other"


class Tag(StrEnum):
    """How a figure about hardware was had."""

    MEASURED = "measured"
    DATASHEET = "datasheet"
    REPORTED = "reported"  # by the press or by a paper about something else
    ASSUMED = "assumed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure about hardware, with where it is from."""

    value: float
    tag: Tag
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Codec:
    """Fixed-function units of a device, such as `nvdec`, `jpeg` or `dvpp`."""

    name: str
    units: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A hard partition that a device can be cut into (MIG, vNPU). `share` is its part of the compute, 0 to 1."""

    name: str
    memory_bytes: int
    share: float
    count_max: int
    codecs: tuple[Codec, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Peak FLOP/s of dense matrix multiplies in one number format (operations, for integers)."""

    math: Math
    flops_per_s: Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceKind:
    """What is true of all devices of one kind. `link` is the bandwidth of the vendor's links, one way, a device.

    `soft_share`: fractions of any size can be had (HAMi and its like); else only `templates`, or whole devices.
    `pairs`: devices are given out in pairs (Ascend 910C). `quirks` names known faults (quirk files hold them).
    """

    name: str
    vendor: Vendor
    memory_bytes: Figure | None = None
    bandwidth_bytes_per_s: Figure | None = None
    rates: tuple[Rate, ...] = ()
    link_bytes_per_s: Figure | None = None
    link_latency_s: Figure | None = None
    price_usd_per_hour: Figure | None = None
    codecs: tuple[Codec, ...] = ()
    templates: tuple[Template, ...] = ()
    soft_share: bool = True
    pairs: bool = False
    quirks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Numa:
    """One NUMA domain of a node."""

    cpus: int
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One device where it stands. `root` is its PCIe root complex, `bridge` the PCIe switch below it, `group` the
    devices of the node that it has fast links with.
    """

    kind: str
    numa: int = 0
    root: str | None = None
    bridge: str | None = None
    group: str | None = None
    uuid: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Nic:
    """One network port. `rdma` says whether devices can reach it without the CPU."""

    name: str
    bandwidth_bytes_per_s: float
    numa: int = 0
    root: str | None = None
    bridge: str | None = None
    rdma: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One machine. `leaf` is the switch of its rack, `spine` what joins those."""

    name: str
    numa: tuple[Numa, ...]
    devices: tuple[Device, ...] = ()
    nics: tuple[Nic, ...] = ()
    leaf: str | None = None
    spine: str | None = None
    nvme_bytes: int = 0
    price_usd_per_hour: float | None = None
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """Capacity that somebody has already. `device` None: of the node alone. `share` is of one device's compute.

    `template` is the hard partition that was cut for it, `codecs` the units that it has of the device.
    """

    node: str
    owner: str
    device: int | None = None
    share: float = 0.0
    memory_bytes: int = 0
    codecs: tuple[Codec, ...] = ()
    template: str | None = None
    cpus: float = 0.0
    host_memory_bytes: int = 0
    numa: int | None = None
    nic: int | None = None
    nic_bytes_per_s: float = 0.0
    nvme_bytes: int = 0
    movable: bool = False
    move_cost_usd: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Everything at hand. `unseen` lists what a probe could not see."""

    kinds: tuple[DeviceKind, ...]
    nodes: tuple[Node, ...]
    taken: tuple[Taken, ...] = ()
    unseen: tuple[str, ...] = ()

    def kind(self, name: str) -> DeviceKind:
        """The kind of this name; KeyError if there is none."""
        for item in self.kinds:
            if item.name == name:
                return item
        raise KeyError(name)
