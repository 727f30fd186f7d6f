"""Measures what a device reaches.

In: a `DeviceKind`, the machine, a date. Out: a `Calibration`. Invariant: one child process, owned and with a deadline;
what was measured is a device of the kind that was asked for.
"""

import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import msgspec

from accord.edges.device_names import kind_of_name
from accord.edges.profile_device_child import DeviceLine, DeviceOrder
from accord.estimate.calibrate import reached
from accord.terms.calibration import Calibration, Sample
from accord.terms.errors import BadInput, BrokenEdge
from accord.terms.fleet import DeviceKind, Vendor
from accord.terms.machine import Machine

Progress = Callable[[str, int, int], None]
_CALL_S = 0.1
_LINE_S_MAX = 120.0  # an accelerator's first call may compile
_ALL_S_MAX = 900.0
_LINE_BYTES_MAX = 1 << 16
_LAST_CHARS = 2000


def measure_device(kind: DeviceKind, *, machine: Machine, taken: str, progress: Progress) -> Calibration:
    """What this machine's device of the kind reaches. `progress(words, done, total)` counts calls.

    BrokenEdge where there is no such device; BadInput where there is one of another kind.
    """
    order = DeviceOrder(vendor=kind.vendor, call_s_max=_CALL_S)
    samples: list[Sample] = []
    tool, name, total = "", None, 0
    for line in _lines(order, machine):
        if line.broken is not None:
            raise BrokenEdge(line.broken)
        if line.sample is None:
            tool, name, total = line.tool or "", line.name, line.total
            _check_name(kind, name)
        else:
            samples.append(line.sample)
        progress(line.sample.words if line.sample else "", len(samples), total)
    return Calibration(
        kind=kind.name,
        engine=None,
        machine=name or _machine_words(machine),
        tool=f"accord profile with {tool}",
        taken=taken,
        memory_bytes=machine.memory_bytes if kind.vendor is Vendor.CPU else None,
        reached=reached(samples),
        samples=tuple(samples),
    )


def _check_name(kind: DeviceKind, name: str | None) -> None:
    found = kind_of_name(name) if name else None
    if found is not None and found != kind.name and not kind.name.startswith(f"{found}-"):
        fix = f"profile {found}, or a kind of your own that is like it"
        raise BadInput(field="DEVICE", value=kind.name, problem=f"this machine has {name}", fix=fix)


def _machine_words(machine: Machine) -> str:
    cores = f"{machine.cores} cores" if machine.cores else "cores unknown"
    return f"{machine.cpu_model or 'a processor'}, {cores}"


def _lines(order: DeviceOrder, machine: Machine) -> Iterator[DeviceLine]:
    """What the child says, line by line; it is ended with this generator."""
    command = [sys.executable, "-m", "accord.edges.profile_device_child"]
    threads = str(machine.cores or 1)
    # Threads that wait for each other by spinning take the cores from those that they wait for, on a busy machine.
    environ = {**os.environ, "OMP_NUM_THREADS": threads, "OMP_WAIT_POLICY": "PASSIVE"}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environ) as child:
        try:
            assert child.stdin is not None
            child.stdin.write(msgspec.json.encode(order))
            child.stdin.close()
            yield from _told(child)
        finally:
            child.kill()


def _told(child: "subprocess.Popen[bytes]") -> Iterator[DeviceLine]:
    assert child.stdout is not None
    assert child.stderr is not None
    pipe, errors = child.stdout.fileno(), child.stderr.fileno()
    ends = time.monotonic() + _ALL_S_MAX
    heard, said, last, open_pipes = b"", b"", time.monotonic(), [pipe, errors]
    while True:
        now = time.monotonic()
        if now > min(ends, last + _LINE_S_MAX):
            raise BrokenEdge(f"profile: the device's process said nothing for {_LINE_S_MAX:.0f} s; it was ended")
        ready, _, _ = select.select(open_pipes, [], [], 1.0)
        if errors in ready:
            words = os.read(errors, _LINE_BYTES_MAX)
            open_pipes = open_pipes if words else [pipe]
            said = (said + words)[-_LAST_CHARS:]
        if pipe not in ready:
            continue
        more = os.read(pipe, _LINE_BYTES_MAX)
        if not more:
            break
        heard, last = heard + more, now
        *lines, heard = heard.split(b"\n")
        for line in lines:
            yield msgspec.json.decode(line, type=DeviceLine)
    if child.wait(timeout=_LINE_S_MAX):
        text = said.decode(errors="replace").strip()
        raise BrokenEdge(f"profile: the device's process ended with status {child.returncode}: {text}")
