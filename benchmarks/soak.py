"""10,000 requests through fake stages in a storm: aborts, kill -9, frozen and crashed replicas, stalls, slow clients.

Every request must end as done, cancelled or error, with the right bytes; what the door and the replicas hold in
memory, and what is on loan in their arenas, must return to where it was after the first part of the storm.
The storm is that of tests/run/storm.py; `--seed` repeats one.
"""

import argparse
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from _figures import Figure, write
from accord.cli.live import run_to_end

if TYPE_CHECKING:
    from tests.run.storm import Outcome

REQUESTS, WARM_UP = 10_000, 3_000
KILLS, FREEZES, CRASHES = 12, 16, 1
GROWTH_BYTES_MAX = 2048.0  # a request: room for the allocator's scatter over five processes, not for a leak


def main() -> None:
    """One storm of a fresh seed, or of the one named."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    arguments.add_argument("--requests", type=int, default=REQUESTS)
    given = arguments.parse_args()
    sys.path.insert(0, str(Path(__file__).parents[1]))  # the storm is the tests' own
    from tests.run.storm import Drill, run

    print(f"  seed {given.seed}", flush=True)
    drill = Drill(
        seed=given.seed,
        requests=given.requests,
        warm_up=given.requests * WARM_UP // REQUESTS,
        kills=KILLS,
        freezes=FREEZES,
        crashes=CRASHES,
    )
    outcome = run_to_end(run(drill))
    write("soak", _figures(outcome, given.requests, given.requests - drill.warm_up))


def _figures(outcome: "Outcome", requests: int, measured: int) -> list[Figure]:
    endings = dict(outcome.endings)
    ended = sum(endings.get(end, 0) for end in ("done", "cancelled", "error"))
    growth = (outcome.memory_after_bytes - outcome.memory_before_bytes) / measured
    counts = [
        Figure(name=name, value=endings.get(name, 0), unit="requests", better="higher")
        for name in ("done", "cancelled", "error")
    ]
    return [
        Figure(name="ended", value=100 * ended / requests, unit="%", better="higher", bar=100),
        *counts,
        Figure(name="arena left", value=outcome.arena_left_bytes, unit="bytes", better="lower", bar=0),
        Figure(name="memory growth", value=growth, unit="bytes/req", better="lower", bar=GROWTH_BYTES_MAX),
        Figure(name="replicas restarted", value=outcome.restarts, unit="times", better="higher"),
        Figure(name="replayed", value=outcome.replayed, unit="requests", better="higher"),
        Figure(name="elapsed", value=outcome.elapsed_s, unit="s", better="lower"),
    ]


if __name__ == "__main__":
    main()
