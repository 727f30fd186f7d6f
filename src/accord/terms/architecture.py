"""A model as its card says it is: the stage graph, and what each stage needs.

In: nothing. Out: `Architecture`. Invariant: one `Needs` for each stage and one `Flow` for each edge of the graph, in
their order.
"""

from dataclasses import dataclass
from enum import StrEnum

from accord.terms.cache import CacheGroup
from accord.terms.graph import Stage, StageGraph
from accord.terms.tensors import Quantization, Tensor
from accord.terms.work import Operator


class Unit(StrEnum):
    """What one unit of a stage's work, or of an edge's payload, is."""

    TOKEN = "token"
    PATCH = "patch"  # of a picture or of video, before merging
    FRAME = "frame"  # of features (mel), of codec codes, of video
    LATENT = "latent"  # one position of a denoiser's latent; its work is that of one step
    SAMPLE = "sample"
    PIXEL = "pixel"
    ACTION = "action"
    IMAGE = "image"
    BYTE = "byte"


class Rule(StrEnum):
    """What a scheduler must respect; `figure` is the number in it."""

    WHOLE_SPANS = "whole-spans"  # positions of one picture or clip can't be split across prefill chunks
    UNITS_MAX = "units-max"  # at most `figure` units a request
    UNITS_MULTIPLE = "units-multiple"  # units come in multiples of `figure`
    STEPS = "steps"  # `figure` steps a request by default, each over all its units
    ANSWER = "answer"  # an answer has `figure` units, no more and no less
    PASSES = "passes"  # two passes a step where guidance is on (`figure` 2)
    LOCKSTEP = "lockstep"  # `figure` inner steps for each of its own, none of which can be batched over time


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """One rule, in words for people too."""

    rule: Rule
    figure: int
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What one stage holds and computes. `unit` is what `Load.new` counts for it.

    `example_units` and `example_context` make up the usual request that figures are printed for.
    """

    stage: str
    unit: Unit
    tensors: tuple[Tensor, ...]
    cache: tuple[CacheGroup, ...] = ()
    operators: tuple[Operator, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    example_units: int = 1000
    example_context: int = 0

    @property
    def parameters(self) -> int:
        """Parameters held by this stage."""
        return sum(tensor.parameters for tensor in self.tensors if not tensor.buffer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """What one edge carries: `unit_bytes` for each unit, one payload a request or a stream of chunks."""

    edge: str
    unit: Unit
    unit_bytes: int
    stream: bool = False
    chunk_units: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAs:
    """Tensors of this name, in these layers (empty: in all), are stored so, whatever `Tensor.quantizable` says."""

    tensor: str
    layers: tuple[int, ...] = ()
    quantization: Quantization = Quantization.NONE
    group: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """How the published weights are stored: matrices that allow it in `quantization`, save for the `exceptions`.

    `group`: how many values share a scale, where it isn't the format's own. `scale_bits`: likewise (with a zero point).
    """

    quantization: Quantization = Quantization.NONE
    group: int | None = None
    scale_bits: int | None = None
    exceptions: tuple[StoredAs, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """All that a card says.

    `unread` lists keys of the card that nobody read and that could matter; `remarks` say what was left out.
    """

    name: str
    family: str
    graph: StageGraph
    needs: tuple[Needs, ...]
    flows: tuple[Flow, ...]
    stored: tuple[Stored, ...]
    context_max: int | None = None
    unread: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        stages = [stage.name for stage in self.graph.stages]
        edges = [edge.name for edge in self.graph.edges]
        if [item.stage for item in self.needs] != stages or len(self.stored) != len(stages):
            raise ValueError(f"architecture {self.name}: needs and stored don't match the stages {stages}")
        if [flow.edge for flow in self.flows] != edges:
            raise ValueError(f"architecture {self.name}: flows don't match the edges {edges}")

    @property
    def parameters(self) -> int:
        """Parameters of all stages."""
        return sum(item.parameters for item in self.needs)

    def of(self, stage: str) -> Needs:
        """What one stage needs; KeyError if there is none of this name."""
        for item in self.needs:
            if item.stage == stage:
                return item
        raise KeyError(stage)

    def rows(self) -> tuple[tuple[Stage, Needs, Stored], ...]:
        """Stage, needs and storage, side by side."""
        return tuple(zip(self.graph.stages, self.needs, self.stored, strict=True))
