"""A replica's page: its times add up to its life, at every moment and whoever reads it meanwhile."""

import mmap
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.run.attribution import ACTIVITIES, IDLE, Meter, Page

# A child that changes its activity as fast as it can, with a longer stretch now and then.
RESTLESS = """
import sys, time
from accord.run.attribution import Meter
meter, until = Meter(int(sys.argv[1])), time.monotonic() + 1.5
print("began", flush=True)
number = 0
while time.monotonic() < until:
    number += 1
    meter.enter(number % 5)
    if number % 50 == 0:
        time.sleep(0.002)
"""

# A child that is inside one long step, of which it will not come out by itself.
STUCK = """
import sys, time
from accord.run.attribution import BUSY, Meter
meter = Meter(int(sys.argv[1]))
meter.enter(BUSY)
print("inside", flush=True)
time.sleep(60)
"""


@pytest.fixture
def page_fd() -> Iterator[int]:
    fd = os.memfd_create("page")
    os.ftruncate(fd, mmap.PAGESIZE)
    yield fd
    os.close(fd)


def _child(program: str, fd: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", program, str(fd)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, pass_fds=(fd,))


@given(st.lists(st.integers(0, 4), max_size=30))
def test_the_times_add_up_to_the_life(activities: list[int]) -> None:
    fd = os.memfd_create("page")
    os.ftruncate(fd, mmap.PAGESIZE)
    before = time.monotonic_ns()
    meter, page = Meter(fd), Page(fd)
    born = page.read().since_ns
    assert before <= born
    now = IDLE
    for activity in activities:
        meter.enter(activity)
        now = activity
        earliest = time.monotonic_ns()
        reading = page.read()
        latest = time.monotonic_ns()
        assert reading.activity is ACTIVITIES[now]
        assert earliest - born <= sum(reading.time_ns) <= latest - born
    os.close(fd)


def test_a_page_that_nobody_has_written_reads_as_nothing(page_fd: int) -> None:
    reading = Page(page_fd).read()
    assert sum(reading.time_ns) == reading.since_ns == reading.active == reading.served == 0


def test_counts_are_published(page_fd: int) -> None:
    meter = Meter(page_fd)
    meter.count(active=3, served=70_000, arena_used_bytes=1 << 40)
    reading = Page(page_fd).read()
    assert (reading.active, reading.served, reading.arena_used_bytes) == (3, 70_000, 1 << 40)


def test_no_reading_is_torn_by_a_change_in_the_middle_of_it(page_fd: int) -> None:
    """Each reading dates the birth, to within the time that it took. All must leave room for one truth."""
    page = Page(page_fd)
    with _child(RESTLESS, page_fd) as child:
        assert child.stdout.readline() == "began\n"
        earliest, latest, readings = 0, 1 << 62, 0
        while child.poll() is None:
            before = time.monotonic_ns()
            lived = sum(page.read().time_ns)
            after = time.monotonic_ns()
            earliest, latest, readings = max(earliest, before - lived), min(latest, after - lived), readings + 1
            assert earliest <= latest, f"reading {readings} is off by {earliest - latest} ns"
    assert readings > 1000


def test_a_long_step_is_seen_while_it_lasts_and_a_death_in_it_too(page_fd: int) -> None:
    page = Page(page_fd)
    with _child(STUCK, page_fd) as child:
        assert child.stdout.readline() == "inside\n"
        first, second = page.read(), page.read()
        assert first.activity.value == "busy"
        assert 0 < first.time_ns[0] < second.time_ns[0]
        assert first.time_ns[1:] == second.time_ns[1:]
        child.kill()
    assert page.read().activity.value == "busy"


def test_a_replica_that_is_stopped_in_the_middle_of_a_change_keeps_its_date(page_fd: int) -> None:
    """The supervisor ends replicas that are busy for too long: a reading may be off, but never undated."""
    meter = Meter(page_fd)
    changed = meter.enter(0)
    with mmap.mmap(page_fd, mmap.PAGESIZE) as raw, memoryview(raw) as view, view.cast("Q") as words:
        words[10] += 1
        reading = Page(page_fd).read()
    assert (reading.activity.value, reading.since_ns) == ("busy", changed)


def test_short_stretches_and_idle_ones_are_counted_but_not_drawn(page_fd: int) -> None:
    meter = Meter(page_fd)
    for number in range(2000):
        meter.enter(number % 4)
    meter.enter(IDLE)
    long = [span for span in meter.spans if span.length_ns < 50_000 or span.activity == IDLE]
    assert not long
    starts = [span.start_ns for span in meter.spans]
    assert starts == sorted(starts)
