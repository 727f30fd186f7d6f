"""Looks at this machine.

In: affinity, /proc, /sys/fs/cgroup and /dev/shm. Out: `Machine`.
Invariant: what can't be read stays None; a limit of the container counts as much as the hardware.
"""

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from accord.terms.machine import Instructions, Machine

_FLAGS = {
    "avx2": Instructions.AVX2,
    "avx512f": Instructions.AVX512,
    "avx512_vnni": Instructions.VNNI,
    "avx_vnni": Instructions.VNNI,
    "amx_tile": Instructions.AMX,
    "asimd": Instructions.NEON,
}
_MODEL_KEYS = ("model name", "Model", "Hardware", "cpu model", "uarch")


def probe(root: Path = Path("/")) -> Machine:
    """This machine as this process may use it. `root` is where /proc, /sys and /dev lie."""
    info = _text(root / "proc/cpuinfo")
    groups = tuple(_control_groups(root))
    return Machine(
        cores=_cores(groups),
        memory_bytes=_memory_bytes(root, groups),
        cpu_model=_cpu_model(info),
        instructions=_instructions(info),
        shared_memory_bytes=_free_bytes(root / "dev/shm"),
    )


def _cores(groups: tuple[Path, ...]) -> int | None:
    if hasattr(os, "sched_getaffinity"):
        usable: int | None = len(os.sched_getaffinity(0))
    else:
        usable = os.cpu_count()
    quotas = [quota for group in groups if (quota := _quota_cores(group)) is not None]
    if usable is None:
        return None
    # Half a core more than a whole number can't feed one more thread without throttling the others.
    return max(1, int(min([float(usable), *quotas])))


def _quota_cores(group: Path) -> float | None:
    words = (_text(group / "cpu.max") or "").split()
    if not words:
        words = [(_text(group / f"cpu.cfs_{name}_us") or "").strip() for name in ("quota", "period")]
    quota, period = (_int(word) for word in (*words, "", "")[:2])
    return quota / period if quota and period and quota > 0 else None


def _memory_bytes(root: Path, groups: tuple[Path, ...]) -> int | None:
    free = [left for group in groups if (left := _group_memory_bytes(group)) is not None]
    for line in (_text(root / "proc/meminfo") or "").splitlines():
        key, _, value = line.partition(":")
        words = value.split()
        if key == "MemAvailable" and words and (kib := _int(words[0])) is not None:
            free.append(kib << 10)
    return min(free) if free else None


def _group_memory_bytes(group: Path) -> int | None:
    """What a control group leaves: its limit, less what it holds and can't drop at once."""
    for limit_name, used_name in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
        limit = _int(_text(group / limit_name))
        if limit is None:
            continue
        used = _int(_text(group / used_name)) or 0
        return max(0, limit - used + _droppable_bytes(group))
    return None


def _droppable_bytes(group: Path) -> int:
    for line in (_text(group / "memory.stat") or "").splitlines():
        words = line.split()
        if len(words) == 2 and words[0] in {"inactive_file", "total_inactive_file"}:
            return _int(words[1]) or 0
    return 0


def _control_groups(root: Path) -> Iterator[Path]:
    """The folders of the groups that this process is in, up to the root: each may set a limit."""
    base = root / "sys/fs/cgroup"
    for line in (_text(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "", "")[:3]
        below = PurePosixPath(path.lstrip("/"))
        if ".." in below.parts:
            continue
        mounts = [base] if not controllers else [base / controllers, *(base / name for name in controllers.split(","))]
        for mount in mounts:
            for group in (below, *below.parents):
                yield mount / group


def _cpu_model(info: str | None) -> str | None:
    for wanted in _MODEL_KEYS:
        for line in (info or "").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == wanted and value.strip():
                return value.strip()
    return None


def _instructions(info: str | None) -> frozenset[Instructions] | None:
    for line in (info or "").splitlines():
        key, _, value = line.partition(":")
        if key.strip() in {"flags", "Features"}:
            return frozenset(_FLAGS[flag] for flag in value.split() if flag in _FLAGS)
    return None


def _free_bytes(path: Path) -> int | None:
    try:
        stat = os.statvfs(path)
    except OSError:
        return None
    return stat.f_bavail * stat.f_frsize


def _text(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return None


def _int(text: str | None) -> int | None:
    try:
        return int(text) if text else None
    except ValueError:
        return None
