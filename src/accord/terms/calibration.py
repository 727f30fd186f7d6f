"""What was measured of a device: calls that ran on it, and the figures that they come to.

In: nothing. Out: `Calibration`, `Sample`, `Reached`. Invariant: a figure that no sample bears on is None, never a
default; samples stay with the figures, so that those can be worked out again.
"""

from dataclasses import dataclass
from enum import StrEnum

from accord.terms.speed import StageSpeed
from accord.terms.tensors import Math


class Kernel(StrEnum):
    """What a sample ran."""

    GEMM = "gemm"
    EXPERTS = "experts"  # a grouped GEMM of a mixture of experts
    PREFILL = "prefill"  # attention of many new tokens
    DECODE = "decode"  # attention of one new token a sequence
    COPY = "copy"
    LAUNCH = "launch"  # next to no work: what a call costs
    ALL_REDUCE = "all-reduce"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One call: its work, and the fastest of its runs.

    `moved_bytes` are read and written once each (ALL_REDUCE: what each of `ranks` ranks gives). `spread` is how far
    the median of the runs lies above it, as a share. `words` tell the shape.
    """

    kernel: Kernel
    words: str
    flops: float
    moved_bytes: float
    seconds: float
    spread: float = 0.0
    math: Math | None = None
    ranks: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MathRate:
    """FLOP/s of large matrix multiplies in one format."""

    math: Math
    flops_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """What the samples come to, by the formulas of `estimate/step.py`: rates that are reached, not peaks.

    `experts` is the part of its format's rate that a grouped multiply of experts reaches, `experts_bytes_per_s` how
    fast it reads their weights; `attention_flops_per_s` and `cache_bytes_per_s` are those of attention. A call is as
    long as its compute and its memory time joined by a p-norm of `sharpness`, and `launch_s` (`attention_s`,
    `experts_s` for theirs); multiplies in fewer than 16 bits take `quantize_s` besides. `uncertainty`: two thirds of
    the samples lie within so much of the formulas, relative.
    """

    rates: tuple[MathRate, ...] = ()
    experts: float | None = None
    experts_bytes_per_s: float | None = None
    bandwidth_bytes_per_s: float | None = None
    attention_flops_per_s: float | None = None
    cache_bytes_per_s: float | None = None
    link_bytes_per_s: float | None = None
    link_latency_s: float | None = None
    collective_s: float | None = None
    launch_s: float | None = None
    quantize_s: float | None = None
    attention_s: float | None = None
    experts_s: float | None = None
    sharpness: float | None = None
    uncertainty: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepGrid:
    """Seconds of whole steps of one model on one layout.

    The model is known by the format of its multiplies and by the `unit_flops` that one token's take on all ranks.
    `decode_s` has a row for each of `batches` (sequences of one data-parallel group), with a column for each of
    `contexts`; `prefill_s` is one prompt of each of `prompts` tokens.
    """

    tensor: int
    experts: int
    math: Math
    unit_flops: float
    batches: tuple[float, ...]
    contexts: tuple[float, ...]
    decode_s: tuple[tuple[float, ...], ...]
    prompts: tuple[float, ...]
    prefill_s: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """One device kind as it was measured with one engine, or with all (`engine` None).

    `machine` and `tool` say on what and with what, `taken` is an ISO date. `stages` are the embedded engines' own
    speeds, where they were measured too; `steps` are whole steps of models.
    """

    kind: str
    engine: str | None
    machine: str
    tool: str
    taken: str
    reached: Reached
    samples: tuple[Sample, ...]
    memory_bytes: int | None = None
    stages: tuple[StageSpeed, ...] = ()
    steps: tuple[StepGrid, ...] = ()
