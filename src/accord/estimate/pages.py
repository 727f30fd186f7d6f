"""A KV page plan: one pool of pages of one size, in which each kind of layer keeps as many tokens a page as fit.

In: cache groups (of one rank), memory, a dtype, the lengths of requests. Out: `PagePlan`, or a Refusal where not one
request fits. Invariant: every byte that a request holds is either needed by it or counted as waste.

Layers that forget alike form a family. A family's layers are dealt out to `count` block tables; a page of a table
holds the same tokens of all its layers, side by side. Page size and counts are chosen together, so that pages of all
families come out nearly full: few layers and many tokens in one, many layers and few tokens in another.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from accord.estimate.cache import request_bytes
from accord.estimate.forgetting import Family, Fit, families
from accord.terms.cache import CacheGroup, CacheKind
from accord.terms.pages import Length, PagePlan, PageRules, PageTable, Pool
from accord.terms.refusal import Refusal
from accord.terms.tensors import DTYPE_BYTES, Dtype

_MULTIPLES = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64)  # blocks of tokens in a page
_NEAR = 1.001  # choices this near to the cheapest are compared by whole requests
_RULES = PageRules()


def page_plan(
    groups: Iterable[CacheGroup],
    *,
    memory_bytes: int,
    dtype: Dtype,
    lengths: tuple[Length, ...],
    rules: PageRules = _RULES,
) -> PagePlan | Refusal:
    """The plan that wastes least for these lengths, with a small price on each block table.

    One page is set aside for padding writes, as engines do. The prefill of a chunk needs room for its tokens in
    windowed layers, once for all requests: it isn't counted here.
    """
    held = tuple(group for group in groups if group.layers)
    aim = _Aim(memory_bytes=memory_bytes, lengths=lengths, rules=rules)
    near: list[_Choice] = []
    for arranged in families(held, dtype=dtype, block=rules.block):
        largest_first = sorted(((aim.least(family), family) for family in arranged), key=lambda item: -item[0])
        for page_bytes in _page_sizes(arranged, memory_bytes, rules):
            bound = min((choice.cost for choice in near), default=math.inf) * _NEAR
            choice = _choice(largest_first, page_bytes, aim, bound=bound)
            near = [item for item in near if choice is None or item.cost <= choice.cost * _NEAR]
            near += [choice] if choice is not None else []
    if not near:
        return _refusal(held, memory_bytes, dtype, lengths)
    best = min(near, key=aim.rank)
    pools = ((best.page_bytes, best.fits),)
    return _plan(held, pools, memory_bytes=memory_bytes, dtype=dtype, lengths=lengths, rules=rules)


def split_plan(
    groups: Iterable[CacheGroup],
    *,
    memory_bytes: int,
    dtype: Dtype,
    lengths: tuple[Length, ...],
    rules: PageRules = _RULES,
) -> PagePlan | Refusal:
    """A pool for each family instead, in the proportion that these lengths need.

    Nothing is padded, so no plan holds more of exactly these requests; but a pool can't lend pages to another, so
    with other lengths one pool is full while others aren't.
    """
    held = tuple(group for group in groups if group.layers)
    if not held:
        return _refusal(held, memory_bytes, dtype, lengths)
    arranged = next(families(held, dtype=dtype, block=rules.block))
    pools = []
    for family in arranged:
        page_bytes = -(-family.step_bytes(1) // rules.align) * rules.align
        pools.append((page_bytes, family.fits(page_bytes, 1)))
    return _plan(held, tuple(pools), memory_bytes=memory_bytes, dtype=dtype, lengths=lengths, rules=rules)


def plain_requests(
    groups: Iterable[CacheGroup], *, memory_bytes: int, dtype: Dtype, tokens: int, rules: PageRules = _RULES
) -> int:
    """Requests of `tokens` tokens that plain paging holds: the baseline.

    One block table for all layers, in each of them entries of the largest size that any layer has, and nothing is
    forgotten. States and an encoder's keys lie beside the pages, to the byte.
    """
    held = tuple(group for group in groups if group.layers)
    paged = [group for group in held if group.kind not in (CacheKind.STATE, CacheKind.CROSS)]
    entry: Counter[int] = Counter()
    for group in paged:
        size = group.entry_values * DTYPE_BYTES[dtype]
        entry.update(dict.fromkeys(group.layers, size))
    block = rules.block * len(entry) * max(entry.values(), default=0)
    beside = request_bytes((group for group in held if group not in paged), tokens=0, dtype=dtype)
    each = -(-tokens // rules.block) * block + beside
    return max(0, memory_bytes - block) // each if each else 0


def _page_sizes(arranged: tuple[Family, ...], memory_bytes: int, rules: PageRules) -> Iterator[int]:
    """Sizes at which some family's pages come out full; states, which can't be cut, are also filled up to those."""
    sizes: set[int] = set()
    for family in arranged:
        for step in family.steps(rules.tables_max):
            sizes.update(step * times for times in _MULTIPLES)
            for other in arranged:
                if other.kind is CacheKind.STATE and family.kind is not CacheKind.STATE:
                    sizes.update(-(-states // step) * step for states in other.steps(rules.tables_max))
    least = memory_bytes // rules.pages_max
    yield from sorted({-(-size // rules.align) * rules.align for size in sizes if least <= size <= memory_bytes})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """One way to cut the memory."""

    cost: float
    page_bytes: int
    fits: tuple[Fit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Aim:
    """What a choice is judged by."""

    memory_bytes: int
    lengths: tuple[Length, ...]
    rules: PageRules

    def cost(self, fit: Fit) -> float:
        """Bytes of the memory that requests take on average, page ids included, and the price of the tables.

        The page that is set aside and the end of the memory are shared among all pages.
        """
        usable = self.memory_bytes // fit.page_bytes - 1
        if usable < 1:
            return math.inf
        pages = sum(length.share * fit.expected_pages(length) for length in self.lengths)
        held = pages * (self.memory_bytes / usable + self.rules.entry_bytes)
        return held * (1 + self.rules.table_price * fit.count)

    def rank(self, choice: _Choice) -> tuple[int, float]:
        """Where all lengths are exact, one more whole request counts before a little less cost."""
        if not all(length.exact for length in self.lengths):
            return 0, choice.cost
        total = sum(length.share for length in self.lengths)
        pages = sum(length.share * fit.pages(length.tokens) for length in self.lengths for fit in choice.fits) / total
        return -int((self.memory_bytes // choice.page_bytes - 1) // pages), choice.cost

    def least(self, family: Family) -> float:
        """What no fit of a family can go below."""
        return sum(length.share * family.useful_bytes(length.tokens) for length in self.lengths)


def _choice(
    families_least: Sequence[tuple[float, Family]], page_bytes: int, aim: _Aim, *, bound: float
) -> _Choice | None:
    """The best arrangement at this page size; None if it costs more than `bound`, as soon as that is sure."""
    cost = sum(least for least, _ in families_least)
    fits = []
    for least, family in families_least:
        tried = family.fits(page_bytes, aim.rules.tables_max)
        if not tried:
            return None
        part, fit = min(((aim.cost(fit), fit) for fit in tried), key=lambda item: item[0])
        cost += part - least
        if not cost < bound:
            return None
        fits.append(fit)
    if sum(fit.count for fit in fits) > aim.rules.tables_max:
        return None
    return _Choice(cost=cost, page_bytes=page_bytes, fits=tuple(fits))


def _plan(
    groups: tuple[CacheGroup, ...],
    pools: tuple[tuple[int, tuple[Fit, ...]], ...],
    *,
    memory_bytes: int,
    dtype: Dtype,
    lengths: tuple[Length, ...],
    rules: PageRules,
) -> PagePlan | Refusal:
    total = sum(length.share for length in lengths)

    def mean(figure: Callable[[int], float]) -> float:
        return sum(length.share * figure(length.tokens) for length in lengths) / total

    def pages_of(fits: tuple[Fit, ...]) -> float:
        return mean(lambda tokens: sum(fit.pages(tokens) for fit in fits))

    needed = [pages_of(fits) for _, fits in pools]
    aside = sum(page_bytes for page_bytes, _ in pools)
    each = sum(page_bytes * pages for (page_bytes, _), pages in zip(pools, needed, strict=True))
    requests = int((memory_bytes - aside) // each)
    if requests < 1:
        return _refusal(groups, memory_bytes, dtype, lengths)
    made = []
    for (page_bytes, fits), pages in zip(pools, needed, strict=True):
        share = memory_bytes if len(pools) == 1 else page_bytes * (1 + math.ceil(requests * pages))
        made.append(Pool(page_bytes=page_bytes, pages=share // page_bytes, tables=_tables(fits, groups)))
    return PagePlan(
        pools=tuple(made),
        requests=requests,
        tokens=int(requests * mean(lambda tokens: tokens)),
        request_pages=sum(needed),
        request_bytes=each + rules.entry_bytes * sum(needed),
        useful_bytes=mean(lambda tokens: request_bytes(groups, tokens=tokens, dtype=dtype)),
    )


def _tables(fits: Iterable[Fit], groups: tuple[CacheGroup, ...]) -> tuple[PageTable, ...]:
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


def _refusal(groups: tuple[CacheGroup, ...], memory_bytes: int, dtype: Dtype, lengths: tuple[Length, ...]) -> Refusal:
    longest = max(length.tokens for length in lengths)
    needed = request_bytes(groups, tokens=longest, dtype=dtype)
    fits = ("give the cache more memory", "shorten requests", "keep the cache in fp8")
    return Refusal(
        field="memory_bytes",
        value=str(memory_bytes),
        limit=f"{needed} bytes for one request of {longest} tokens, and room for its pages",
        causes=("the cache of one request doesn't fit",) if groups else ("this stage keeps no cache",),
        fix=fits if groups else ("plan pages for stages with a cache only",),
    )
