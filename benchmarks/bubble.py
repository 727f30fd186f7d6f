"""How much of its time the slowest stage of the embedded model works while more is asked than it can do.

As many clients as the plan accepts ask without a pause, first by text, then by voice with a spoken answer. Over a
steady stretch the bottleneck's time is split as the service itself reports it; the bubble is what it lost to
waiting for input, for credit, and to moving data while work was there.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from _embedded import planned, service, text_request
from _figures import Figure, write
from accord.cli.demo import spoken_request
from accord.cli.flow import Prepared
from accord.cli.live import run_to_end
from accord.edges.profile_samples import question
from accord.operate import Bottleneck, ask, bottleneck, time_between
from accord.run.runtime import Runtime
from accord.terms.plan import Plan
from accord.terms.request import Request

SETTLE_S = 5.0
MEASURE_S = 20.0
TOKENS = 96
TOPICS = ("rivers", "bread", "the moon", "bicycles", "winter", "maps", "bees", "clocks", "paper", "harbours")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A steady stretch at saturation. `idle` is the share in which the bottleneck had no request at all."""

    slowest: Bottleneck
    tokens_per_s: float
    requests: int


def main() -> None:
    """Measures both crowds on one service."""
    prepared, plan = planned()
    write("bubble", run_to_end(_measure(prepared, plan)))


async def _measure(prepared: Prepared, plan: Plan) -> list[Figure]:
    sound = question()
    async with service(prepared, plan) as runtime:
        typed = await _stretch(runtime, plan.admission.active_max, lambda n: text_request(_words(n), max_tokens=TOKENS))
        await runtime.settled()
        spoken = await _stretch(runtime, plan.admission.active_max, lambda _: spoken_request(plan.graph, sound))
    return [
        Figure(name="busy", value=100 * typed.slowest.busy, unit="%", better="higher", bar=95),
        *_details("text", typed),
        Figure(name="voice: busy", value=100 * spoken.slowest.busy, unit="%", better="higher", bar=95),
        *_details("voice", spoken),
    ]


async def _stretch(runtime: Runtime, clients: int, request: Callable[[int], Request]) -> Stretch:
    ended: list[tuple[float, int]] = []

    async def client(number: int) -> None:
        while True:
            answer = await ask(runtime, request(number + clients * len(ended)), hear=lambda _: None)
            ended.append((time.monotonic(), answer.usage.completion_tokens))

    crowd = [asyncio.create_task(client(number)) for number in range(clients)]
    try:
        await _while_all(crowd, asyncio.sleep(SETTLE_S))
        before, began_s = runtime.status(), time.monotonic()
        await _while_all(crowd, asyncio.sleep(MEASURE_S))
        after, end_s = runtime.status(), time.monotonic()
    finally:
        for task in crowd:
            task.cancel()
        await asyncio.gather(*crowd, return_exceptions=True)
    counted = [tokens for at_s, tokens in ended if began_s < at_s <= end_s]
    return Stretch(
        slowest=bottleneck(time_between(before, after)),
        tokens_per_s=sum(counted) / (end_s - began_s),
        requests=len(counted),
    )


async def _while_all(crowd: list[asyncio.Task[None]], wait: Awaitable[None]) -> None:
    """Waits; a client that fails meanwhile ends the measurement."""
    pause = asyncio.ensure_future(wait)
    done, _ = await asyncio.wait([*crowd, pause], return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


def _details(crowd: str, stretch: Stretch) -> list[Figure]:
    slowest = stretch.slowest
    shares = (("starved", slowest.starved), ("blocked", slowest.blocked), ("transferring", slowest.transferring))
    return [
        Figure(name=f"{crowd}: bubble of {slowest.stage}", value=100 * slowest.bubble, unit="%", better="lower"),
        *(Figure(name=f"{crowd}: {name}", value=100 * share, unit="%", better="lower") for name, share in shares),
        Figure(name=f"{crowd}: tokens", value=stretch.tokens_per_s, unit="tokens/s", better="higher"),
        Figure(name=f"{crowd}: answers", value=stretch.requests, unit="requests", better="higher"),
    ]


def _words(number: int) -> str:
    return f"Question {number}: tell me something about {TOPICS[number % len(TOPICS)]}, in several sentences."


if __name__ == "__main__":
    main()
