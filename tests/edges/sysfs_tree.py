"""Makes a folder that looks like /sys and /proc of a machine.

In: PCI functions with their attributes. Out: files below a folder. Invariant: the shape is that of the kernel's own
tree: a device lies in the folder of the bridge above it.
"""

from pathlib import Path

GPU, NIC_IB, NIC_ETHERNET, DISK, BRIDGE, DISPLAY = (
    "0x030200",
    "0x020700",
    "0x020000",
    "0x010802",
    "0x060400",
    "0x030000",
)


def function(folder: Path, *, kind: str, vendor: str, device: str, numa: int = 0) -> Path:
    """One PCI function in this folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("class", kind), ("vendor", vendor), ("device", device), ("numa_node", numa)):
        (folder / name).write_text(f"{text}\n")
    return folder


def bridge(folder: Path, *, numa: int = 0) -> Path:
    """One PCI bridge."""
    return function(folder, kind=BRIDGE, vendor="0x1000", device="0xc030", numa=numa)


def text(path: Path, content: str) -> None:
    """One file, with its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content + "\n")


def numa(root: Path, number: int, *, cpus: str, memory_kib: int) -> None:
    """One NUMA domain."""
    folder = root / f"sys/devices/system/node/node{number}"
    text(folder / "cpulist", cpus)
    text(folder / "meminfo", f"Node {number} MemTotal:       {memory_kib} kB")


def infiniband(folder: Path, name: str, *, rate: str = "400 Gb/sec (4X NDR)", state: str = "4: ACTIVE") -> None:
    """An RDMA device with one port."""
    text(folder / f"infiniband/{name}/ports/1/rate", rate)
    text(folder / f"infiniband/{name}/ports/1/state", state)


def dgx(root: Path) -> Path:
    """Eight H100 and eight ConnectX-7 below four PCIe switches, two disks, a plain NIC, a BMC; two NUMA domains."""
    numa(root, 0, cpus="0-55,112-167", memory_kib=1 << 30)
    numa(root, 1, cpus="56-111,168-223", memory_kib=1 << 30)
    for number, bus in enumerate((0x15, 0x37, 0x97, 0xB7)):
        domain = number // 2
        port = bridge(root / f"sys/devices/pci0000:{bus:02x}/0000:{bus:02x}:01.0", numa=domain)
        switch = bridge(port / f"0000:{bus + 1:02x}:00.0", numa=domain)
        for place in range(4):
            below = bridge(switch / f"0000:{bus + 2:02x}:{place:02x}.0", numa=domain)
            address = f"0000:{bus + 3 + place:02x}:00.0"
            if place < 2:
                function(below / address, kind=GPU, vendor="0x10de", device="0x2330", numa=domain)
                continue
            nic = function(below / address, kind=NIC_IB, vendor="0x15b3", device="0x1021", numa=domain)
            infiniband(nic, f"mlx5_{2 * number + place - 2}")
            virtual = below / address.replace(".0", ".1")
            function(virtual, kind=NIC_IB, vendor="0x15b3", device="0x101e", numa=domain)
            text(virtual / "physfn/vendor", "0x15b3")
    plain = root / "sys/devices/pci0000:29/0000:29:01.0/0000:2a:00.0"
    bridge(plain.parent)
    text(function(plain, kind=NIC_ETHERNET, vendor="0x8086", device="0x1563") / "net/ens1f0/speed", "25000")
    down = function(plain.with_name("0000:2a:00.1"), kind=NIC_ETHERNET, vendor="0x8086", device="0x1563")
    text(down / "net/ens1f1/speed", "-1")
    for number in range(2):
        disk = function(plain.with_name(f"0000:2{number + 3}:00.0"), kind=DISK, vendor="0x144d", device="0xa80a")
        text(disk / f"nvme/nvme{number}/nvme{number}n1/size", str(7_501_476_528))
        text(disk / f"nvme/nvme{number}/nvme{number}c0n1/size", "1")
    bmc = root / "sys/devices/pci0000:00/0000:00:1c.0/0000:01:00.0"
    bridge(bmc.parent)
    function(bmc, kind=DISPLAY, vendor="0x1a03", device="0x2000")
    return root
