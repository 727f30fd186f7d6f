"""The intent: what the user wants, already parsed.

In: nothing. Out: `Intent`. Invariant: all figures are plain numbers in the unit that ends their name.
Parsing from YAML, with units and suggestions, lives in `edges/intent_file.py`.
"""

from dataclasses import dataclass
from enum import StrEnum


class Metric(StrEnum):
    """What an objective bounds."""

    TTFT = "ttft"  # time to the first token or text, from arrival
    TPOT = "tpot"  # time per output token after the first
    FIRST_AUDIO = "first_audio"
    LATENCY = "latency"  # end to end
    RTF = "rtf"  # seconds of work per second of audio


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """`metric` at `percentile` (0 to 100) is at most `bound` (seconds; a ratio for RTF)."""

    metric: Metric
    percentile: float
    bound: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A distribution given by two percentiles."""

    p50: float
    p99: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Requests a second and their sizes; shares are fractions of requests, 0 to 1."""

    rate_rps: float | None = None
    trace: str | None = None
    input_tokens: Spread | None = None
    output_tokens: Spread | None = None
    inputs: tuple[tuple[str, float], ...] = ()
    outputs: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Money. Both may be absent."""

    cost_usd_per_request_max: float | None = None
    cost_usd_per_hour_max: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """How the service behaves at its door."""

    host: str = "127.0.0.1"
    port: int = 8077
    api_key: str | None = None
    deterministic: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """One document: model, workload, objectives, budget, fleet."""

    name: str
    model: str
    fleet: str
    workload: Workload
    objectives: tuple[Objective, ...]
    attainment: float
    budget: Budget
    serving: Serving
