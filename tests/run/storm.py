"""A drill for a whole runtime on fake stages: aborts, kills, stalls, slow clients. A seed gives every choice.

In: a `Drill`. Out: its `Outcome`, or an AssertionError that names the seed. Invariant: what a request is told
is checked against what the fakes must answer, computed here from its input alone.
"""

import asyncio
import gc
import os
import random
import signal
import time
import zlib
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from mmap import PAGESIZE

from accord.run.runtime import Runtime
from accord.terms.errors import Overloaded
from accord.terms.plan import AdmissionLimits, Plan
from accord.terms.request import Done, ErrorCode, Failed, Output, Params, Part, Request
from accord.terms.status import Health
from tests.fake_plans import chain_plan
from tests.run.drive import at_rest, until

BLOCKS, BLOCK_BYTES = 4, 24_576
REPLICAS = 4
UNDER_WAY = 48
CALM = 256
LIMIT_S = 60.0
FREEZE_S = 0.25
COME_BACK_S = 0.1
TRIES_MAX = 200


class Manner(StrEnum):
    """How a client, or its request, behaves."""

    READS = "reads"
    SLOW = "slow"  # pauses between chunks
    STALLS = "stalls"  # stops reading for a while, then goes on
    LEAVES = "leaves"  # cancels after some chunks
    LEAVES_EARLY = "leaves early"  # gives up while it may still be waiting to be accepted
    HURRIES = "hurries"  # has a deadline that may be too short
    NEVER_READS = "never reads"  # takes nothing until its deadline has passed
    FAILS = "fails"  # the engine fails it
    BAD_INPUT = "bad input"  # the engine can't read it
    CRASHES = "crashes"  # takes a replica with it


