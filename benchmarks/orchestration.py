"""What the whole protocol costs: three no-op stages in three processes, and a door.

Requests a second with 64 under way, the time of one alone, and what a service that is asked nothing uses of a core.
The reference of the same run is three bare processes that pass one packet on: what no router could be below.
Figures are medians of blocks; the best block and the processor time of each process are reported too.
"""

import asyncio
import os
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from _figures import Figure, write
from _processes import Ring, cpu_s, ring
from accord.cli.live import run_to_end
from accord.run.runtime import Runtime
from accord.terms.plan import Plan
from accord.terms.request import Done, Part, Request

UNDER_WAY = 64
BLOCKS = 5
REQUESTS = 6400
ALONE = 600
WARM_UP = 1000
IDLE_S = 12.0
BARE = "bare sockets"
REQUEST = Request(parts=(Part(edge="in", data=b"hello"),), outputs=frozenset({"out"}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One of both, ours or the bare ring: blocks of requests a second, and of medians of one alone in s."""

    rates: tuple[float, ...]
    alone_s: tuple[float, ...]


def main() -> None:
    """Measures both in turn, and ours at rest."""
    sys.path.insert(0, str(Path(__file__).parents[1]))  # the fake stages are the tests' own
    from tests.fake_plans import chain_plan

    with ring() as bare:
        figures = run_to_end(_measure(chain_plan(), bare))
    write("orchestration", figures)


async def _measure(plan: Plan, bare: Ring) -> list[Figure]:
    async with Runtime(plan, assets={}) as runtime:
        await _alone_s(runtime, WARM_UP)
        rates, alone, bare_rates, bare_alone = [], [], [], []
        spent_s = _spent_s(runtime)
        for _ in range(BLOCKS):
            rates.append(await _throughput(runtime, REQUESTS))
            bare_rates.append(bare.throughput(REQUESTS, under_way=UNDER_WAY))
        spent_us = [1e6 * s / (BLOCKS * REQUESTS) for s in _difference(spent_s, _spent_s(runtime))]
        for _ in range(BLOCKS):
            alone.append(statistics.median(await _alone_s(runtime, ALONE)))
            bare_alone.append(statistics.median(bare.latency_s(ALONE)))
        idle = await _idle_percent(runtime)
    ours = Measured(rates=tuple(rates), alone_s=tuple(alone))
    theirs = Measured(rates=tuple(bare_rates), alone_s=tuple(bare_alone))
    return _figures(ours, theirs, idle_percent=idle, spent_us=spent_us)


async def _throughput(runtime: Runtime, count: int) -> float:
    async def client() -> None:
        for _ in range(count // UNDER_WAY):
            await _one(runtime)

    began_s = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(UNDER_WAY)))
    return count / (time.perf_counter() - began_s)


async def _alone_s(runtime: Runtime, count: int) -> list[float]:
    times = []
    for _ in range(count):
        began_s = time.perf_counter()
        await _one(runtime)
        times.append(time.perf_counter() - began_s)
    return times


async def _one(runtime: Runtime) -> None:
    ticket = await runtime.submit(REQUEST)
    events = [event async for event in ticket]
    if not isinstance(events[-1], Done):
        raise RuntimeError(f"a request ended with {events[-1]}")


async def _idle_percent(runtime: Runtime) -> float:
    await asyncio.sleep(1.0)
    before, began_s = sum(_spent_s(runtime)), time.monotonic()
    await asyncio.sleep(IDLE_S)
    return 100 * (sum(_spent_s(runtime)) - before) / (time.monotonic() - began_s)


def _spent_s(runtime: Runtime) -> list[float]:
    """Processor time of the door and of each replica."""
    return [cpu_s(pid) for pid in (os.getpid(), *(replica.pid for replica in runtime.status().replicas))]


def _difference(before: Sequence[float], after: Sequence[float]) -> list[float]:
    return [later - earlier for earlier, later in zip(before, after, strict=True)]


def _figures(ours: Measured, bare: Measured, *, idle_percent: float, spent_us: Sequence[float]) -> list[Figure]:
    rate, bare_rate = statistics.median(ours.rates), statistics.median(bare.rates)
    alone_ms, bare_ms = 1e3 * statistics.median(ours.alone_s), 1e3 * statistics.median(bare.alone_s)
    return [
        Figure(
            name="throughput", value=rate, unit="req/s", better="higher", bar=10_000, peer=BARE, peer_value=bare_rate
        ),
        Figure(name="throughput, best block", value=max(ours.rates), unit="req/s", better="higher"),
        Figure(name="throughput ratio", value=rate / bare_rate, unit="x", better="higher"),
        Figure(name="latency", value=alone_ms, unit="ms", better="lower", bar=0.3, peer=BARE, peer_value=bare_ms),
        Figure(name="latency, best block", value=1e3 * min(ours.alone_s), unit="ms", better="lower"),
        Figure(name="latency ratio", value=alone_ms / bare_ms, unit="x", better="lower"),
        Figure(name="idle cpu", value=idle_percent, unit="% of a core", better="lower", bar=0.5),
        *(
            Figure(name=f"cpu a request, {name}", value=spent, unit="us", better="lower")
            for name, spent in zip(("door", "first", "second", "third"), spent_us, strict=True)
        ),
    ]


if __name__ == "__main__":
    main()
