"""Starts a plan's runtime on this machine, and says how far it is.

In: a `Prepared` intent and its `Plan`. Out: a running `Runtime` inside the block.
Invariant: the one place of the command line that makes a runtime; when the block ends, nothing is left.
"""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import TypeVar

from rich.console import Console

from accord.cli.ending import Terminated
from accord.cli.flow import Prepared
from accord.edges.engine_options import engine_options
from accord.run.runtime import Runtime
from accord.terms import units
from accord.terms.plan import Plan

T = TypeVar("T")
Progress = Callable[[str, float], None]


@asynccontextmanager
async def running(prepared: Prepared, plan: Plan, out: Console) -> AsyncIterator[Runtime]:
    """The plan, running. BrokenEdge if a stage can't be started."""
    began = time.monotonic()
    waiting = [item.stage for item in plan.stages for _ in range(item.replicas)]
    with out.status(_starting(waiting)) as line:

        def progress(stage: str, _load_s: float) -> None:
            waiting.remove(stage)
            line.update(_starting(waiting))

        async with _runtime(prepared, plan, progress) as runtime:
            line.stop()
            out.print(f"  Starting …  ready in {units.format_duration_s(time.monotonic() - began, digits=3)}")
            yield runtime


def run_to_end(work: Coroutine[None, None, T]) -> T:
    """Runs `work`; an interrupt or a polite request to end cancels it, waits for its cleaning up, and raises."""

    async def guarded() -> T:
        task = asyncio.current_task()
        ended = False

        def end() -> None:
            nonlocal ended
            ended = True
            if task is not None:
                task.cancel()

        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end)
        try:
            return await work
        except asyncio.CancelledError:
            if ended:
                raise Terminated from None
            raise
        finally:
            asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)

    return asyncio.run(guarded())


def _runtime(prepared: Prepared, plan: Plan, progress: Progress) -> Runtime:
    return Runtime(
        plan,
        assets={name: str(folder) for name, folder in prepared.assets.items()},
        options={item.stage: dict(engine_options(item.engine, home=prepared.home)) for item in plan.stages},
        progress=progress,
    )


def _starting(waiting: list[str]) -> str:
    return f"  Starting …  {' · '.join(dict.fromkeys(waiting))}"
