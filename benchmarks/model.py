"""How long a cold `accord model` takes: CPU seconds of the whole process, on every card.

In: the catalog's cards, and the public cards of aiconfigurator-core where it is installed. Out: "cold start", the
slowest card's, and "cold start median". Invariant: nothing heavy is imported, and the process says so itself.
"""

import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from _figures import Figure, write
from accord.edges import model_catalog

REPEATS = 4
SLOWEST = 6
_HEAVY = ("torch", "transformers", "diffusers", "numpy", "aiohttp", "msgspec", "rich", "yaml")
_PROBE = f"""
import sys
from accord.cli.root import run
try:
    run(["model", *sys.argv[1:]])
finally:
    found = [name for name in {_HEAVY} if name in sys.modules]
    assert not found, found
"""


def main() -> None:
    given = dict(cards())
    seconds = {name: cold_start_s(given[name]) for name in given}
    # One pass finds the slow ones; more passes over these tell slow cards from a busy machine.
    slow = sorted(given, key=lambda name: seconds[name], reverse=True)[:SLOWEST]
    for name in slow:
        seconds[name] = statistics.median([seconds[name], *(cold_start_s(given[name]) for _ in range(REPEATS))])
    slowest = max(slow, key=lambda name: seconds[name])
    print(f"  {len(given)} cards; the slowest is {slowest}")
    check_imports(given[slowest])
    write(
        "model",
        [
            Figure(name="cold start", value=seconds[slowest], unit="s", better="lower", bar=0.5),
            Figure(name="cold start median", value=statistics.median(seconds.values()), unit="s", better="lower"),
        ],
    )


def cards() -> Iterator[tuple[str, str]]:
    """Names, and what `accord model` is given for them."""
    yield from ((name, name) for name in model_catalog.names())
    yield from ((path.name, str(path)) for path in public_cards())


def public_cards() -> list[Path]:
    """Files of model cards; none if aiconfigurator-core isn't installed."""
    spec = find_spec("aiconfigurator_core")
    if spec is None or spec.origin is None:
        return []
    paths = (Path(spec.origin).parent / "model_configs").glob("*_config.json")
    return sorted(path for path in paths if not path.name.endswith("hf_quant_config.json"))


def cold_start_s(given: str) -> float:
    """User and system time of one process, from its start to its end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "accord", "model", given], capture_output=True, check=False, env=environment()
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise RuntimeError(f"{given}: {done.stderr.decode()}")
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def check_imports(given: str) -> None:
    """The process ends well only if it imported nothing heavy."""
    subprocess.run([sys.executable, "-c", _PROBE, given, "--json"], stdout=subprocess.DEVNULL, check=True)


def environment() -> dict[str, str]:
    return {**os.environ, "COLUMNS": "100"}


if __name__ == "__main__":
    main()
