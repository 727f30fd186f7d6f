"""A device in a process of its own, so that a crash or a hang is an outcome and not an end.

In: the device's name, a Python to run it with. Out: `Device`. Invariant: the process is started when it is needed, and
anew after it died; every wait has a deadline; `close` leaves no process behind.
"""

import contextlib
import fcntl
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, cast

from accord.terms.errors import BrokenEdge
from accord.verify.ports import Call, Death, Description, Died, Outcome, State
from accord.verify.wire import call_frame, description_of, outcome_of, read_frame, to_bytes

_START_S = 120.0
_CHUNK = 1 << 20
_HUNG_S = 3.0


class _Hung(Exception):
    """The child said nothing until the deadline."""


class ChildDevice:
    """`python`: the interpreter to use (default: this one). `call_s`: how long one call may take.

    An operator that has hung twice in a row is waited for less from then on: far longer than any of its answers took.
    """

    def __init__(
        self,
        name: str,
        *,
        python: str | None = None,
        environment: Mapping[str, str] | None = None,
        call_s: float = 30.0,
        label: str | None = None,
    ) -> None:
        self._name = name
        self._python = python or sys.executable
        self._environment = dict(environment or {})
        self._call_s = call_s
        self._label = label
        self._process: subprocess.Popen[bytes] | None = None
        self._said: BinaryIO | None = None
        self._described: Description | None = None
        self._slowest_s: dict[str, float] = {}
        self._hung: dict[str, int] = {}

    def describe(self) -> Description:
        """What the child says of itself; it is started for that. BrokenEdge if it can't be."""
        if self._described is None:
            self._start()
        assert self._described is not None
        return self._described

    def run(self, call: Call) -> Outcome:
        """Runs the call in the child; a child that dies or hangs under it is the outcome."""
        if call.state is State.COLD:
            self._stop()  # a new process remembers nothing
        if self._process is None:
            self._start()
        process = self._process
        assert process is not None
        assert process.stdin is not None
        patience_s, started_s = self._patience_s(call.operator), time.monotonic()
        deadline = started_s + patience_s
        try:
            self._send(process, to_bytes(call_frame(call)), deadline)
            head, body = read_frame(lambda count: self._read(process, count, deadline))
        except _Hung:
            self._stop()
            self._hung[call.operator] = self._hung.get(call.operator, 0) + 1
            return Died(death=Death.HANG, detail=f"no answer within {patience_s:g} s")
        except (EOFError, BrokenPipeError):
            return self._crashed()
        if self._hung.get(call.operator) == 1:
            self._hung[call.operator] = 0  # it was slow for once
        taken_s = time.monotonic() - started_s
        self._slowest_s[call.operator] = max(taken_s, self._slowest_s.get(call.operator, 0.0))
        return outcome_of(head, body)

    def close(self) -> None:
        """Ends the child."""
        self._stop()

    def _patience_s(self, operator: str) -> float:
        if self._hung.get(operator, 0) < 2:
            return self._call_s
        return min(self._call_s, max(_HUNG_S, 10.0 * self._slowest_s.get(operator, 0.0)))

    def _start(self) -> None:
        source = str(Path(__file__).resolve().parents[3])
        paths = [source, *filter(None, [self._environment.get("PYTHONPATH"), os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, **self._environment, "PYTHONPATH": os.pathsep.join(paths)}
        self._said = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115 - it lives as long as the child
        command = [self._python, "-m", "accord.verify.devices.serve", self._name]
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, env=environment
            )
        except OSError as error:
            self._stop()
            raise BrokenEdge(f"{self._python}: {error.strerror}; name a Python that runs") from error
        for pipe in (self._process.stdout, self._process.stdin):
            os.set_blocking(cast("BinaryIO", pipe).fileno(), False)
            _widen(cast("BinaryIO", pipe).fileno())
        deadline = time.monotonic() + _START_S
        process = self._process
        try:
            head, _ = read_frame(lambda count: self._read(process, count, deadline))
        except _Hung:
            self._stop()
            raise BrokenEdge(f"{self._name}: its process isn't ready after {_START_S:g} s") from None
        except EOFError:
            raise BrokenEdge(f"{self._name}: its process ended: {self._crashed().detail}") from None
        if isinstance(head, dict) and "error" in head:
            self._stop()
            raise BrokenEdge(f"{self._name}: {head['error']}; install what it needs into {self._python}")
        found = description_of(head)
        self._described = found if self._label is None else _relabelled(found, self._label)

    def _send(self, process: subprocess.Popen[bytes], data: bytes, deadline: float) -> None:
        view, pipe = memoryview(data), cast("BinaryIO", process.stdin).fileno()
        while view:
            _wait(pipe, selectors.EVENT_WRITE, deadline)
            try:
                view = view[os.write(pipe, view[:_CHUNK]) :]
            except BlockingIOError:
                continue

    def _read(self, process: subprocess.Popen[bytes], count: int, deadline: float) -> bytes:
        pipe, parts, left = cast("BinaryIO", process.stdout).fileno(), [], count
        while left:
            _wait(pipe, selectors.EVENT_READ, deadline)
            try:
                part = os.read(pipe, min(left, _CHUNK))
            except BlockingIOError:
                continue
            if not part:
                raise EOFError
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    def _crashed(self) -> Died:
        assert self._process is not None
        try:
            status = self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            status = 0
        words = self._last_words()
        self._stop()
        how = f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"
        return Died(death=Death.CRASH, detail=f"{how}{': ' + words if words else ''}")

    def _last_words(self) -> str:
        if self._said is None:
            return ""
        self._said.seek(0, os.SEEK_END)
        self._said.seek(max(0, self._said.tell() - 400))
        lines = self._said.read().decode(errors="replace").strip().splitlines()
        return lines[-1][:200] if lines else ""

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
        if self._said is not None:
            self._said.close()
            self._said = None


def _wait(pipe: int, event: int, deadline: float) -> None:
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, event)
        if not selector.select(max(0.0, deadline - time.monotonic())):
            raise _Hung


def _widen(pipe: int) -> None:
    """Fewer turns between the processes for large operands; where the system allows no more, it stays as it is."""
    with contextlib.suppress(OSError):
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _CHUNK)


def _relabelled(found: Description, label: str) -> Description:
    return Description(
        name=label, families=found.families, versions=found.versions, features=found.features, modes=found.modes
    )