_SHARES = {
    Manner.READS: 600, Manner.SLOW: 80, Manner.STALLS: 40, Manner.LEAVES: 120, Manner.LEAVES_EARLY: 40,
    Manner.HURRIES: 40, Manner.NEVER_READS: 20, Manner.FAILS: 30, Manner.BAD_INPUT: 30,
}  # fmt: skip
_COMMANDS = {Manner.FAILS: b"!fail ", Manner.BAD_INPUT: b"!bad_input ", Manner.CRASHES: b"!crash "}
_CODES = {
    Manner.FAILS: ErrorCode.ENGINE,
    Manner.BAD_INPUT: ErrorCode.BAD_INPUT,
}
# What may come over any request while replicas are killed.
_FATE = {ErrorCode.REPLICA_LOST, ErrorCode.DEADLINE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """One request and what its client does."""

    manner: Manner
    data: bytes
    after: int
    pause_s: float
    deadline_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Drill:
    """How much, and what is done to the replicas. Memory is compared from after `warm_up` requests on."""

    seed: int
    requests: int
    warm_up: int
    kills: int
    freezes: int
    crashes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """`endings` counts requests; the memory is that of the door and all replicas, at rest."""

    endings: tuple[tuple[str, int], ...]
    restarts: int
    replayed: int
    memory_before_bytes: int
    memory_after_bytes: int
    arena_left_bytes: int
    elapsed_s: float


def plan() -> Plan:
    """Blocks through the arenas of three stages, two replicas in the middle, and a queue that fills."""
    limits = AdmissionLimits(active_max=32, queue_max=32, queue_s_max=20.0)
    first = {"mode": "chunks", "tokens": str(BLOCKS), "chunk_bytes": str(BLOCK_BYTES), "out": "text"}
    return chain_plan(
        options={"first": {**first, "commands": "true"}, "second": {"mode": "echo"}},
        replicas={"second": 2},
        window_bytes=1 << 16,
        admission=limits,
    )


async def run(drill: Drill) -> Outcome:
    """The whole drill: warm-up, rest, storm, rest."""
    began_s = time.monotonic()
    async with Runtime(plan(), assets={}) as runtime:
        storm = _Storm(runtime, drill)
        await storm.blow(0, drill.warm_up)
        before = await storm.calm()
        await storm.blow(drill.warm_up, drill.requests)
        after = await storm.calm()
        return storm.outcome(before, after, time.monotonic() - began_s)


class _Storm:
    def __init__(self, runtime: Runtime, drill: Drill) -> None:
        self._runtime = runtime
        self._drill = drill
        chance = random.Random(drill.seed)
        self._scripts = [_script(chance, number) for number in range(drill.requests)]
        for number in chance.sample(range(drill.requests), drill.crashes):
            self._scripts[number] = _script(chance, number, Manner.CRASHES)
        blows = chance.sample(range(drill.requests), drill.kills + drill.freezes)
        self._blows = {
            number: signal.SIGKILL if at < drill.kills else signal.SIGSTOP for at, number in enumerate(blows)
        }
        self._turn = chance.randrange(REPLICAS)
        self._endings: Counter[str] = Counter()
        self._restarts: dict[tuple[str, int], int] = {}
        self._submitted = 0

    async def blow(self, first: int, end: int) -> None:
        """Sends the requests of these numbers, so many at once, and strikes replicas meanwhile."""
        numbers = iter(range(first, end))

        async def client() -> None:
            for number in numbers:
                if number in self._blows:
                    self._strike(self._blows[number])
                self._endings[await self._one(number, self._scripts[number])] += 1

        await asyncio.gather(*(client() for _ in range(UNDER_WAY)))

    async def calm(self) -> int:
        """Waits until all is at rest and whole again, warms new replicas, and gives the memory held then."""
        await self._rest()
        chance = random.Random(0)
        for _ in range(CALM // 16):
            scripts = [_script(chance, number, Manner.READS) for number in range(16)]
            endings = await asyncio.gather(*(self._one(-1, script) for script in scripts))
            assert set(endings) == {"done"}, self._say(f"calm requests ended as {endings}")
        await self._rest()
        gc.collect()
        return _resident_bytes() + sum(item.memory_bytes for item in self._runtime.status().replicas)

    def outcome(self, before: int, after: int, elapsed_s: float) -> Outcome:
        """What came of it. The service's own count must agree."""
        status = self._runtime.status()
        totals = status.totals
        assert sum(self._endings.values()) == self._drill.requests
        told = totals.done + totals.failed + totals.cancelled + totals.refused
        assert told == totals.submitted == self._submitted, self._say(f"{totals}")
        return Outcome(
            endings=tuple(sorted(self._endings.items())),
            restarts=sum(item.restarts for item in status.replicas),
            replayed=totals.replayed,
            memory_before_bytes=before,
            memory_after_bytes=after,
            arena_left_bytes=self._runtime.door_used_bytes + sum(item.arena_used_bytes for item in status.replicas),
            elapsed_s=elapsed_s,
        )

    async def _one(self, number: int, script: Script) -> str:
        try:
            async with asyncio.timeout(LIMIT_S):
                for _ in range(TRIES_MAX):
                    self._submitted += 1
                    try:
                        chunks, end = await _Client(self._runtime, script).run()
                    except Overloaded:
                        await asyncio.sleep(COME_BACK_S)  # sooner than it was told, so that the drill stays short
                    else:
                        return self._judge(number, script, chunks, end)
        except TimeoutError:
            raise AssertionError(self._say(f"request {number} ({script.manner}) has no end")) from None
        return "refused"

    def _judge(self, number: int, script: Script, chunks: list[bytes], end: Done | Failed | None) -> str:
        words = self._say(f"request {number} ({script.manner}) after {len(chunks)} chunks: {end}")
        block = (zlib.crc32(script.data).to_bytes(4, "little") * BLOCK_BYTES)[:BLOCK_BYTES]
        assert all(chunk == block for chunk in chunks), words
        match end:
            case None:
                return "cancelled"
            case Done():
                assert len(chunks) == BLOCKS, words
                return "done"
            case Failed(code=ErrorCode.CANCELLED):
                assert script.manner in (Manner.LEAVES, Manner.LEAVES_EARLY), words
                return "cancelled"
            case Failed(code=code):
                assert code in _FATE | {_CODES.get(script.manner)}, words
                return "error"

    async def _rest(self) -> None:
        def rested() -> bool:
            replicas = self._runtime.status().replicas
            whole = len(replicas) == REPLICAS and all(item.health is Health.READY for item in replicas)
            return whole and at_rest(self._runtime)

        try:
            await until(rested, limit_s=LIMIT_S)
        except TimeoutError:
            raise AssertionError(self._say(f"no rest: {self._runtime.status()}")) from None

    def _strike(self, blow: signal.Signals) -> None:
        replicas = [item for item in self._runtime.status().replicas if item.health is Health.READY]
        if not replicas:
            return
        self._turn += 1
        pid = replicas[self._turn % len(replicas)].pid
        os.kill(pid, blow)
        if blow is signal.SIGSTOP:
            asyncio.get_running_loop().call_later(FREEZE_S, self._thaw, pid)

    def _thaw(self, pid: int) -> None:
        if any(item.pid == pid for item in self._runtime.status().replicas):
            os.kill(pid, signal.SIGCONT)

    def _say(self, words: str) -> str:
        return f"seed {self._drill.seed}: {words}"


class _Client:
    """One client; `run` gives the chunks and the end, None if it left before it was accepted."""

    def __init__(self, runtime: Runtime, script: Script) -> None:
        self._runtime = runtime
        self._script = script

    async def run(self) -> tuple[list[bytes], Done | Failed | None]:
        """From submission to the end."""
        script = self._script
        request = Request(
            parts=(Part(edge="in", data=script.data),),
            outputs=frozenset({"out"}),
            params=Params(),
            deadline_s=script.deadline_s,
        )
        try:
            async with asyncio.timeout(script.pause_s if script.manner is Manner.LEAVES_EARLY else None):
                ticket = await self._runtime.submit(request)
        except TimeoutError:
            return [], None
        if script.manner is Manner.LEAVES_EARLY:
            ticket.cancel()
        if script.manner is Manner.NEVER_READS:
            await asyncio.sleep(script.deadline_s + 0.05)
        chunks: list[bytes] = []
        async for event in ticket:
            if not isinstance(event, Output):
                return chunks, event
            chunks.append(event.data)
            if script.manner is Manner.SLOW or (script.manner is Manner.STALLS and len(chunks) == script.after):
                await asyncio.sleep(script.pause_s)
            if script.manner is Manner.LEAVES and len(chunks) == script.after:
                ticket.cancel()
        raise AssertionError("a ticket ended without an end")


def _script(chance: random.Random, number: int, manner: Manner | None = None) -> Script:
    drawn = chance.choices(tuple(_SHARES), tuple(_SHARES.values()))[0]
    manner = manner or drawn
    pause_s = {Manner.SLOW: 0.01, Manner.STALLS: 0.5, Manner.LEAVES_EARLY: 0.02}.get(manner, 0.0)
    hurried = manner in (Manner.HURRIES, Manner.NEVER_READS)
    filler = chance.randbytes(chance.choice((8, 200, 20_000)))
    return Script(
        manner=manner,
        data=_COMMANDS.get(manner, b"") + f"{number} ".encode() + filler,
        after=chance.randint(1, BLOCKS),
        pause_s=pause_s * chance.uniform(0.5, 2.0),
        deadline_s=chance.uniform(0.02, 0.4) if hurried else 50.0,
    )


def _resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as statm:
        _, resident, shared, *_ = statm.read().split()
    return (int(resident) - int(shared)) * PAGESIZE
