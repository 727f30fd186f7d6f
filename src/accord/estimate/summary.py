"""The figures of an architecture that people and programs are shown.

In: `Architecture`, a request's size. Out: `Summary`. Invariant: each figure is computed here once, so that the words
and the JSON of `accord model` can't differ.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from accord.estimate.cache import group_bytes, request_bytes, token_bytes
from accord.estimate.weights import quantizations, stored_bytes
from accord.estimate.work import flops_table
from accord.terms.architecture import Architecture, Needs, Stored, Unit
from accord.terms.cache import CacheGroup, CacheKind
from accord.terms.graph import Capability, Stage
from accord.terms.tensors import Dtype, Part, Quantization
from accord.terms.work import Load, OperatorClass

CACHE_DTYPES = (Dtype.BF16, Dtype.FP8)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRow:
    """The weights of one part of a stage."""

    part: Part
    parameters: int
    stored_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRow:
    """One cache group: bytes in bf16 and in fp8, of one more token, of the usual request and of a full context."""

    stage: str
    group: CacheGroup
    token_bytes: tuple[float, float]
    usual_bytes: tuple[int, int]
    full_bytes: tuple[int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """One step of the example request: FLOPs by operator class, bytes."""

    stage: str
    phase: str
    load: Load
    flops: tuple[tuple[OperatorClass, float], ...]

    @property
    def flops_total(self) -> float:
        """FLOPs of all classes."""
        return sum(flops for _, flops in self.flops)


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRow:
    """One stage in figures. `usual_tokens` is what its `usual` bytes are for."""

    stage: Stage
    needs: Needs
    stored: Stored
    parameters: int
    stored_bytes: int
    bf16_bytes: int
    quantizations: tuple[Quantization, ...]
    parts: tuple[PartRow, ...]
    usual_tokens: int
    cache: tuple[CacheRow, ...]
    steps: tuple[StepRow, ...]

    def cache_bytes(self, tokens: int, dtype: Dtype) -> int:
        """Bytes of one request of so many tokens."""
        return request_bytes(self.needs.cache, tokens=tokens, dtype=dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """All stages in figures."""

    architecture: Architecture
    stages: tuple[StageRow, ...]

    @property
    def parameters(self) -> int:
        """Of all stages."""
        return sum(row.parameters for row in self.stages)

    @property
    def stored_bytes(self) -> int:
        """Weights of all stages, as published."""
        return sum(row.stored_bytes for row in self.stages)

    @property
    def bf16_bytes(self) -> int:
        """Weights of all stages, unquantized."""
        return sum(row.bf16_bytes for row in self.stages)


def summary(architecture: Architecture, *, tokens: int | None = None, batch: int = 1) -> Summary:
    """The figures. `tokens` is the example request's length for stages that read and write tokens."""
    rows = (
        _stage(architecture, stage, needs, stored, tokens=tokens, batch=batch)
        for stage, needs, stored in architecture.rows()
    )
    return Summary(architecture=architecture, stages=tuple(rows))


def decodes(stage: Stage, needs: Needs) -> bool:
    """Whether a stage goes on one unit at a time after its prompt."""
    return Capability.AR in stage.capabilities and bool(needs.cache)


def _stage(
    architecture: Architecture, stage: Stage, needs: Needs, stored: Stored, *, tokens: int | None, batch: int
) -> StageRow:
    units = tokens if tokens is not None and needs.unit is Unit.TOKEN else needs.example_units
    usual = units + needs.example_context
    return StageRow(
        stage=stage,
        needs=needs,
        stored=stored,
        parameters=needs.parameters,
        stored_bytes=stored_bytes(needs.tensors, stored),
        bf16_bytes=stored_bytes(needs.tensors, Stored()),
        quantizations=quantizations(needs.tensors, stored),
        parts=_parts(needs, stored),
        usual_tokens=usual,
        cache=tuple(_cache(stage, group, usual=usual, full=architecture.context_max) for group in needs.cache),
        steps=tuple(_steps(stage, needs, units=units, batch=batch)),
    )


def _parts(needs: Needs, stored: Stored) -> tuple[PartRow, ...]:
    rows = []
    for part in Part:
        tensors = [tensor for tensor in needs.tensors if tensor.part is part]
        if tensors:
            parameters = sum(tensor.parameters for tensor in tensors if not tensor.buffer)
            rows.append(PartRow(part=part, parameters=parameters, stored_bytes=stored_bytes(tensors, stored)))
    return tuple(rows)


def _cache(stage: Stage, group: CacheGroup, *, usual: int, full: int | None) -> CacheRow:
    def both(tokens: int) -> tuple[int, int]:
        bf16, fp8 = (group_bytes(group, tokens=tokens, dtype=dtype) for dtype in CACHE_DTYPES)
        return bf16, fp8

    grows = group.kind not in (CacheKind.STATE, CacheKind.CROSS)
    bf16, fp8 = (token_bytes(group, dtype=dtype) if grows else 0.0 for dtype in CACHE_DTYPES)
    return CacheRow(
        stage=stage.name,
        group=group,
        token_bytes=(bf16, fp8),
        usual_bytes=both(usual),
        full_bytes=None if full is None else both(full),
    )


def _steps(stage: Stage, needs: Needs, *, units: int, batch: int) -> Iterable[StepRow]:
    whole = Load(new=units, context=needs.example_context, batch=batch)
    if not decodes(stage, needs):
        yield _step(stage, needs, whole, phase="step")
        return
    yield _step(stage, needs, whole, phase="prefill")
    yield _step(stage, needs, Load(new=1, context=units + needs.example_context, batch=batch), phase="decode")


def _step(stage: Stage, needs: Needs, load: Load, *, phase: str) -> StepRow:
    flops: dict[OperatorClass, float] = {}
    for row in flops_table(needs.operators, load):
        flops[row.kind] = flops.get(row.kind, 0.0) + row.flops
    kept = tuple((kind, flops[kind]) for kind in OperatorClass if flops.get(kind))
    return StepRow(stage=stage.name, phase=phase, load=load, flops=kept)
