"""The ways to build a replica of a role that are worth looking at.

In: a stage's needs and demand, formats that are allowed, a `Supply`. Out: `Build`s. Invariant: each can stand on the
supply; nothing is estimated here.
"""

import itertools
import math
from collections.abc import Iterator

from accord.estimate.weights import stored_bytes
from accord.plan.fleet.demand import Pace, StageDemand
from accord.plan.fleet.replica import MEMORY_SHARE, SEQUENCES_MAX, Build
from accord.plan.fleet.supply import Supply
from accord.terms.architecture import Needs, Stored
from accord.terms.fleet_plan import Parallel, Role
from accord.terms.intent import Allow
from accord.terms.tensors import Dtype, Quantization
from accord.terms.work import Experts

RANKS_MAX = 64  # of one replica
CHUNKS = (2048, 8192)  # tokens that a step reads at most
PASS_BATCHES = (1, 2, 4, 8, 16, 32)
CHUNK_BATCHES = (4, 16, 64)
SHARES = (0.5, 0.25)  # parts of a card
_PIPELINES = (2, 4)
_SPREAD = 8


def builds(
    needs: Needs, demand: StageDemand, stored: Stored, *, supply: Supply, allow: Allow, role: Role
) -> Iterator[Build]:
    """All builds of a role on one kind."""
    formats = _formats(stored, allow)
    caches = dict.fromkeys((Dtype.BF16, *allow.cache_dtypes)) if needs.cache else (Dtype.BF16,)
    steps = list(_steps(demand, role))
    for form, cache in itertools.product(formats, caches):
        for parallel, share in _divisions(needs, demand, supply, form):
            if share < 1 and role is not Role.WHOLE:
                continue  # prefill and decode on one card are a whole stage
            for chunk, batch in steps:
                yield Build(
                    role=role, parallel=parallel, stored=form, cache_dtype=cache, chunk_tokens=chunk, share=share,
                    batch_max=batch,
                )  # fmt: skip


def _formats(stored: Stored, allow: Allow) -> tuple[Stored, ...]:
    others = [
        Stored(quantization=item)
        for item in allow.quantizations
        if item not in (stored.quantization, Quantization.NONE)
    ]
    return (stored, *others)


def _steps(demand: StageDemand, role: Role) -> Iterator[tuple[int, int]]:
    """Tokens that a step reads, and requests in a replica, at most."""
    match demand.pace:
        case Pace.WRITES:
            for chunk in CHUNKS if role is not Role.DECODE else CHUNKS[:1]:
                yield chunk, SEQUENCES_MAX
        case Pace.PASSES:
            for batch in PASS_BATCHES:
                yield CHUNKS[-1], batch
        case Pace.CHUNKS:
            for batch in CHUNK_BATCHES:
                yield CHUNKS[-1], batch


def _divisions(needs: Needs, demand: StageDemand, supply: Supply, stored: Stored) -> Iterator[tuple[Parallel, float]]:
    """Parallelism, and the part of a card (1: whole cards).

    Tensor parallelism stays among devices with fast links. Pipelines begin where it ends, for stages that write or
    don't fit otherwise. Experts are dealt out to all ranks, with attention in as many groups as there are
    tensor-parallel ones; no replica has more than `_SPREAD` times the ranks that hold its weights.
    """
    memory = supply.kind.memory_bytes
    least = 1 if memory is None else math.ceil(stored_bytes(needs.tensors, stored) / (MEMORY_SHARE * memory.value))
    spread = _SPREAD * (1 << (least - 1).bit_length())
    if supply.kind.soft_share and not supply.kind.pairs:
        for share in SHARES:
            yield Parallel(), share
    tensors = _powers(min(supply.linked, supply.free[0]))
    layers = len({layer for tensor in needs.tensors for layer in tensor.layers})
    for tensor in tensors:
        piped = tensor == tensors[-1] and (demand.pace is Pace.WRITES or least > tensor)
        for pipeline in (1, *(_PIPELINES if piped else ())):
            parallel = Parallel(tensor=tensor, pipeline=pipeline)
            if pipeline <= max(1, layers) and _stands(parallel, supply):
                yield parallel, 1.0
    if not any(isinstance(item, Experts) for item in needs.operators):
        return
    for ranks in _powers(min(RANKS_MAX, spread, supply.cards))[1:]:
        for tensor in tensors:
            if tensor <= ranks:
                parallel = Parallel(tensor=tensor, data=ranks // tensor, expert=ranks)
                if _stands(parallel, supply):
                    yield parallel, 1.0


def _stands(parallel: Parallel, supply: Supply) -> bool:
    ranks = parallel.ranks
    return ranks <= RANKS_MAX and (ranks % 2 == 0 or not supply.kind.pairs) and supply.nodes_of(ranks) is not None


def _powers(most: int) -> tuple[int, ...]:
    return tuple(1 << power for power in range(most.bit_length())) if most else ()
