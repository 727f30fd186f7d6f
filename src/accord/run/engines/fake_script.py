"""What the fake engine is told to do, and the doing of its faults.

In: an engine's options. Out: `Options`, and functions that take time, fail, break, crash or hang.
Invariant: an option that isn't named here is refused.
"""

import os
import time
from enum import StrEnum
from typing import Literal

import msgspec

from accord.run.ports import JobFailed
from accord.terms.graph import Payload
from accord.terms.request import ErrorCode

_HANG_S = 3600.0


class Mode(StrEnum):
    """What the fake makes of an input chunk."""

    NOOP = "noop"  # the same bytes at once: no time, no batches; the cheapest engine there can be
    ECHO = "echo"  # the same bytes, one chunk a step
    TOKENS = "tokens"  # `tokens` words of text, one a step
    CHUNKS = "chunks"  # `tokens` blocks of `chunk_bytes`, one a step


class Fault(StrEnum):
    """What can go wrong; the names are the option `<name>_at` and, with `commands`, an input's `!<name>`."""

    FAIL = "fail"  # JobFailed(ENGINE)
    BAD_INPUT = "bad_input"  # JobFailed(BAD_INPUT)
    RAISE = "raise"  # `step` raises: the engine is broken
    CRASH = "crash"  # the process ends at once with status 70
    HANG = "hang"  # `step` doesn't come back for an hour


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The script. Jobs are counted from 1 in the order in which they open; 0 means never.

    `work_us`: how long a step takes; `work` says how: `sleep` leaves the core to others, so that many
    fake stages fit on few cores, `spin` keeps it busy. `after`: a fault strikes once its job has
    emitted so many chunks. `once`: a path; a fault strikes only if it can create this file, so a
    restarted replica gets through. `commands`: inputs that begin with `!fail`, `!crash` ... ask for it.
    """

    mode: Mode = Mode.NOOP
    work_us: int = 0
    work: Literal["sleep", "spin"] = "sleep"
    tokens: int = 8
    chunk_bytes: int = 4096
    out: Payload | None = None
    fail_at: int = 0
    bad_input_at: int = 0
    raise_at: int = 0
    crash_at: int = 0
    hang_at: int = 0
    after: int = 0
    once: str = ""
    commands: bool = False

    def fault_of(self, number: int) -> Fault | None:
        """The fault that the job of this number is scripted to meet."""
        planned = (
            (self.fail_at, Fault.FAIL),
            (self.bad_input_at, Fault.BAD_INPUT),
            (self.raise_at, Fault.RAISE),
            (self.crash_at, Fault.CRASH),
            (self.hang_at, Fault.HANG),
        )
        return next((fault for at, fault in planned if at == number), None)

    @property
    def faulty(self) -> bool:
        """Whether any fault is scripted."""
        planned = (self.fail_at, self.bad_input_at, self.raise_at, self.crash_at, self.hang_at)
        return self.commands or any(planned)


def work(options: Options) -> None:
    """Lets a step take its time."""
    if not options.work_us:
        return
    if options.work == "sleep":
        time.sleep(options.work_us / 1e6)
        return
    until_ns = time.perf_counter_ns() + options.work_us * 1000
    while time.perf_counter_ns() < until_ns:
        pass


def command(data: memoryview) -> Fault | None:
    """The fault that an input asks for."""
    head = bytes(data[:16])
    return next((fault for fault in Fault if head.startswith(b"!" + fault.value.encode())), None)


def may_strike(once: str) -> bool:
    """Whether a fault strikes: always without a file, else for the one who creates it."""
    if not once:
        return True
    try:
        os.close(os.open(once, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return False
    return True


def strike(fault: Fault, request_id: int, number: int) -> JobFailed:
    """The fault itself; CRASH and HANG don't come back."""
    match fault:
        case Fault.FAIL:
            return JobFailed(request_id=request_id, code=ErrorCode.ENGINE, text=f"job {number} was scripted to fail")
        case Fault.BAD_INPUT:
            text = f"input: job {number} was scripted to be unreadable; send another"
            return JobFailed(request_id=request_id, code=ErrorCode.BAD_INPUT, text=text)
        case Fault.RAISE:
            raise RuntimeError(f"the fake engine was scripted to break at job {number}")
        case Fault.CRASH:
            os._exit(70)
        case Fault.HANG:
            time.sleep(_HANG_S)
            raise RuntimeError("the fake engine was scripted to hang, and nobody ended it in an hour")
