"""A KV page plan: how the memory of caches is cut into pages for a model whose layers differ.

In: cache groups (of one rank), memory, a dtype, the lengths of requests. Out: `PagePlan`, or a Refusal where not one
request fits. Invariant: every byte that a request holds is either needed by it or counted as waste; no plan holds fewer
requests than plain paging does.
"""

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from accord.estimate.cache import request_bytes
from accord.estimate.forgetting import Fit, families
from accord.estimate.shared_pool import Demand, PoolDraft, shared_pool
from accord.terms.cache import CacheGroup, CacheKind
from accord.terms.pages import Length, PagePlan, PageRules, PageTable, Pool
from accord.terms.refusal import Refusal
from accord.terms.tensors import DTYPE_BYTES, Dtype

_CLEARLY = 0.99  # a pool that can lend pages is worth a hundredth of the requests
_RULES = PageRules()


def page_plan(
    groups: Iterable[CacheGroup],
    *,
    memory_bytes: int,
    dtype: Dtype,
    lengths: tuple[Length, ...],
    rules: PageRules = _RULES,
) -> PagePlan | Refusal:
    """The plan that holds most requests of these lengths, in the coarsest pages that waste little.

    Either all layers share one pool, or each family of layers has its own, in the proportion that these lengths need.
    Pools apart pad nothing, but can't lend pages to each other when lengths turn out otherwise: they must hold clearly
    more, or be needed to hold what plain paging does.
    The prefill of a chunk needs room for its tokens in windowed layers, once for all requests: it isn't counted here.
    """
    held = tuple(group for group in groups if group.layers)
    demand = Demand(memory_bytes=memory_bytes, dtype=dtype, lengths=lengths, rules=rules)
    floor = plain_requests(held, memory_bytes=memory_bytes, dtype=dtype, lengths=lengths, rules=rules)
    best: PagePlan | None = None
    for block in rules.blocks:
        plan = _plan_in(block, held, demand, floor=floor)
        if best is None or (plan is not None and plan.requests > best.requests):
            best = plan
        if best is not None and best.waste <= rules.waste_max:
            break
    return best if best is not None else _refusal(held, demand)


def plain_requests(
    groups: Iterable[CacheGroup],
    *,
    memory_bytes: int,
    dtype: Dtype,
    lengths: tuple[Length, ...],
    rules: PageRules = _RULES,
) -> int:
    """Requests of these lengths that plain paging holds: the baseline.

    One block table for all layers, in each of them entries of the largest size that any layer has, and nothing is
    forgotten. States lie beside the pages, and so do an encoder's keys, in blocks of their own.
    """
    block, paged, beside = rules.blocks[0], [], 0
    for group in groups:
        match group.kind:
            case CacheKind.STATE:
                beside += _aligned(request_bytes([group], tokens=0, dtype=dtype), rules)
            case CacheKind.CROSS:
                blocks = -(-(group.window or 0) // block)
                beside += blocks * _aligned(len(group.layers) * _entry_bytes(group, dtype) * block, rules)
            case _:
                paged.append(group)
    entry: Counter[int] = Counter()
    for group in paged:
        entry.update(dict.fromkeys(group.layers, _entry_bytes(group, dtype)))
    page = _aligned(block * len(entry) * max(entry.values(), default=0), rules)
    each = _mean(lengths, lambda tokens: -(-tokens // block) * page + beside)
    return int(max(0, memory_bytes - page) // each) if each else 0


def _mean(lengths: tuple[Length, ...], figure: Callable[[int], float]) -> float:
    return sum(length.share * figure(length.tokens) for length in lengths) / sum(length.share for length in lengths)


def _entry_bytes(group: CacheGroup, dtype: Dtype) -> int:
    return group.entry_values * DTYPE_BYTES[dtype]


def _aligned(size: int, rules: PageRules) -> int:
    return -(-size // rules.align) * rules.align


def _plan_in(block: int, held: Sequence[CacheGroup], demand: Demand, *, floor: int) -> PagePlan | None:
    """The shared pool, where no other layout is clearly better."""
    made = [_plan(held, drafts, demand, block=block) for drafts in _layouts(held, demand, block)]
    plans = [plan for plan in made if plan is not None]
    most = max(plans, key=lambda plan: plan.requests, default=None)
    if most is None:
        return None
    enough = max(min(floor, most.requests), _CLEARLY * most.requests)
    return next(plan for plan in plans if plan.requests >= enough)


def _layouts(held: Sequence[CacheGroup], demand: Demand, block: int) -> Iterator[tuple[PoolDraft, ...]]:
    """One pool for all, and a pool for each family in each arrangement."""
    shared = shared_pool(held, demand, block=block)
    if shared is not None:
        yield (shared,)
    for arranged in families(held, dtype=demand.dtype, block=block):
        sizes = ((family, _aligned(family.step_bytes(1), demand.rules)) for family in arranged)
        apart = tuple(PoolDraft(page_bytes=size, fits=family.fits(size, 1)) for family, size in sizes)
        if apart:
            yield apart


def _plan(held: Sequence[CacheGroup], drafts: tuple[PoolDraft, ...], demand: Demand, *, block: int) -> PagePlan | None:
    """What fits; None if not one request does, or if page ids don't suffice."""
    mean = functools.partial(_mean, demand.lengths)
    needed = [mean(draft.pages) for draft in drafts]
    aside = sum(draft.aside_bytes for draft in drafts)
    each = sum(draft.page_bytes * pages for draft, pages in zip(drafts, needed, strict=True))
    requests = int((demand.memory_bytes - aside) // each)
    if requests < 1:
        return None
    made = []
    for draft, pages in zip(drafts, needed, strict=True):
        share = draft.aside_bytes + draft.page_bytes * math.ceil(requests * pages)
        held_bytes = demand.memory_bytes if len(drafts) == 1 else share
        tables = _tables(draft.fits, held)
        made.append(Pool(page_bytes=draft.page_bytes, pages=held_bytes // draft.page_bytes, tables=tables))
    if max(pool.pages for pool in made) > demand.rules.pages_max:
        return None
    return PagePlan(
        pools=tuple(made),
        block=block,
        requests=requests,
        tokens=int(requests * mean(lambda tokens: tokens)),
        request_pages=sum(needed),
        request_bytes=each + demand.rules.entry_bytes * sum(needed),
        useful_bytes=mean(lambda tokens: request_bytes(held, tokens=tokens, dtype=demand.dtype)),
    )


def _tables(fits: Iterable[Fit], groups: Sequence[CacheGroup]) -> tuple[PageTable, ...]:
    """One row for each family, in the order of the groups."""
    names = [group.name for group in groups]
    return tuple(
        PageTable(
            groups=fit.family.names,
            count=fit.count,
            page_layers=fit.family.page_layers(fit.count),
            page_tokens=fit.page_tokens,
            filled_bytes=fit.filled_bytes,
        )
        for fit in sorted(fits, key=lambda fit: names.index(fit.family.names[0]))
    )


def _refusal(groups: Sequence[CacheGroup], demand: Demand) -> Refusal:
    longest = max(length.tokens for length in demand.lengths)
    needed = request_bytes(groups, tokens=longest, dtype=demand.dtype)
    fits = ("give the cache more memory", "shorten requests", "keep the cache in fp8")
    return Refusal(
        field="memory_bytes",
        value=str(demand.memory_bytes),
        limit=f"{needed} bytes for one request of {longest} tokens, and room for its pages",
        causes=("the cache of one request doesn't fit",) if groups else ("this stage keeps no cache",),
        fix=fits if groups else ("plan pages for stages with a cache only",),
    )
