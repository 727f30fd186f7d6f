"""Admission: never more than its bounds, first come first served, and no place is lost whoever gives up when."""

import asyncio
import random
from collections import deque
from dataclasses import dataclass, field

import pytest

from accord.run.admission import Admission
from accord.terms.errors import BadInput, Overloaded
from accord.terms.plan import AdmissionLimits

LIMITS = AdmissionLimits(active_max=3, queue_max=8, queue_s_max=30.0, inflight_bytes_max=1000)


def _admission(limits: AdmissionLimits = LIMITS) -> Admission:
    return Admission(limits, asyncio.get_running_loop().time)


async def _settle() -> None:
    """Lets everybody run who can."""
    for _ in range(5):
        await asyncio.sleep(0)


@dataclass
class Crowd:
    """Clients that come, leave and give up, and the books that a plain reading of the rules keeps of them."""

    admission: Admission
    limits: AdmissionLimits
    inside: dict[int, int] = field(default_factory=dict)
    waiting: deque[tuple[int, int]] = field(default_factory=deque)
    tasks: dict[int, "asyncio.Task[None]"] = field(default_factory=dict)
    entered: list[int] = field(default_factory=list)
    expected: list[int] = field(default_factory=list)
    refused: int = 0
    count: int = 0

    async def come(self, size: int) -> None:
        self.count += 1
        number = self.count
        full = len(self.waiting) >= self.limits.queue_max
        if not self.waiting and self._room(size):
            self._let_in(number, size)
        elif not full:
            self.waiting.append((number, size))
        self.tasks[number] = asyncio.create_task(self._enter(number, size, refusable=full))
        await asyncio.sleep(0)

    def leave(self, number: int) -> None:
        self.admission.leave(self.inside.pop(number), 0.001)
        self._advance()

    def give_up(self, number: int) -> None:
        """A client goes away while it waits, perhaps in the moment in which its turn comes."""
        self.tasks.pop(number).cancel()
        self.waiting = deque(entry for entry in self.waiting if entry[0] != number)

    async def check(self) -> None:
        await _settle()
        self._advance()
        await _settle()
        assert self.admission.active == len(self.inside) <= self.limits.active_max
        assert self.admission.inflight_bytes == sum(self.inside.values()) <= self.limits.inflight_bytes_max
        assert self.admission.queued == len(self.waiting)
        assert self.entered == self.expected, "first come, first served"

    async def _enter(self, number: int, size: int, *, refusable: bool) -> None:
        try:
            await self.admission.enter(size)
        except Overloaded as error:
            assert refusable
            assert error.retry_after_s >= 1
            assert error.serving
            self.refused += 1
        else:
            self.entered.append(number)

    def _room(self, size: int) -> bool:
        used = sum(self.inside.values())
        return len(self.inside) < self.limits.active_max and used + size <= self.limits.inflight_bytes_max

    def _let_in(self, number: int, size: int) -> None:
        self.inside[number] = size
        self.expected.append(number)

    def _advance(self) -> None:
        while self.waiting and self._room(self.waiting[0][1]):
            self._let_in(*self.waiting.popleft())


@pytest.mark.parametrize("seed", range(30))
async def test_bounds_and_order_hold_in_any_crowd(seed: int) -> None:
    dice = random.Random(seed)
    crowd = Crowd(_admission(), LIMITS)
    for _ in range(150):
        match dice.randrange(4):
            case 0 | 1:
                await crowd.come(dice.choice((0, 1, 300, 500, 1000)))
            case 2 if crowd.inside:
                crowd.leave(dice.choice(sorted(crowd.inside)))
            case 3 if crowd.waiting:
                crowd.give_up(dice.choice([number for number, _ in crowd.waiting]))
        await crowd.check()
    while crowd.inside:
        crowd.leave(min(crowd.inside))
        await crowd.check()
    assert not crowd.waiting
    await asyncio.gather(*crowd.tasks.values())


@pytest.mark.parametrize("seed", range(30))
async def test_no_place_is_lost_in_a_storm_of_cancellations(seed: int) -> None:
    """Clients give up in the same turn of the loop in which others leave: who is let in may be gone already."""
    dice = random.Random(seed)
    admission = _admission()
    inside = 0

    async def client() -> None:
        nonlocal inside
        try:
            await admission.enter(100)
        except Overloaded:
            return
        inside += 1
        assert inside <= LIMITS.active_max
        try:
            for _ in range(dice.randrange(4)):
                await asyncio.sleep(0)
        finally:
            inside -= 1
            admission.leave(100, 0.001)

    tasks: list[asyncio.Task[None]] = []
    for _ in range(300):
        tasks.append(asyncio.create_task(client()))
        if dice.random() < 0.5:
            dice.choice(tasks).cancel()
        if dice.random() < 0.7:
            await asyncio.sleep(0)
    await asyncio.gather(*tasks, return_exceptions=True)
    assert (admission.active, admission.inflight_bytes, admission.queued) == (0, 0, 0)
    for _ in range(LIMITS.active_max):
        async with asyncio.timeout(5):
            await admission.enter(1)
    assert admission.active == LIMITS.active_max


async def test_a_wait_that_is_too_long_is_refused_with_the_time_to_return() -> None:
    admission = _admission(AdmissionLimits(active_max=1, queue_max=8, queue_s_max=3.0))
    await admission.enter(0)
    admission.leave(0, 2.0)  # a request takes two seconds
    await admission.enter(0)
    waits = asyncio.create_task(admission.enter(0))
    await _settle()
    assert admission.queued == 1
    with pytest.raises(Overloaded, match=r"the expected wait is 4\.0 s") as refused:
        await admission.enter(0)
    assert refused.value.retry_after_s == 4.0
    admission.leave(0, 2.0)
    await waits


async def test_who_waits_past_the_limit_is_refused_and_holds_no_place() -> None:
    admission = _admission(AdmissionLimits(active_max=1, queue_max=8, queue_s_max=0.01))
    await admission.enter(0)
    with pytest.raises(Overloaded, match="waited") as refused:
        await admission.enter(0)
    assert refused.value.retry_after_s >= 1
    assert (admission.active, admission.queued) == (1, 0)


async def test_a_large_request_holds_its_place_and_frees_it_by_giving_up() -> None:
    """The head of the queue isn't overtaken by smaller ones; when it goes, they come in at once."""
    admission = _admission()
    await admission.enter(600)
    large = asyncio.create_task(admission.enter(900))
    await _settle()
    small = asyncio.create_task(admission.enter(10))
    await _settle()
    assert not small.done()
    large.cancel()
    async with asyncio.timeout(5):
        await small
    assert admission.inflight_bytes == 610


async def test_what_can_never_fit_is_bad_input() -> None:
    with pytest.raises(BadInput, match="at most 1000 bytes"):
        await _admission().enter(1001)
