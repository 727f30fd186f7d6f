"""One type of replica: a stage, or a part of its work, on so many devices of one kind.

In: a stage's needs, a `Performance`, parallelism, formats. Out: `ReplicaType`, or a Refusal that says what doesn't
fit. Invariant: what a device holds (weights of the fullest rank, activations, the engine's reserve, pages of caches)
is at most what the engine may take of it; at least one whole request fits.
"""

import functools
import math
from dataclasses import dataclass, replace

from accord.estimate.form import Form, form
from accord.estimate.pages import page_plan
from accord.estimate.performance import Performance
from accord.plan.fleet.demand import Pace, StageDemand
from accord.terms.architecture import Needs, Stored
from accord.terms.cache import CacheGroup
from accord.terms.fleet_plan import Parallel, Role
from accord.terms.layout import Layout, even_pipeline
from accord.terms.pages import Length, PagePlan
from accord.terms.refusal import Refusal
from accord.terms.tensors import Dtype

MEMORY_SHARE = 0.9  # what engines take of a device: vLLM's --gpu-memory-utilization by default
RESERVE_BYTES = 2 << 30  # driver context, captured graphs and buffers of collectives, for each process on a device
SEQUENCES_MAX = 1024  # vLLM's --max-num-seqs on large devices
_CHUNK_MAX = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes on the fullest device of a replica. `cache_bytes` is what caches of requests may take."""

    device_bytes: int
    usable_bytes: int
    weights_bytes: int
    activation_bytes: int
    reserve_bytes: int
    cache_bytes: int

    @property
    def taken_bytes(self) -> int:
        """All of it: caches are allocated at the start."""
        return self.weights_bytes + self.activation_bytes + self.reserve_bytes + self.cache_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """What can be chosen of a replica. `share` is its part of one device (1: whole devices).

    `chunk_tokens` bounds what one step reads. `stored` is how the weights are stored.
    """

    role: Role
    parallel: Parallel
    stored: Stored
    cache_dtype: Dtype
    chunk_tokens: int = _CHUNK_MAX
    share: float = 1.0
    batch_max: int = SEQUENCES_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaType:
    """A build on a kind. `batch_max` requests at most are in one replica at once: as many as fit, or as asked."""

    stage: str
    build: Build
    performance: Performance
    form: Form
    memory: Memory
    batch_max: int

    @property
    def cards(self) -> float:
        """Devices of one replica, or its part of one."""
        return self.build.parallel.ranks * self.build.share


def replica_type(needs: Needs, demand: StageDemand, performance: Performance, build: Build) -> ReplicaType | Refusal:
    """The type, or why it can't be."""
    made = _form(needs, build.stored, layout_of(needs, build.parallel), build.cache_dtype)
    if isinstance(made, Refusal):
        return made
    speeds = performance if build.share == 1.0 else shared(performance, build.share)
    memory = _memory(needs, demand, speeds, build, made=made)
    if memory.cache_bytes < 0:
        return _too_large(needs, speeds, memory)
    batch = _batch(demand, made, memory, build)
    if isinstance(batch, Refusal):
        return batch
    return ReplicaType(stage=needs.stage, build=build, performance=speeds, form=made, memory=memory, batch_max=batch)


# A stage's roles, and its chunks of different sizes, have their forms and most of their page plans in common.
@functools.lru_cache(maxsize=1024)
def _form(needs: Needs, stored: Stored, layout: Layout, dtype: Dtype) -> Form | Refusal:
    return form(needs, stored, layout, cache_dtype=dtype)


@functools.lru_cache(maxsize=1024)
def _pages(
    groups: tuple[CacheGroup, ...], memory_bytes: int, dtype: Dtype, lengths: tuple[Length, ...]
) -> PagePlan | Refusal:
    return page_plan(groups, memory_bytes=memory_bytes, dtype=dtype, lengths=lengths)


def layout_of(needs: Needs, parallel: Parallel) -> Layout:
    """The layout of the ranks. With data-parallel attention, experts are dealt to all ranks of the replica."""
    layers = len({layer for tensor in needs.tensors for layer in tensor.layers})
    pipeline = even_pipeline(layers, parallel.pipeline) if parallel.pipeline > 1 else ()
    experts = max(parallel.expert, parallel.tensor * parallel.data if parallel.data > 1 else 1)
    return Layout(tensor=parallel.tensor, experts=experts, pipeline=pipeline)


