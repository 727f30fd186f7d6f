"""A machine's hardware, read from folders that look like /sys and /proc."""

from pathlib import Path
from types import ModuleType, SimpleNamespace

import pynvml
import pytest

from accord.edges import device_catalog
from accord.edges.device_names import kind_of_name, kind_of_pci
from accord.edges.fleet_dump import dump_fleet
from accord.edges.fleet_file import fleet_from_text
from accord.edges.probe_nvml import nvml_cards, read_nvml
from accord.edges.probe_sysfs import Card, probe_machine
from accord.terms.fleet import Fleet, Numa, Tag, Vendor
from tests.edges import sysfs_tree as sysfs

ADDRESSES = [f"0000:{bus + 3 + place:02x}:00.0" for bus in (0x15, 0x37, 0x97, 0xB7) for place in range(2)]


def test_a_dgx_is_seen_whole(tmp_path):
    seen = probe_machine(sysfs.dgx(tmp_path), name="dgx-01", cards=())
    node = seen.node
    assert node.numa == (Numa(cpus=112, memory_bytes=1 << 40),) * 2
    assert [device.kind for device in node.devices] == ["h100"] * 8
    assert [device.root for device in node.devices[::2]] == ["pci0000:15", "pci0000:37", "pci0000:97", "pci0000:b7"]
    assert [device.bridge for device in node.devices[:3]] == ["0000:16:00.0", "0000:16:00.0", "0000:38:00.0"]
    assert [device.numa for device in node.devices] == [0, 0, 0, 0, 1, 1, 1, 1]
    rdma = [nic for nic in node.nics if nic.rdma]
    assert [nic.name for nic in rdma] == [f"mlx5_{number}" for number in range(8)]
    assert {nic.bandwidth_bytes_per_s for nic in rdma} == {50e9}
    for gpu, nic in zip(node.devices, sorted(rdma, key=lambda nic: nic.name), strict=True):
        assert (gpu.root, gpu.bridge, gpu.numa) == (nic.root, nic.bridge, nic.numa)
    (plain,) = [nic for nic in node.nics if not nic.rdma]
    assert (plain.name, plain.bandwidth_bytes_per_s, plain.root, plain.bridge) == (
        "ens1f0", 3.125e9, "pci0000:29", None,
    )  # fmt: skip
    assert node.nvme_bytes == 2 * 512 * 7_501_476_528
    assert [text for text in seen.unseen if "ens1f1" in text]
    assert any("leaf" in text for text in seen.unseen)


def test_what_was_seen_is_a_fleet_file(tmp_path):
    seen = probe_machine(sysfs.dgx(tmp_path), name="dgx-01", cards=_cards())
    fleet = Fleet(kinds=seen.kinds, nodes=(seen.node,), unseen=seen.unseen)
    assert fleet_from_text(dump_fleet(fleet)) == fleet


def _cards(memory_mib: int = 81559, name: str = "NVIDIA H100 80GB HBM3") -> tuple[Card, ...]:
    return tuple(
        Card(
            address=address, name=name, uuid=f"GPU-{number}", memory_bytes=memory_mib << 20,
            peers=tuple(other for other in ADDRESSES if other != address),
        )
        for number, address in enumerate(ADDRESSES)
    )  # fmt: skip


def test_the_driver_adds_uuids_and_links(tmp_path):
    seen = probe_machine(sysfs.dgx(tmp_path), name="dgx-01", cards=_cards())
    assert [device.uuid for device in seen.node.devices] == [f"GPU-{number}" for number in range(8)]
    assert {device.group for device in seen.node.devices} == {"link-0"}
    assert [kind.name for kind in seen.kinds] == ["h100"]


def test_the_same_chip_with_another_memory_is_another_kind(tmp_path):
    seen = probe_machine(sysfs.dgx(tmp_path), name="x", cards=_cards(memory_mib=143771, name="NVIDIA H20"))
    (kind,) = seen.kinds
    assert kind.name == "h20-140g"
    assert kind.memory_bytes.tag is Tag.MEASURED
    assert kind.templates == ()
    assert kind.bandwidth_bytes_per_s.value == 4e12


