"""The wire: under congestion nothing is lost or overtaken, descriptors arrive once, a peer's end is told."""

import math
import os
import socket
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.run.wire import PACKET_BYTES_MAX, Wire

Pipe = tuple[Wire[bytes, bytes], Wire[bytes, bytes]]
_decoder = msgspec.msgpack.Decoder(list[bytes])


def _wire(sock: socket.socket) -> Wire[bytes, bytes]:
    return Wire(sock, encode=msgspec.msgpack.Encoder().encode, decode=_decoder.decode)


def _pipe() -> Pipe:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return _wire(one), _wire(other)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    ends = _pipe()
    yield ends
    for end in ends:
        end.close()


def _open_fds() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def _inode(fd: int) -> int:
    return os.fstat(fd).st_ino


@settings(max_examples=25)
@given(
    batches=st.lists(st.lists(st.sampled_from((1, 50, 5000, 60_000, 100_000)), min_size=1, max_size=20), max_size=12),
    reads=st.lists(st.integers(0, 5), max_size=12),
)
def test_order_is_kept_whatever_the_socket_takes(batches: list[list[int]], reads: list[int]) -> None:
    one, other = _pipe()
    sent: list[bytes] = []
    got: list[bytes] = []
    for number, batch in enumerate(batches):
        messages = [(len(sent) + n).to_bytes(4, "big") + bytes(size) for n, size in enumerate(batch)]
        sent += messages
        one.send(messages)
        for _ in range(reads[number] if number < len(reads) else 0):
            got += other.receive_plain() or []
            one.flush()
    while len(got) < len(sent):
        one.flush()
        more = other.receive_plain()
        assert more, "something was lost"
        got += more
    assert not one.congested
    assert got == sent
    one.close()
    other.close()


@settings(max_examples=25)
@given(st.lists(st.integers(0, PACKET_BYTES_MAX // 2), max_size=40))
def test_packets_keep_to_their_limit_and_are_few(sizes: list[int]) -> None:
    one, other = _pipe()
    one.send([bytes(size) for size in sizes])
    packets: list[list[int]] = []
    while one.congested or (not packets or packets[-1]):
        one.flush()
        packets.append([len(message) for message in other.receive_plain() or []])
    carried = [[size + 5 for size in packet] for packet in packets]
    assert [size - 5 for packet in carried for size in packet] == sizes
    assert all(sum(packet) <= PACKET_BYTES_MAX for packet in carried)
    # Halving splits only what is too heavy: at most once a level for each packet's worth of bytes.
    least = math.ceil(sum(map(sum, carried)) / PACKET_BYTES_MAX) or 1
    assert len([packet for packet in carried if packet]) <= least * (2 + math.log2(len(sizes) + 1))
    one.close()
    other.close()


def test_descriptors_arrive_once_with_their_message_and_are_closed_here(pipe: Pipe) -> None:
    one, other = pipe
    reads, writes = os.pipe()
    inodes = [_inode(reads), _inode(writes)]
    one.send([b"take these"], (reads, writes))
    for fd in (reads, writes):
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)
    messages, fds = other.receive() or ([], [])
    assert messages == [b"take these"]
    assert [_inode(fd) for fd in fds] == inodes
    one.send([b"no more"])
    assert other.receive() == ([b"no more"], [])
    assert other.receive() == ([], [])
    for fd in fds:
        os.close(fd)


def test_descriptors_wait_their_turn_when_the_socket_is_full(pipe: Pipe) -> None:
    one, other = pipe
    while not one.congested:
        one.send([bytes(50_000)])
    before = _open_fds()
    reads, writes = os.pipe()
    inode = _inode(reads)
    os.close(writes)
    one.send([bytes(50_000), b"with it", bytes(50_000)], (reads,))
    got: list[tuple[list[bytes], list[int]]] = []
    while not got or got[-1][0]:
        got.append(other.receive() or ([], []))
        one.flush()
    carrying = [(messages, fds) for messages, fds in got if fds]
    assert len(carrying) == 1
    ((messages, (fd,)),) = carrying
    assert _inode(fd) == inode
    assert messages[0] == bytes(50_000)
    os.close(fd)
    assert _open_fds() == before


def test_closing_closes_what_was_not_sent() -> None:
    before = _open_fds()
    one, other = _pipe()
    while not one.congested:
        one.send([bytes(50_000)])
    reads, writes = os.pipe()
    one.send([b"never"], (reads, writes))
    one.close()
    other.close()
    assert _open_fds() == before


def test_a_peer_that_is_gone_is_told_by_reading_and_never_by_an_exception() -> None:
    before = _open_fds()
    one, other = _pipe()
    one.send([b"last words"])
    one.close()
    assert other.receive_plain() == [b"last words"], "what it had sent is still read"
    assert other.receive() is None
    assert other.receive_plain() is None
    reads, writes = os.pipe()
    other.send([b"into the void"], (reads, writes))
    assert not other.congested
    other.close()
    assert _open_fds() == before


def test_a_peer_that_dies_on_a_full_socket_leaves_nothing_to_wait_for() -> None:
    one, other = _pipe()
    while not one.congested:
        one.send([bytes(50_000)])
    other.close()
    one.flush()
    assert not one.congested
    while one.receive_plain():
        pass
    assert one.receive_plain() is None
    one.close()
