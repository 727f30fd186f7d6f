"""NVIDIA's planner aiconfigurator as a peer: what it picks for a case, and what its estimator says of our picks.

In: a `Case`, a plan's pools. Out: its `Pick`, a `Score`, from `aiconfigurator cli` in a process of its own. Invariant:
it runs in the venv that `tools/setup bench` makes (`tools/peers-aiconfigurator.txt`); None where that isn't there.
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

from _measured import Ended, run
from accord.terms.fleet_plan import Pool, Role

COMMAND = Path(sys.prefix) / "peers-aiconfigurator" / "bin" / "aiconfigurator"
NAME = "aiconfigurator 0.12.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A model on `devices` H200, whose requests are all of one size."""

    model: str
    engine: str
    devices: int
    input_tokens: int
    output_tokens: int
    ttft_ms: float
    tpot_ms: float

    @property
    def card(self) -> str:
        """The file of the model's card in the package."""
        return f"{self.model.replace('/', '--')}_config.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """What its search says of the best that it found, and the CPU-seconds of the whole process."""

    rate_rps: float
    cpu_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What its estimator says of one plan."""

    rate_rps: float
    ttft_ms: float
    tpot_ms: float


def installed() -> bool:
    """Whether the venv is there."""
    return COMMAND.is_file()


def pick(case: Case) -> Pick:
    """Its own search, aggregated and disaggregated, with its defaults."""
    ended = run(
        str(COMMAND), "cli", "default", "--model", case.model, "--system", "h200_sxm", "--backend", case.engine,
        "--total-gpus", str(case.devices), "--isl", str(case.input_tokens), "--osl", str(case.output_tokens),
        "--ttft", str(case.ttft_ms), "--tpot", str(case.tpot_ms),
    )  # fmt: skip
    return Pick(rate_rps=_figure(ended, r"Request Rate: ([\d.,]+) req/s"), cpu_s=ended.cpu_s)


def score(case: Case, pools: tuple[Pool, ...]) -> Score:
    """Our plan, its batch as large as its own estimate of the time per token lets it be, and no larger than ours."""
    (prefill,) = (pool for pool in pools if pool.role is Role.PREFILL)
    (decode,) = (pool for pool in pools if pool.role is Role.DECODE)
    low, high = 1, decode.batch_max or 1
    best = _estimate(case, prefill, decode, low)
    while low < high:
        middle = (low + high + 1) // 2
        found = _estimate(case, prefill, decode, middle)
        if found.tpot_ms <= case.tpot_ms:
            low, best = middle, found
        else:
            high = middle - 1
    return best


def _estimate(case: Case, prefill: Pool, decode: Pool, batch: int) -> Score:
    ended = run(
        str(COMMAND), "cli", "estimate", "--model", case.model, "--system", "h200_sxm", "--backend", case.engine,
        "--estimate-mode", "disagg", "--isl", str(case.input_tokens), "--osl", str(case.output_tokens),
        "--prefill-batch-size", "1", "--decode-batch-size", str(batch),
        *_workers("prefill", prefill), *_workers("decode", decode),
    )  # fmt: skip
    return Score(
        rate_rps=_figure(ended, r"seq/s:\s+([\d.,]+)"),
        ttft_ms=_figure(ended, r"TTFT:\s+([\d.,]+) ms"),
        tpot_ms=_figure(ended, r"TPOT:\s+([\d.,]+) ms"),
    )


def _workers(role: str, pool: Pool) -> tuple[str, ...]:
    parallel = pool.parallel
    given = [
        f"--{role}-num-workers", str(pool.replicas), f"--{role}-tp-size", str(parallel.tensor),
        f"--{role}-pp-size", str(parallel.pipeline),
    ]  # fmt: skip
    if parallel.expert > 1:
        given += [f"--{role}-attention-dp-size", str(parallel.data), f"--{role}-moe-ep-size", str(parallel.expert)]
    return tuple(given)


def _figure(ended: Ended, pattern: str) -> float:
    match = re.search(pattern, ended.out)
    if match is None:
        raise RuntimeError(f"{NAME} said no {pattern}: {ended.out[-2000:]}")
    return float(match[1].replace(",", ""))
