"""The socket of one link: packets of messages in order, never blocking.

In: messages to send. Out: messages received. Invariant: what a full socket does not take is kept in order
and sent when it turns writable; credits bound how much that can be.
"""

import array
import fcntl
import os
import socket
import termios
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

S = TypeVar("S")
R = TypeVar("R")

PACKET_BYTES_MAX = 64 << 10
_RECEIVE_BYTES = 256 << 10


class Wire(Generic[S, R]):
    """A connected SOCK_SEQPACKET socket that carries lists of messages, and file descriptors."""

    def __init__(
        self,
        sock: socket.socket,
        *,
        encode: Callable[[list[S]], bytes],
        decode: Callable[[memoryview], list[R]],
    ) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._encode = encode
        self._decode = decode
        self._backlog: deque[tuple[bytes, tuple[int, ...]]] = deque()
        self._buffer = bytearray(_RECEIVE_BYTES)
        self._view = memoryview(self._buffer)

    def fileno(self) -> int:
        """The socket's descriptor, for a poller."""
        return self._sock.fileno()

    @property
    def congested(self) -> bool:
        """Whether something waits for the socket to turn writable."""
        return bool(self._backlog)

    @property
    def unread(self) -> bool:
        """Whether the peer has not yet taken all that was sent."""
        waiting = fcntl.ioctl(self._sock.fileno(), termios.TIOCOUTQ, bytes(4))
        return self.congested or any(waiting)

    def send(self, messages: list[S], fds: Sequence[int] = ()) -> None:
        """Sends messages as few packets. `fds` go with the first, and are closed here once sent."""
        carried = tuple(fds)
        for packet in self._packets(messages):
            if self._backlog or not self._try(packet, carried):
                self._backlog.append((packet, carried))
            carried = ()

    def flush(self) -> None:
        """Sends what was kept, as far as the socket takes it."""
        while self._backlog and self._try(*self._backlog[0]):
            self._backlog.popleft()

    def receive(self) -> tuple[list[R], list[int]] | None:
        """One packet's messages and descriptors; empty lists when there is none; None when the peer is gone."""
        try:
            count, ancillary, _, _ = self._sock.recvmsg_into([self._view], socket.CMSG_SPACE(8 * 4))
        except BlockingIOError:
            return [], []
        except ConnectionError:
            return None
        if count == 0:
            return None
        return self._decode(self._view[:count]), _descriptors(ancillary)

    def receive_plain(self) -> list[R] | None:
        """Like `receive` for a link that carries no descriptors; cheaper."""
        try:
            count = self._sock.recv_into(self._buffer)
        except BlockingIOError:
            return []
        except ConnectionError:
            return None
        return self._decode(self._view[:count]) if count else None

    def close(self) -> None:
        """Closes the socket and the descriptors that were not sent."""
        for _, fds in self._backlog:
            _close_all(fds)
        self._backlog.clear()
        self._sock.close()

    def _packets(self, messages: list[S]) -> list[bytes]:
        packet = self._encode(messages)
        if len(packet) <= PACKET_BYTES_MAX or len(messages) == 1:
            return [packet]
        half = len(messages) // 2
        return self._packets(messages[:half]) + self._packets(messages[half:])

    def _try(self, packet: bytes, fds: tuple[int, ...]) -> bool:
        try:
            if fds:
                socket.send_fds(self._sock, [packet], list(fds))
                _close_all(fds)
            else:
                self._sock.send(packet)
        except BlockingIOError:
            return False
        except ConnectionError:
            # The peer is gone: its end of file tells the reader; nobody misses the packet.
            _close_all(fds)
        return True


def _descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    found: list[int] = []
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            numbers = array.array("i")
            numbers.frombytes(data[: len(data) - len(data) % numbers.itemsize])
            found.extend(numbers)
    return found


def _close_all(fds: Sequence[int]) -> None:
    for fd in fds:
        os.close(fd)
