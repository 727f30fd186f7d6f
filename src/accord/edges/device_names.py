"""What devices call themselves -> kinds of the catalog.

In: a marketing name ("NVIDIA H100 80GB HBM3", "Ascend910B3"), or PCI ids. Out: the name of a kind, or None.
Invariant: a name that could mean two kinds means none; nothing is guessed from a family.
"""

import dataclasses
import re
from collections.abc import Mapping

from accord.edges import device_catalog
from accord.edges.fleet_kinds import catalog_kind
from accord.terms.fleet import DeviceKind, Figure, Tag, Vendor

# The first that is found in the name, with everything but letters and digits taken out.
_NAMES: tuple[tuple[str, str], ...] = (
    (r"A100.*80GB", "a100-80g"),
    (r"A100.*40GB", "a100-40g"),
    (r"A30(?!\d)", "a30"),
    (r"H100(?!NVL|PCIE|.*94GB|.*64GB|.*96GB)", "h100"),
    (r"H200(?!NVL)", "h200"),
    (r"H20(?!0)", "h20"),
    (r"(?<!G)B200", "b200"),
    (r"L40S", "l40s"),
    (r"(?<![A-Z])L4(?!\d)", "l4"),
    (r"RTX4090(?!D)", "rtx-4090"),
    (r"(?<![A-Z])T4(?!\d)", "t4"),
    (r"V100.*32GB", "v100-32g"),
    (r"MI300X(?!HF)", "mi300x"),
    (r"MI325X", "mi325x"),
    (r"MI355X", "mi355x"),
    (r"910B41", "ascend-910b4-1"),
    (r"910B4", "ascend-910b4"),
    (r"910B3", "ascend-910b3"),
    (r"910B2", "ascend-910b2"),
    (r"910B1", "ascend-910b1"),
    (r"910C", "ascend-910c"),
    (r"310P", "ascend-310p3"),
    (r"MLU370X8", "mlu370-x8"),
    (r"MLU590", "mlu590"),
    (r"BIV100", "iluvatar-bi-v100"),
    (r"BIV150", "iluvatar-bi-v150"),
    (r"P800", "kunlunxin-p800"),
    (r"R200", "kunlunxin-r200"),
    (r"C500", "metax-c500"),
    (r"C550", "metax-c550"),
    (r"K100AI", "hygon-k100-ai"),
    (r"S4000", "mthreads-s4000"),
    (r"S5000", "mthreads-s5000"),
    (r"S60(?!\d)", "enflame-s60"),
)
# PCI vendor:device of chips that have one kind alone; pci.ids (https://pci-ids.ucw.cz) has them.
_PCI: Mapping[tuple[int, int], str] = {
    (0x10DE, 0x20B0): "a100-40g",
    (0x10DE, 0x20B2): "a100-80g",
    (0x10DE, 0x20B7): "a30",
    (0x10DE, 0x2330): "h100",
    (0x10DE, 0x2335): "h200",
    (0x10DE, 0x2329): "h20",
    (0x10DE, 0x2901): "b200",
    (0x10DE, 0x27B8): "l4",
    (0x10DE, 0x26B9): "l40s",
    (0x10DE, 0x2684): "rtx-4090",
    (0x10DE, 0x1EB8): "t4",
    (0x10DE, 0x1DB5): "v100-32g",
    (0x1002, 0x74A1): "mi300x",
    (0x1002, 0x74A5): "mi325x",
    (0x1002, 0x75A3): "mi355x",
}
PCI_VENDORS: Mapping[int, Vendor] = {
    0x10DE: Vendor.NVIDIA,
    0x1002: Vendor.AMD,
    0x19E5: Vendor.ASCEND,
    0xCABC: Vendor.CAMBRICON,
    0x1D22: Vendor.KUNLUNXIN,
    0x1E3E: Vendor.ILUVATAR,
    0x9999: Vendor.METAX,
    0x1D94: Vendor.HYGON,
    0x1ED5: Vendor.MOORE_THREADS,
    0x1E36: Vendor.ENFLAME,
}
_NEAR = 0.1  # sizes that a driver reports lie up to so much below the nominal ones


def kind_of_name(name: str) -> str | None:
    """The kind that calls itself so."""
    bare = re.sub(r"[^A-Z0-9]", "", name.upper().replace("NVIDIA", " ").replace("TESLA", " "))
    return next((kind for pattern, kind in _NAMES if re.search(pattern, bare)), None)


def kind_of_pci(vendor: int, device: int) -> str | None:
    """The kind that has these PCI ids."""
    return _PCI.get((vendor, device))


def kind_seen(
    name: str | None, *, vendor: Vendor, called: str, memory_bytes: int | None = None, by: str = ""
) -> DeviceKind:
    """The catalog's kind `name` where its memory is the one that was seen; else a kind of its own, named `called`.

    `by` says who saw the memory.
    """
    seen = None if memory_bytes is None else Figure(value=memory_bytes, tag=Tag.MEASURED, source=by)
    known = catalog_kind(name) if name in device_catalog.names() and name is not None else None
    if known is None:
        return DeviceKind(name=slug(called), vendor=vendor, memory_bytes=seen)
    nominal = known.memory_bytes
    if seen is None or nominal is None or abs(seen.value - nominal.value) <= _NEAR * nominal.value:
        return known
    # The same chip with another memory: its templates are cut differently.
    label = f"{known.name}-{round(seen.value / (1 << 30))}g"
    return dataclasses.replace(known, name=label, memory_bytes=seen, templates=(), price_usd_per_hour=None)


def slug(text: str) -> str:
    """A name of a kind, from any text."""
    bare = re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-._")[:60].strip("-._")
    return bare or "unknown"
