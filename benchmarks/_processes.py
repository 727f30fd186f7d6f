"""Processor time of processes, and three bare processes joined by sockets: what a chain of stages can't be below.

In: pids; a number of messages and how many are under way. Out: seconds.
Invariant: the bare processes do nothing but receive and send, and end when their caller does.
"""

import multiprocessing
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

STAGES = 3
MESSAGE = bytes(64)
_SCHED_CLOCK = 2
LIMIT_S = 30.0


def cpu_s(pid: int) -> float:
    """Processor time of a process with all its threads, in ns resolution (`clock_getcpuclockid` of the C library)."""
    return time.clock_gettime((~pid << 3) | _SCHED_CLOCK)


class Ring:
    """door -> three processes -> door, one packet a message."""

    def __init__(self, first: socket.socket, last: socket.socket) -> None:
        self._first = first
        self._last = last

    def latency_s(self, count: int) -> list[float]:
        """One message at a time: how long each took."""
        times = []
        for _ in range(count):
            began_s = time.perf_counter()
            self._first.send(MESSAGE)
            self._last.recv(len(MESSAGE))
            times.append(time.perf_counter() - began_s)
        return times

    def throughput(self, count: int, *, under_way: int) -> float:
        """Messages a second with so many under way."""
        began_s = time.perf_counter()
        for _ in range(under_way):
            self._first.send(MESSAGE)
        for _ in range(count - under_way):
            self._last.recv(len(MESSAGE))
            self._first.send(MESSAGE)
        for _ in range(under_way):
            self._last.recv(len(MESSAGE))
        return count / (time.perf_counter() - began_s)


@contextmanager
def ring() -> Iterator[Ring]:
    """The three processes, for as long as the block lasts."""
    pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(STAGES + 1)]
    ends = [end for pair in pairs for end in pair]
    fork = multiprocessing.get_context("fork")
    children = [
        fork.Process(target=_pass_on, args=(pairs[number][1], pairs[number + 1][0], ends), daemon=True)
        for number in range(STAGES)
    ]
    for child in children:
        child.start()
    first, last = pairs[0][0], pairs[-1][1]
    for end in ends:
        if end not in (first, last):
            end.close()
    first.settimeout(LIMIT_S)
    last.settimeout(LIMIT_S)
    try:
        yield Ring(first, last)
    finally:
        first.close()
        last.close()
        for child in children:
            child.join(timeout=5)
            child.kill()
            child.join()


def _pass_on(inlet: socket.socket, outlet: socket.socket, ends: list[socket.socket]) -> None:
    for end in ends:
        if end not in (inlet, outlet):
            end.close()
    while message := inlet.recv(len(MESSAGE)):
        outlet.send(message)
