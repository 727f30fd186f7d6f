"""How fast stages run, and how much a request asks of them.

In: nothing. Out: `Model`, `StageEngine`, `StageSpeed`, `RequestShape`.
Invariant: a stage's busy time for a request is the sum, over its costs, of seconds a unit times units.
"""

from dataclasses import dataclass
from enum import StrEnum

from accord.terms.estimate import Estimate
from accord.terms.graph import StageGraph


@dataclass(frozen=True, slots=True, kw_only=True)
class StageEngine:
    """Which row of the engine table runs a stage, which weight packages it reads, and the engine's options."""

    stage: str
    engine: str
    assets: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()


class Quantity(StrEnum):
    """What work is counted in."""

    AUDIO_IN_S = "audio_in_s"
    PICTURE = "picture"
    PROMPT_TOKEN = "prompt_token"
    OUTPUT_TOKEN = "output_token"
    AUDIO_OUT_S = "audio_out_s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Seconds for one unit of `quantity`: alone, and when many requests share the steps of the engine."""

    quantity: Quantity
    alone_s: float
    shared_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSpeed:
    """One stage with `threads` threads. `work` is the figure for people, with its source.

    `first_use_s`: what the first request after a start takes besides.
    """

    stage: str
    threads: int
    costs: tuple[Cost, ...]
    work: Estimate
    first_use_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestShape:
    """What one typical request asks, where the intent doesn't say.

    `clause_tokens` are written before the first clause can be spoken; `speech_s_per_token` is how much
    speech one written token gives.
    """

    audio_in_s: float
    pictures: float
    prompt_tokens: float
    output_tokens: float
    clause_tokens: float
    speech_s_per_token: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """All that planning needs to know of a model before its stages are measured."""

    graph: StageGraph
    engines: tuple[StageEngine, ...]
    shape: RequestShape

    def engine(self, stage: str) -> StageEngine:
        """What runs this stage; KeyError if the table has no row for it."""
        for row in self.engines:
            if row.stage == stage:
                return row
        raise KeyError(stage)
