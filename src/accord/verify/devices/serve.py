"""The child process of a device: reads calls from its input, writes outcomes to its output.

In: frames on standard input. Out: frames on what was standard output. Invariant: whatever a library prints goes to
standard error, so it can't be taken for a frame; the process ends with its parent.
"""

import ctypes
import os
import signal
import sys
from typing import BinaryIO

from accord.verify.devices import open_here
from accord.verify.ports import Device, Unsupported
from accord.verify.wire import Frame, call_of, description_frame, outcome_frame, read_frame, to_bytes

_PR_SET_PDEATHSIG = 1


def main(name: str) -> None:
    """Serves one device until the input ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides how a Ctrl-C ends
    frames = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        device = open_here(name)
        frames.write(to_bytes(description_frame(device.describe())))
        frames.flush()
    except Exception as error:  # noqa: BLE001 - whatever a library raises while it loads is told to the parent
        frames.write(to_bytes(Frame(head={"error": f"{type(error).__name__}: {error}"})))
        frames.flush()
        return
    _serve(device, sys.stdin.buffer, frames)


def _serve(device: Device, calls: BinaryIO, outcomes: BinaryIO) -> None:
    while True:
        try:
            head, body = read_frame(lambda count: _exactly(calls, count))
        except EOFError:
            device.close()
            return
        try:
            outcome = device.run(call_of(head, body))
        except Exception as error:  # noqa: BLE001 - an operator that raises said that it can't
            outcome = Unsupported(reason=f"{type(error).__name__}: {str(error)[:500]}")
        outcomes.write(to_bytes(outcome_frame(outcome)))
        outcomes.flush()


def _exactly(source: BinaryIO, count: int) -> bytes:
    data = source.read(count)
    if len(data) < count:
        raise EOFError
    return data


if __name__ == "__main__":
    main(sys.argv[1])
