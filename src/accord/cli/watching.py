"""A search that a person watches and may stop.

In: how far a search is. Out: a line on the terminal, and whether to go on. Invariant: the first Ctrl-C ends the search
with the best so far, the second ends the command; on a pipe nothing is drawn.
"""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from rich.console import Console
from rich.status import Status

from accord.plan.fleet.choose import Progress

_SHOWN_AFTER_S = 1.0


@dataclass(slots=True, kw_only=True)
class Watching:
    """Tells a search whether to go on, and a person how far it is."""

    out: Console
    since_s: float
    stopped: bool = False
    line: Status | None = None

    def __call__(self, progress: Progress) -> bool:
        """False once somebody has pressed Ctrl-C."""
        if self.out.is_terminal and time.monotonic() - self.since_s > _SHOWN_AFTER_S:
            if self.line is None:
                self.line = self.out.status("")
                self.line.start()
            self.line.update(_words(progress))
        return not self.stopped

    def stop(self, _signum: int, _frame: FrameType | None) -> None:
        """What Ctrl-C does."""
        if self.stopped:
            raise KeyboardInterrupt
        self.stopped = True


@contextmanager
def watching(out: Console) -> Iterator[Watching]:
    """Ctrl-C asks the search to end while this is open."""
    watch = Watching(out=out, since_s=time.monotonic())
    before = signal.signal(signal.SIGINT, watch.stop)
    try:
        yield watch
    finally:
        signal.signal(signal.SIGINT, before)
        if watch.line is not None:
            watch.line.stop()


def _words(progress: Progress) -> str:
    best = f" · best {progress.cost:,.4g} an hour" if progress.cost < float("inf") else ""
    return f"{progress.step} {progress.done}/{progress.of}{best} · Ctrl-C takes the best"
