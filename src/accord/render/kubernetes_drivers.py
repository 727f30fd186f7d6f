"""Drivers of dynamic resource allocation, and the selectors that find devices in what they publish.

In: a vendor, a device kind. Out: `Driver`, CEL expressions. Invariant: a text of the plan stands in an expression as
a quoted literal; it can't end it.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from accord.terms.fleet import DeviceKind, Vendor

PCIE_ROOT = "resource.kubernetes.io/pcieRoot"
NUMA_NODE = "resource.kubernetes.io/numaNode"
NIC_DRIVER = "dra.net"
NIC_CLASS = "accord-rdma"


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """One driver: its name (the domain of its attributes), and the class that its devices are asked for by.

    `whole` narrows devices to whole ones. `uuid` is the attribute that names a device, `slice_of` the one of a
    partition that names its device, `profile` the one that names its template. `shares`: devices may be given to
    several claims, each with a part of their capacities `memory` and `cores` (hundredths). `ships_class`: the class
    comes with the driver. `taint` keeps other pods off its nodes where an operator sets it.
    """

    name: str
    device_class: str
    whole: str | None = None
    uuid: str | None = None
    slice_class: str | None = None
    slice_of: str | None = None
    profile: str | None = None
    shares: bool = False
    ships_class: bool = True
    pcie_root: bool = True
    numa: bool = False
    taint: str | None = None


# kubernetes-sigs/dra-driver-nvidia-gpu: cmd/gpu-kubelet-plugin/{deviceinfo,mig}.go, its chart's device classes.
# ROCm/k8s-gpu-dra-driver: cmd/gpu-kubeletplugin/deviceinfo.go. Project-HAMi/ascend-dra-driver: pkg/consts/consts.go,
# cmd/ascend-dra-kubeletplugin/discovery.go (it shares devices in its mode HAMivNPUCore).
WHOLE: Mapping[Vendor, Driver] = {
    Vendor.NVIDIA: Driver(
        name="gpu.nvidia.com",
        device_class="gpu.nvidia.com",
        uuid="uuid",
        slice_class="mig.nvidia.com",
        slice_of="parentUUID",
        profile="profile",
        numa=True,
        taint="nvidia.com/gpu",
    ),
    Vendor.AMD: Driver(name="gpu.amd.com", device_class="gpu.amd.com", whole="amdgpu", taint="amd.com/gpu"),
    Vendor.ASCEND: Driver(
        name="ascend.project-hami.io",
        device_class="accord-ascend",
        uuid="uuid",
        shares=True,
        ships_class=False,
        pcie_root=False,
    ),
}
# Project-HAMi/k8s-dra-driver: cmd/hami-kubelet-plugin/hami_core.go, its chart's device class.
FRACTIONS: Mapping[Vendor, Driver] = {
    Vendor.NVIDIA: Driver(
        name="hami-core-gpu.project-hami.io",
        device_class="hami-core-gpu.project-hami.io",
        uuid="uuid",
        shares=True,
        taint="nvidia.com/gpu",
    ),
    Vendor.ASCEND: WHOLE[Vendor.ASCEND],
}


def attribute(driver: str, name: str) -> str:
    """An attribute of a device in CEL."""
    return f"device.attributes[{literal(driver)}].{name}"


def literal(text: str) -> str:
    """`text` as a CEL string: JSON's escapes are CEL's, save for signs beyond the basic plane."""
    quoted = json.dumps(text, ensure_ascii=True)
    return re.sub(r"\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})", _astral, quoted)


def _astral(match: re.Match[str]) -> str:
    point = 0x10000 + ((int(match[1], 16) - 0xD800) << 10) + int(match[2], 16) - 0xDC00
    return f"\\U{point:08x}"


def of_kind(driver: Driver, kind: DeviceKind) -> list[str]:
    """Selects devices of a kind: by a word of their product's name, and by whole devices' memory, to a tenth.

    `h20` finds "NVIDIA H20" and not "NVIDIA H200"; memory tells the A100 with 40 GB from the one with 80.
    """
    product = attribute(driver.name, "productName")
    if kind.vendor is Vendor.ASCEND:
        model = kind.name.lower().removeprefix("ascend").lstrip("-")
        return [f"{product}.matches({literal(f'(?i)^ascend-?{re.escape(model)}$')})"]
    word = model_word(kind.name)
    before = "[^a-z0-9]" if word[0].isalpha() else "[^0-9]"
    return [f"{product}.matches({literal(f'(?i)(^|{before}){re.escape(word)}([^a-z0-9]|$)')})"]


def of_memory(driver: Driver, kind: DeviceKind) -> list[str]:
    """Selects whole devices with the kind's memory, to a tenth; nothing where it isn't known.

    Ascend's model says the memory, and its driver publishes that only in one of its modes.
    """
    if kind.memory_bytes is None or kind.vendor is Vendor.ASCEND:
        return []
    mib = kind.memory_bytes.value / (1 << 20)
    memory = f"device.capacity[{literal(driver.name)}].memory"
    low, high = literal(f"{round(mib * 0.9)}Mi"), literal(f"{round(mib * 1.1)}Mi")
    return [f"{memory}.compareTo(quantity({low})) >= 0 && {memory}.compareTo(quantity({high})) <= 0"]


def model_word(kind: str) -> str:
    """The word of a kind's name that tells models apart: the first with a digit in it, else all of it."""
    words = re.findall(r"[a-z0-9]+", kind.lower(), re.ASCII)
    return next((word for word in words if re.search("[0-9]", word)), words[0] if words else "unknown")


def one_of(driver: str, name: str, texts: Iterable[str]) -> str:
    """Selects devices whose attribute is one of `texts`."""
    return f"{attribute(driver, name)} in [{', '.join(literal(text) for text in texts)}]"
