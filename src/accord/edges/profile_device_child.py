"""The process that measures a device: `python -m accord.edges.profile_device_child`.

In: a `DeviceOrder` on stdin. Out: one `DeviceLine` a call on stdout, as it is done. Invariant: it ends with its
parent; a call takes as long as its
fastest run, since a busy machine only ever adds to it.
"""

import ctypes
import os
import signal
import statistics
import sys
import time

import msgspec

from accord.edges.profile_backends import Backend, backend
from accord.edges.profile_shapes import Call, calls
from accord.terms.calibration import Sample
from accord.terms.errors import AccordError
from accord.terms.fleet import Vendor

_PR_SET_PDEATHSIG = 1
_RUNS_MIN = 3
_RUNS_MAX = 50
_BURST_S = 3e-4  # several calls are timed as one until they take so long


class DeviceOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Whose device, and how long each call may be repeated."""

    vendor: Vendor
    call_s_max: float


class DeviceLine(msgspec.Struct, frozen=True, kw_only=True):
    """The first line says what runs the calls, and how many there are; the next ones have a sample each."""

    tool: str | None = None
    name: str | None = None
    total: int = 0
    sample: Sample | None = None
    broken: str | None = None


def measured(device: Backend, call: Call, *, time_s_max: float) -> Sample:
    """One call, run again and again: the fastest run, and how far the middle one lies above it."""
    run = device.prepared(call)
    burst = _burst(device, run)
    times: list[float] = []
    ends = time.perf_counter() + time_s_max
    while len(times) < _RUNS_MIN or (len(times) < _RUNS_MAX and time.perf_counter() < ends):
        before = time.perf_counter()
        for _ in range(burst):
            run()
        device.wait()
        times.append((time.perf_counter() - before) / burst)
    least = max(min(times), 1e-9)
    return Sample(
        kernel=call.kernel,
        math=call.math if call.flops else None,
        words=call.words,
        flops=call.flops,
        moved_bytes=call.moved_bytes,
        seconds=least,
        spread=round(statistics.median(times) / least - 1, 4),
    )


def _burst(device: Backend, run: object) -> int:
    """How many calls fill the clock's grain; the first ones warm the device up."""
    assert callable(run)
    count = 1
    while True:
        device.wait()
        before = time.perf_counter()
        for _ in range(count):
            run()
        device.wait()
        took_s = time.perf_counter() - before
        if took_s >= _BURST_S or count >= 1 << 14:
            return count
        count = min(1 << 14, max(2 * count, int(count * _BURST_S / max(took_s, 1e-7))))


def main() -> None:
    """Reads the order and writes a line a call to what stdout was at the start."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the profiler ends its child itself
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=DeviceOrder)
    out = os.dup(1)
    os.dup2(2, 1)  # libraries print; the lines must stand alone on their pipe
    with os.fdopen(out, "wb") as pipe:

        def say(line: DeviceLine) -> None:
            pipe.write(msgspec.json.encode(line) + b"\n")
            pipe.flush()

        try:
            device = backend(order.vendor)
            wanted = calls(device.maths(), large=order.vendor is not Vendor.CPU)
            say(DeviceLine(tool=device.tool, name=device.name, total=len(wanted)))
            for call in wanted:
                say(DeviceLine(sample=measured(device, call, time_s_max=order.call_s_max)))
        except AccordError as error:
            say(DeviceLine(broken=str(error)))


if __name__ == "__main__":
    main()
