"""The intent: what the user wants, already parsed.

In: nothing. Out: `Intent`. Invariant: all figures are plain numbers in the unit that ends their name.
Parsing from YAML, with units and suggestions, lives in `edges/intent_file.py`.
"""

from dataclasses import dataclass
from enum import StrEnum

from accord.terms.tensors import Dtype, Quantization


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
class PictureSize:
    """Pixels of a picture, or of each frame of a video."""

    width: int
    height: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Requests a second and their sizes; shares are fractions of requests, 0 to 1.

    `input_tokens` are of the text alone. A size that is None is the model's usual one.
    """

    rate_rps: float | None = None
    trace: str | None = None
    input_tokens: Spread | None = None
    output_tokens: Spread | None = None
    inputs: tuple[tuple[str, float], ...] = ()
    outputs: tuple[tuple[str, float], ...] = ()
    input_audio_s: Spread | None = None
    input_image: PictureSize | None = None
    input_video_s: Spread | None = None
    output_image: PictureSize | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Money. Both may be absent."""

    cost_usd_per_request_max: float | None = None
    cost_usd_per_hour_max: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Allow:
    """What a plan may change of the model's numbers. Empty: nothing, it keeps what its card says.

    `quantizations` are formats that its weights may be stored in, besides the published one; `cache_dtypes` those
    of keys and values.
    """

    quantizations: tuple[Quantization, ...] = ()
    cache_dtypes: tuple[Dtype, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """What each sandbox of an agent may use."""

    language: str
    memory_bytes: int
    cpus: float
    wall_s: float
    network: bool = False


class Video(StrEnum):
    """Which frames of a video are read."""

    KEYFRAMES = "keyframes"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preprocess:
    """What CPUs make of inputs before a model reads them; None: that kind is left as it comes."""

    image: PictureSize | None = None
    audio_hz: int | None = None
    video: Video | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wakes:
    """An agent that nobody calls wakes by itself, and writes at most `tokens_max` tokens then."""

    every_s: float
    tokens_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Agents:
    """Agent stages, counted and run with the rest: `concurrent` sessions."""

    concurrent: int
    sandbox: Sandbox | None = None
    state_retention_s: float | None = None
    preprocess: Preprocess = Preprocess()
    wakes: Wakes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """How the service behaves at its door."""

    host: str = "127.0.0.1"
    port: int = 8077
    api_key: str | None = None
    deterministic: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """One document: model, workload, objectives, budget, fleet. `model` is a name of the catalog, or a path."""

    name: str
    model: str
    fleet: str
    workload: Workload
    objectives: tuple[Objective, ...]
    attainment: float
    budget: Budget
    serving: Serving
    allow: Allow = Allow()
    agents: Agents | None = None