def test_other_vendors_are_kinds_without_figures(tmp_path):
    for bus, vendor, device in ((1, "0x19e5", "0xd802"), (2, "0xcabc", "0x0370"), (3, "0x1234", "0x0001")):
        folder = tmp_path / f"sys/devices/pci0000:00/0000:00:0{bus}.0/0000:0{bus}:00.0"
        sysfs.bridge(folder.parent, numa=-1)
        sysfs.function(folder, kind="0x120000", vendor=vendor, device=device, numa=-1)
    sysfs.numa(tmp_path, 0, cpus="0-7", memory_kib=1024)
    seen = probe_machine(tmp_path, name="n", cards=())
    assert [(kind.name, kind.vendor) for kind in seen.kinds] == [
        ("ascend-d802", Vendor.ASCEND), ("cambricon-0370", Vendor.CAMBRICON),
    ]  # fmt: skip
    assert all(kind.memory_bytes is None for kind in seen.kinds)
    assert len([text for text in seen.unseen if text.startswith("figures of")]) == 2


def test_without_the_library_the_kernel_module_names_the_devices(tmp_path):
    sysfs.dgx(tmp_path)
    sysfs.text(
        tmp_path / f"proc/driver/nvidia/gpus/{ADDRESSES[0]}/information",
        "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 16\nGPU UUID: \t GPU-abc\nBus Type: \t PCIe",
    )
    assert probe_machine(tmp_path, name="n", cards=()).node.devices[0].uuid == "GPU-abc"


def test_an_empty_machine_is_unseen_and_not_an_error(tmp_path):
    seen = probe_machine(tmp_path, name=";rm -rf /\n", cards=())
    assert seen.node.name == "rm--rf"
    assert seen.node.numa == (Numa(cpus=0, memory_bytes=0),)
    assert any("PCIe" in text for text in seen.unseen)
    assert any("NUMA" in text for text in seen.unseen)


def test_memory_that_was_plugged_in_later_is_counted(tmp_path):
    for number in range(2):
        folder = tmp_path / f"sys/devices/system/node/node{number}"
        sysfs.text(folder / "cpulist", f"{number}")
        sysfs.text(folder / "meminfo", f"Node {number} MemTotal:       {16 << 20} kB")
        sysfs.text(tmp_path / "proc/meminfo", f"MemTotal:       {(24 + 16 * number) << 20} kB")
        seen = probe_machine(tmp_path, name="n", cards=())
        if number == 0:
            assert seen.node.numa == (Numa(cpus=1, memory_bytes=24 << 30),)
    assert [numa.memory_bytes for numa in seen.node.numa] == [16 << 30] * 2
    assert "memory: NUMA domains have 32GiB, in all 40GiB; the rest is in none of them" in seen.unseen


def test_disks_with_multipath_are_counted_once(tmp_path):
    disk = sysfs.function(tmp_path / "sys/devices/pci0000:00/0000:00:01.0", kind=sysfs.DISK, vendor="0x1", device="0x2")
    sysfs.text(disk / "nvme/nvme0/nvme0c0n1/size", "1000")
    sysfs.text(disk / "nvme/nvme0/nvme0c1n1/size", "1000")
    assert probe_machine(tmp_path, name="n", cards=()).node.nvme_bytes == 512_000


def test_an_infiniband_port_that_is_down_is_unseen(tmp_path):
    nic = sysfs.function(
        tmp_path / "sys/devices/pci0000:00/0000:00:01.0", kind=sysfs.NIC_IB, vendor="0x15b3", device="0x1021"
    )
    sysfs.infiniband(nic, "mlx5_0", state="1: DOWN")
    seen = probe_machine(tmp_path, name="n", cards=())
    assert seen.node.nics == ()
    assert any("mlx5_0" in text for text in seen.unseen)


def test_this_machine_can_be_probed():
    cards, _ = nvml_cards()
    seen = probe_machine(Path("/"), name="here", cards=cards)
    fleet = Fleet(kinds=seen.kinds, nodes=(seen.node,), unseen=seen.unseen)
    assert fleet_from_text(dump_fleet(fleet)) == fleet
    assert sum(numa.cpus for numa in seen.node.numa) > 0


