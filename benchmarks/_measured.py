"""A command in a process of its own, with what it cost.

In: words of a command line. Out: `Ended`: its words, CPU-seconds and peak memory. Invariant: the process ends with
the call, and CPU time counts all of it, its start too, with numeric libraries held to one thread.
"""

import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass

LIMIT_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a command ended."""

    status: int
    out: str
    cpu_s: float
    peak_bytes: int


def run(*command: str, environ: Mapping[str, str] | None = None) -> Ended:
    """Runs the command to its end; it is killed after `LIMIT_S`."""
    given = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **(environ or {})}
    limited = ("timeout", "--kill-after=5", f"{LIMIT_S:.0f}", *command)
    with tempfile.TemporaryFile() as said:
        child = subprocess.Popen(limited, stdout=said, stderr=subprocess.STDOUT, env=given)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        out = said.read().decode(errors="replace")
    cpu_s = usage.ru_utime + usage.ru_stime
    return Ended(status=child.returncode, out=out, cpu_s=cpu_s, peak_bytes=usage.ru_maxrss << 10)