def shared(performance: Performance, share: float) -> Performance:
    """A part of a device: its rates, its bandwidth and its memory. Steps that are known are those of whole devices."""
    return replace(
        performance,
        rates={math: rate * share for math, rate in performance.rates.items()},
        memory_bytes=int(performance.memory_bytes * share),
        memory_bytes_per_s=performance.memory_bytes_per_s * share,
        link_bytes_per_s=performance.link_bytes_per_s * share,
        steps=(),
    )


def lengths_of(demand: StageDemand) -> tuple[Length, ...]:
    """Tokens that requests reach, with their shares."""
    sizes, weights = demand.units.points()
    return tuple(
        Length(tokens=max(1, round(float(size) + demand.outputs.mean + demand.context)), share=float(weight))
        for size, weight in zip(sizes, weights, strict=True)
    )


def _memory(needs: Needs, demand: StageDemand, speeds: Performance, build: Build, *, made: Form) -> Memory:
    units = _units_at_once(demand, build)
    usable = int(speeds.memory_bytes * MEMORY_SHARE)
    activation = int(units * made.peak_unit_bytes)
    left = usable - made.weights_bytes - activation - RESERVE_BYTES
    return Memory(
        device_bytes=speeds.memory_bytes,
        usable_bytes=usable,
        weights_bytes=made.weights_bytes,
        activation_bytes=activation,
        reserve_bytes=RESERVE_BYTES,
        cache_bytes=left if needs.cache or left < 0 else 0,
    )


def _units_at_once(demand: StageDemand, build: Build) -> float:
    match demand.pace:
        case Pace.WRITES:
            return float(build.chunk_tokens)
        case Pace.CHUNKS:
            return demand.first_units
        case Pace.PASSES:
            return demand.units.at(99.0) + demand.context


def _batch(demand: StageDemand, made: Form, memory: Memory, build: Build) -> int | Refusal:
    if not made.cache or demand.pace is not Pace.WRITES:
        return build.batch_max
    lengths = lengths_of(demand)
    groups = _on_fullest_pipeline_rank(made) if made.layout.pipeline else made.cache
    pages = _pages(groups, memory.cache_bytes, build.cache_dtype, lengths)
    if isinstance(pages, Refusal):
        return pages
    longest = max(length.tokens for length in lengths)
    if pages.tokens < longest:
        return _too_long(made, pages.tokens, longest)
    return max(1, min(build.batch_max, pages.requests * made.data))


def _on_fullest_pipeline_rank(made: Form) -> tuple[CacheGroup, ...]:
    """Caches of the pipeline rank that has most layers: so many of each kind, in proportion."""
    part = max(made.layout.pipeline) / sum(made.layout.pipeline)
    return tuple(replace(group, layers=group.layers[: math.ceil(len(group.layers) * part)]) for group in made.cache)


def _too_large(needs: Needs, speeds: Performance, memory: Memory) -> Refusal:
    gib = 2.0**30
    need = memory.weights_bytes + memory.activation_bytes + memory.reserve_bytes
    parts = (
        f"weights {memory.weights_bytes / gib:.1f} GiB",
        f"activations {memory.activation_bytes / gib:.1f} GiB",
        f"the engine's own {memory.reserve_bytes / gib:.1f} GiB",
    )
    return Refusal(
        field=f"devices.{speeds.kind}.memory",
        value=f"{memory.device_bytes / gib:.1f} GiB",
        limit=f"{need / MEMORY_SHARE / gib:.1f} GiB",
        causes=(f"{needs.stage} on each device: {', '.join(parts)}",),
        fix=("divide the stage over more devices", "allow a smaller quantization", "take devices with more memory"),
    )


def _too_long(made: Form, tokens: int, longest: int) -> Refusal:
    return Refusal(
        field="workload.input_tokens",
        value=str(longest),
        limit=f"{tokens} tokens",
        causes=(f"{made.stage}: caches have room for {tokens} tokens beside the weights",),
        fix=("divide the stage over more devices", "allow cache dtype fp8", "shorten the requests"),
    )
