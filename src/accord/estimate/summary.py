"""The figures of an architecture that people and programs are shown.

In: `Architecture`, a request's size, ranks, memory. Out: `Summary`. Invariant: each figure is computed here once, so
that the words and the JSON of `accord model` can't differ.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from accord.estimate.cache import group_bytes, on_rank, request_bytes, token_bytes
from accord.estimate.pages import page_plan, plain_requests
from accord.estimate.shares import Shares, shares
from accord.estimate.traffic import Traffic, step_traffic
from accord.estimate.weights import Portion, portions, quantizations, stored_bytes
from accord.terms.architecture import Architecture, Needs, Stored, Unit
from accord.terms.cache import CacheGroup, CacheKind
from accord.terms.graph import Capability, Stage
from accord.terms.layout import Layout
from accord.terms.pages import Length, PagePlan
from accord.terms.refusal import Refusal
from accord.terms.tensors import Dtype, Quantization
from accord.terms.work import Load, OperatorClass

CACHE_DTYPES = (Dtype.BF16, Dtype.FP8)
SHOWN = (
    Quantization.FP8_BLOCK,
    Quantization.INT8,
    Quantization.INT4_GROUP,
    Quantization.MXFP4,
    Quantization.NVFP4,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """What the figures are for. `tokens` is the length of a request in stages that read tokens (None: the usual one).

    With `ranks`, what one tensor-parallel rank holds is shown; with `memory_bytes`, how caches fill that much.
    """

    tokens: int | None = None
    batch: int = 1
    ranks: int | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRow:
    """One cache group: bytes in bf16 and in fp8, of one more token, of the usual request and of a full context."""

    group: CacheGroup
    token_bytes: tuple[float, float]
    usual_bytes: tuple[int, int]
    full_bytes: tuple[int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """One step of the example request."""

    phase: str
    load: Load
    traffic: Traffic

    def flops(self, kind: OperatorClass) -> float:
        """FLOPs of one class of operators."""
        return sum(row.flops for row in self.traffic.operators if row.kind is kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankRow:
    """What one of so many tensor-parallel ranks holds: weights, or why they can't be divided; bytes of a request."""

    shares: Shares | Refusal
    request_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRow:
    """How caches fill a memory in one dtype; `plain_requests` is what plain paging would hold."""

    dtype: Dtype
    plan: PagePlan | Refusal
    plain_requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRow:
    """One stage in figures. `usual_tokens` is what its `usual` bytes are for."""

    stage: Stage
    needs: Needs
    stored: Stored
    stored_bytes: int
    bf16_bytes: int
    other_bytes: tuple[tuple[Quantization, int], ...]
    quantizations: tuple[Quantization, ...]
    portions: tuple[Portion, ...]
    usual_tokens: int
    cache: tuple[CacheRow, ...]
    steps: tuple[StepRow, ...]
    rank: RankRow | None
    pages: tuple[PageRow, ...]

    def cache_bytes(self, tokens: int, dtype: Dtype) -> int:
        """Bytes of one request of so many tokens."""
        return request_bytes(self.needs.cache, tokens=tokens, dtype=dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """All stages in figures."""

    architecture: Architecture
    example: Example
    stages: tuple[StageRow, ...]

    @property
    def stored_bytes(self) -> int:
        """Weights of all stages, as published."""
        return sum(row.stored_bytes for row in self.stages)

    @property
    def bf16_bytes(self) -> int:
        """Weights of all stages, unquantized."""
        return sum(row.bf16_bytes for row in self.stages)

    @property
    def other_bytes(self) -> tuple[tuple[Quantization, int], ...]:
        """Weights of all stages, were all matrices that allow it stored so."""
        return tuple((kind, sum(dict(row.other_bytes)[kind] for row in self.stages)) for kind in SHOWN)


def summary(architecture: Architecture, example: Example) -> Summary:
    """The figures."""
    full = architecture.context_max
    rows = (_stage(*row, full=full, example=example) for row in architecture.rows())
    return Summary(architecture=architecture, example=example, stages=tuple(rows))


def decodes(stage: Stage, needs: Needs) -> bool:
    """Whether a stage goes on one unit at a time after its prompt."""
    return Capability.AR in stage.capabilities and bool(needs.cache)


def _stage(stage: Stage, needs: Needs, stored: Stored, *, full: int | None, example: Example) -> StageRow:
    given = example.tokens if needs.unit is Unit.TOKEN else None
    units = needs.example_units if given is None else given
    usual = units + needs.example_context
    return StageRow(
        stage=stage,
        needs=needs,
        stored=stored,
        stored_bytes=stored_bytes(needs.tensors, stored),
        bf16_bytes=stored_bytes(needs.tensors, Stored()),
        other_bytes=tuple((kind, stored_bytes(needs.tensors, Stored(quantization=kind))) for kind in SHOWN),
        quantizations=quantizations(needs.tensors, stored),
        portions=portions(needs.tensors, stored),
        usual_tokens=usual,
        cache=tuple(_cache(group, usual=usual, full=full) for group in needs.cache),
        steps=tuple(_steps(stage, needs, stored, units=units, batch=example.batch)),
        rank=_rank(needs, stored, tokens=usual, ranks=example.ranks),
        pages=tuple(_pages(needs, tokens=usual, example=example)),
    )


def _cache(group: CacheGroup, *, usual: int, full: int | None) -> CacheRow:
    def both(tokens: int) -> tuple[int, int]:
        bf16, fp8 = (group_bytes(group, tokens=tokens, dtype=dtype) for dtype in CACHE_DTYPES)
        return bf16, fp8

    grows = group.kind not in (CacheKind.STATE, CacheKind.CROSS)
    bf16, fp8 = (token_bytes(group, dtype=dtype) if grows else 0.0 for dtype in CACHE_DTYPES)
    return CacheRow(
        group=group,
        token_bytes=(bf16, fp8),
        usual_bytes=both(usual),
        full_bytes=None if full is None else both(full),
    )


def _steps(stage: Stage, needs: Needs, stored: Stored, *, units: int, batch: int) -> Iterable[StepRow]:
    whole = Load(new=units, context=needs.example_context, batch=batch)
    phases = {"step": whole}
    if decodes(stage, needs):
        phases = {"prefill": whole, "decode": Load(new=1, context=units + needs.example_context, batch=batch)}
    for phase, load in phases.items():
        yield StepRow(phase=phase, load=load, traffic=step_traffic(needs, stored, load))


def _rank(needs: Needs, stored: Stored, *, tokens: int, ranks: int | None) -> RankRow | None:
    if ranks is None:
        return None
    held = request_bytes(on_rank(needs.cache, ranks), tokens=tokens, dtype=Dtype.BF16)
    return RankRow(shares=shares(needs, stored, Layout(tensor=ranks)), request_bytes=held)


def _pages(needs: Needs, *, tokens: int, example: Example) -> Iterable[PageRow]:
    if example.memory_bytes is None or not needs.cache:
        return
    groups, lengths = on_rank(needs.cache, example.ranks or 1), (Length(tokens=tokens),)
    for dtype in CACHE_DTYPES:
        plan = page_plan(groups, memory_bytes=example.memory_bytes, dtype=dtype, lengths=lengths)
        plain = plain_requests(groups, memory_bytes=example.memory_bytes, dtype=dtype, lengths=lengths)
        yield PageRow(dtype=dtype, plan=plan, plain_requests=plain)
