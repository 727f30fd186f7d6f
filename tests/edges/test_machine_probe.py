"""What the probe of a machine sees in files written by hand, and what it leaves unknown."""

import os

import pytest

from accord.edges.machine import probe
from accord.terms.machine import Instructions, Machine

GIB = 1 << 30
X86 = "processor\t: 0\nmodel name\t: AMD EPYC 9654\nflags\t\t: fpu avx avx2 avx512f avx512_vnni amx_tile\n"
ARM = "processor\t: 0\nFeatures\t: fp asimd evtstrm\nCPU implementer\t: 0x41\n"


@pytest.fixture
def plant(tmp_path):
    def write(**files):
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return write


@pytest.fixture
def eight_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)


@pytest.mark.usefixtures("eight_cores")
def test_what_cannot_be_seen_stays_unknown(tmp_path):
    assert probe(tmp_path) == Machine(cores=8)


@pytest.mark.usefixtures("eight_cores")
def test_a_second_generation_control_group_limits(plant):
    root = plant(
        proc__cpuinfo=X86,
        proc__meminfo="MemTotal: 99 kB\nMemAvailable:   33554432 kB\n",
        proc__self__cgroup="0::/pods/one\n",
        sys__fs__cgroup__pods__one__memory_max="",
    )
    group = root / "sys/fs/cgroup/pods/one"
    group.mkdir(parents=True, exist_ok=True)
    (group / "cpu.max").write_text("350000 100000\n")
    (group / "memory.max").write_text("max\n")
    (group.parent / "memory.max").write_text(f"{8 * GIB}\n")
    (group.parent / "memory.current").write_text(f"{3 * GIB}\n")
    (group.parent / "memory.stat").write_text(f"anon 1\ninactive_file {GIB}\n")
    machine = probe(root)
    assert machine.cores == 3
    assert machine.memory_bytes == 6 * GIB
    assert machine.cpu_model == "AMD EPYC 9654"
    assert machine.instructions == {Instructions.AVX2, Instructions.AVX512, Instructions.VNNI, Instructions.AMX}


@pytest.mark.usefixtures("eight_cores")
def test_a_first_generation_control_group_limits(plant):
    root = plant(
        proc__cpuinfo=ARM,
        proc__self__cgroup="5:cpu,cpuacct:/box\n4:memory:/box\n",
    )
    cpu, memory = root / "sys/fs/cgroup/cpu,cpuacct/box", root / "sys/fs/cgroup/memory/box"
    cpu.mkdir(parents=True)
    memory.mkdir(parents=True)
    (cpu / "cpu.cfs_quota_us").write_text("50000\n")
    (cpu / "cpu.cfs_period_us").write_text("100000\n")
    (memory / "memory.limit_in_bytes").write_text(f"{GIB}\n")
    (memory / "memory.usage_in_bytes").write_text("0\n")
    machine = probe(root)
    assert machine.cores == 1
    assert machine.memory_bytes == GIB
    assert machine.cpu_model is None
    assert machine.instructions == {Instructions.NEON}


@pytest.mark.usefixtures("eight_cores")
def test_no_quota_and_nonsense_are_no_limits(plant):
    root = plant(proc__self__cgroup="0::/\nnonsense\n1:x\n0::/../../etc\n", proc__meminfo="MemAvailable: many\n:::\n")
    (root / "sys/fs/cgroup").mkdir(parents=True)
    (root / "sys/fs/cgroup/cpu.max").write_text("max 100000\n")
    assert probe(root) == Machine(cores=8)


def test_this_machine_agrees_with_the_kernel():
    machine = probe()
    assert machine.cores is not None
    assert 1 <= machine.cores <= (os.cpu_count() or 1)
    assert machine.memory_bytes is not None
    assert 0 < machine.memory_bytes <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