@pytest.mark.parametrize(
    ("called", "kind"),
    [("NVIDIA H100 80GB HBM3", "h100"), ("NVIDIA-H100-80GB-HBM3", "h100"), ("NVIDIA H100 NVL", None),
     ("NVIDIA H100 PCIe", None), ("NVIDIA H200", "h200"), ("NVIDIA H20", "h20"), ("NVIDIA GB200", None),
     ("NVIDIA B200", "b200"), ("NVIDIA A100-SXM4-80GB", "a100-80g"), ("NVIDIA A100-SXM4-40GB", "a100-40g"),
     ("NVIDIA A30", "a30"), ("NVIDIA A300", None), ("NVIDIA L40S", "l40s"), ("NVIDIA L4", "l4"), ("NVIDIA L40", None),
     ("NVIDIA GeForce RTX 4090", "rtx-4090"), ("NVIDIA GeForce RTX 4090 D", None), ("Tesla T4", "t4"),
     ("Tesla V100-SXM2-32GB", "v100-32g"), ("NVIDIA-Tesla V100-PCIE-32GB", "v100-32g"),
     ("AMD Instinct MI300X", "mi300x"), ("Ascend910B3", "ascend-910b3"), ("Ascend910B4-1", "ascend-910b4-1"),
     ("Ascend910B4", "ascend-910b4"), ("Ascend310P", "ascend-310p3"), ("MLU-MLU370-X8", "mlu370-x8"),
     ("MLU-MLU370-X4", None), ("Iluvatar BI-V150", "iluvatar-bi-v150"), ("something else", None)],
)  # fmt: skip
def test_names_of_devices(called, kind):
    assert kind_of_name(called) == kind
    assert kind is None or kind in device_catalog.names()


def test_pci_ids_lead_to_kinds_of_the_catalog():
    assert kind_of_pci(0x10DE, 0x2329) == "h20"
    assert kind_of_pci(0x10DE, 0xFFFF) is None


class _Error(Exception):
    pass


def _nvml(*, fails: str = "") -> ModuleType:
    """The library as the real package has it, with two GPUs that are linked."""
    gpus = [
        SimpleNamespace(bus="00000000:18:00.0", uuid="GPU-0"),
        SimpleNamespace(bus=b"0001000A:3A:00.0", uuid=b"GPU-1"),
    ]

    def init() -> None:
        if fails:
            raise _Error(fails)

    module = ModuleType("pynvml")
    module.__dict__.update(
        NVMLError=_Error, nvmlInit=init, nvmlShutdown=lambda: None, nvmlDeviceGetCount=lambda: len(gpus),
        nvmlDeviceGetHandleByIndex=lambda number: gpus[number],
        nvmlDeviceGetPciInfo=lambda gpu: SimpleNamespace(busId=gpu.bus),
        nvmlDeviceGetName=lambda _: "NVIDIA H20", nvmlDeviceGetUUID=lambda gpu: gpu.uuid,
        nvmlDeviceGetMemoryInfo=lambda _: SimpleNamespace(total=97871 << 20),
        nvmlDeviceGetP2PStatus=lambda *_: 0, NVML_P2P_CAPS_INDEX_NVLINK=2, NVML_P2P_STATUS_OK=0,
    )  # fmt: skip
    return module


def test_the_library_is_read():
    cards, unseen = read_nvml(_nvml())
    assert unseen == ()
    assert [(card.address, card.uuid, card.peers) for card in cards] == [
        ("0000:18:00.0", "GPU-0", ("1000a:3a:00.0",)), ("1000a:3a:00.0", "GPU-1", ("0000:18:00.0",)),
    ]  # fmt: skip
    assert cards[0].memory_bytes == 97871 << 20


def test_a_library_without_a_driver_is_unseen():
    assert read_nvml(_nvml(fails="Driver Not Loaded")) == ((), ("NVML: Driver Not Loaded",))


def test_the_real_library_has_what_is_called():
    assert all(hasattr(pynvml, name) for name in vars(_nvml()) if "nvml" in name.lower())
