"""How HAMi counts devices: one row a vendor, or a chip where each chip has its own names.

In: nothing. Out: `NAMES`, `names_of`. Invariant: names, units and templates are those of HAMi 2.10's device
configuration and of its code (github.com/Project-HAMi/HAMi at 4707fb0, charts/hami/templates/scheduler/
device-configmap.yaml and pkg/device/VENDOR/); a test holds them against a fixture derived from it.
"""

import re
from dataclasses import dataclass

from accord.terms.fleet import DeviceKind, Vendor

_MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class VnpuTemplate:
    """A hard partition of an Ascend chip."""

    name: str
    memory_mib: int
    ai_cores: int
    ai_cpus: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The resource names of one vendor's devices, or of one chip's.

    `count` is None where HAMi counts a shared device by its memory and core alone; `whole` is the name for whole
    devices where it is another. `memory_units` are the only amounts that are taken, in units of `unit_bytes`, or
    `memory_least` the smallest; `wholes` the only counts of whole devices. `core_parts` is what a whole device has of
    `core`.
    `type_key` chooses devices by model, `uuid_key` and `uuid_key_whole` by UUID, shared ones and whole ones; None
    where HAMi reads no such annotation.
    """

    vendor: Vendor
    chip: str = ""
    count: str | None
    whole: str | None = None
    memory: str
    unit_bytes: int = _MIB
    memory_units: tuple[int, ...] = ()
    memory_least: int = 1
    percentage: str | None = None
    core: str | None = None
    core_parts: int = 100
    wholes: tuple[int, ...] = ()
    templates: tuple[VnpuTemplate, ...] = ()
    ai_cores: int = 0
    pairs: bool = False
    memory_whole_mib: int = 0
    type_key: str | None = None
    uuid_key: str | None = None
    uuid_key_whole: str | None = None
    share_annotations: tuple[tuple[str, str], ...] = ()


def _ascend(word: str, ai_cores: int, memory_whole_mib: int, *templates: tuple[str, int, int, int]) -> Names:
    return Names(
        vendor=Vendor.ASCEND,
        chip=word.removeprefix("Ascend"),
        count=f"huawei.com/{word}",
        memory=f"huawei.com/{word}-memory",
        ai_cores=ai_cores,
        pairs=word == "Ascend910C",
        memory_whole_mib=memory_whole_mib,
        templates=tuple(
            VnpuTemplate(name=name, memory_mib=memory_mib, ai_cores=cores, ai_cpus=cpus)
            for name, memory_mib, cores, cpus in templates
        ),
        uuid_key=f"hami.io/use-{word}-uuid",
        uuid_key_whole=f"hami.io/use-{word}-uuid",
    )


def _iluvatar(chip: str) -> Names:
    return Names(
        vendor=Vendor.ILUVATAR,
        chip=chip,
        count=f"iluvatar.ai/{chip}-vgpu",
        memory=f"iluvatar.ai/{chip}.vMem",
        unit_bytes=256 * _MIB,
        core=f"iluvatar.ai/{chip}.vCore",
        uuid_key=f"hami.io/use-{chip}-uuid",
        uuid_key_whole=f"hami.io/use-{chip}-uuid",
    )


_QUARTER, _HALF = ("vir05_1c_16g", 16384, 5, 1), ("vir10_3c_32g", 32768, 10, 3)

NAMES: tuple[Names, ...] = (
    Names(
        vendor=Vendor.NVIDIA,
        count="nvidia.com/gpu",
        memory="nvidia.com/gpumem",
        percentage="nvidia.com/gpumem-percentage",
        core="nvidia.com/gpucores",
        type_key="nvidia.com/use-gputype",
        uuid_key="nvidia.com/use-gpuuuid",
        uuid_key_whole="nvidia.com/use-gpuuuid",
    ),
    Names(
        vendor=Vendor.AMD,
        count="amd.com/gpu",
        memory="amd.com/gpumem",
        core="amd.com/gpucores",
        type_key="amd.com/use-gputype",
        uuid_key="amd.com/use-gpu-uuid",
        uuid_key_whole="amd.com/use-gpu-uuid",
    ),
    _ascend(
        "Ascend910A",
        30,
        32768,
        ("vir02", 2184, 2, 0),
        ("vir04", 4369, 4, 0),
        ("vir08", 8738, 8, 0),
        ("vir16", 17476, 16, 0),
    ),
    _ascend(
        "Ascend910B2",
        24,
        65536,
        ("vir03_1c_8g", 8192, 3, 1),
        ("vir06_1c_16g", 16384, 6, 1),
        ("vir12_3c_32g", 32768, 12, 3),
    ),
    _ascend("Ascend910B3", 20, 65536, _QUARTER, _HALF),
    _ascend("Ascend910B4-1", 20, 65536, _QUARTER, _HALF),
    _ascend("Ascend910B4", 20, 32768, ("vir05_1c_8g", 8192, 5, 1), ("vir10_3c_16g", 16384, 10, 3)),
    _ascend("Ascend910C", 20, 65536, _QUARTER, _HALF),
    _ascend("Ascend310P", 8, 21527, ("vir01", 3072, 1, 1), ("vir02", 6144, 2, 2), ("vir04", 12288, 4, 4)),
    Names(
        vendor=Vendor.CAMBRICON,
        count="cambricon.com/vmlu",
        memory="cambricon.com/mlu.smlu.vmemory",
        unit_bytes=256 * _MIB,
        core="cambricon.com/mlu.smlu.vcore",
        uuid_key="cambricon.com/use-gpuuuid",
        uuid_key_whole="cambricon.com/use-gpuuuid",
    ),
    Names(
        vendor=Vendor.HYGON,
        count="hygon.com/dcunum",
        memory="hygon.com/dcumem",
        core="hygon.com/dcucores",
        type_key="hygon.com/use-dcutype",
        uuid_key="hygon.com/use-gpuuuid",
        uuid_key_whole="hygon.com/use-gpuuuid",
    ),
    _iluvatar("MR-V100"),
    _iluvatar("MR-V50"),
    _iluvatar("BI-V150"),
    _iluvatar("BI-V100"),
    # An XPU is cut into quarters and halves, and its cores go with its memory (pkg/device/kunlun/vdevice.go). Whole
    # ones are given out 1, 2, 4 or 8 at a time, by their links (topo.go).
    Names(
        vendor=Vendor.KUNLUNXIN,
        count="kunlunxin.com/vxpu",
        whole="kunlunxin.com/xpu",
        memory="kunlunxin.com/vxpu-memory",
        memory_units=(24576, 49152),
        memory_whole_mib=98304,
        wholes=(1, 2, 4, 8),
        uuid_key="hami.io/use-xpu-uuid",
        uuid_key_whole="hami.io/use-xpu-uuid",
    ),
    # Without this policy HAMi sets `best-effort`, under which a core share binds nobody (pkg/device/metax/sdevice.go).
    Names(
        vendor=Vendor.METAX,
        count="metax-tech.com/sgpu",
        whole="metax-tech.com/gpu",
        memory="metax-tech.com/vmemory",
        unit_bytes=1024 * _MIB,
        core="metax-tech.com/vcore",
        uuid_key="metax-tech.com/use-gpuuuid",
        share_annotations=(("metax-tech.com/sgpu-qos-policy", "fixed-share"),),
    ),
    Names(
        vendor=Vendor.MOORE_THREADS,
        count="mthreads.com/vgpu",
        memory="mthreads.com/sgpu-memory",
        unit_bytes=512 * _MIB,
        memory_units=(2, 4, 8, 16, 32, 64, 96),
        core="mthreads.com/sgpu-core",
        core_parts=16,
        uuid_key="mthreads.ai/use-gpuuuid",
        uuid_key_whole="mthreads.ai/use-gpuuuid",
    ),
    # `enflame.com/drs-gcu` counts the slices of a DRS profile, not devices; by memory and core HAMi finds the profile.
    # It takes small amounts for GiB, up to twice a device's (pkg/device/enflame/device.go).
    Names(
        vendor=Vendor.ENFLAME,
        count=None,
        whole="enflame.com/gcu",
        memory="enflame.com/gcu-memory",
        memory_least=1024,
        core="enflame.com/gcu-core",
        uuid_key="enflame.com/use-gpuuuid",
    ),
)


def names_of(kind: DeviceKind) -> Names | None:
    """The row of this kind of device; the chip is found in the kind's name, the longest first."""
    rows = [names for names in NAMES if names.vendor is kind.vendor]
    wanted = _letters(kind.name)
    fitting = [names for names in rows if _letters(names.chip) in wanted]
    return max(fitting, key=lambda names: len(names.chip), default=None)


def _letters(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())
