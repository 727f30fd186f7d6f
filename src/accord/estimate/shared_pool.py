"""One pool for all layers: pages of one size, in which each kind of layer keeps as many tokens as fit.

In: cache groups, a `Demand`. Out: `PoolDraft`, or None where no page size will do. Invariant: page size and numbers of
tables are chosen together, so that pages of all families come out nearly full.

Layers that forget alike form a family. A family's layers are dealt out to `count` block tables; a page of a table
holds the same tokens of all its layers, side by side: few layers and many tokens in one, many layers and few tokens in
another.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from accord.estimate.forgetting import Family, Fit, families
from accord.terms.cache import CacheGroup, CacheKind
from accord.terms.pages import Length, PageRules
from accord.terms.tensors import Dtype

_MULTIPLES = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64)  # blocks of tokens in a page
_NEAR = 1.001  # choices this near to the cheapest are compared by whole requests


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What is asked of a plan."""

    memory_bytes: int
    dtype: Dtype
    lengths: tuple[Length, ...]
    rules: PageRules


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolDraft:
    """A pool before its pages are counted."""

    page_bytes: int
    fits: tuple[Fit, ...]

    @property
    def aside_bytes(self) -> int:
        """One page takes the writes of padded rows of a batch, as in engines; recurrent kernels skip such rows."""
        return 0 if all(fit.family.kind is CacheKind.STATE for fit in self.fits) else self.page_bytes

    def pages(self, tokens: int) -> int:
        """The most pages that a request of this length holds at one time."""
        return sum(fit.pages(tokens) for fit in self.fits)


def shared_pool(groups: Sequence[CacheGroup], demand: Demand, *, block: int) -> PoolDraft | None:
    """The pool that wastes least for these lengths, with a small price on each block table."""
    near: list[_Choice] = []
    for arranged in families(groups, dtype=demand.dtype, block=block):
        largest_first = sorted(((_least(family, demand), family) for family in arranged), key=lambda item: -item[0])
        for page_bytes in _page_sizes(arranged, demand.memory_bytes, demand.rules):
            bound = min((choice.cost for choice in near), default=math.inf) * _NEAR
            choice = _choice(largest_first, page_bytes, demand, bound=bound)
            near = [item for item in near if choice is None or item.cost <= choice.cost * _NEAR]
            near += [choice] if choice is not None else []
    if not near:
        return None
    best = min(near, key=lambda choice: _rank(choice, demand))
    return PoolDraft(page_bytes=best.page_bytes, fits=best.fits)


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


def _cost(fit: Fit, demand: Demand) -> float:
    """Bytes of the memory that requests take on average, page ids included, and the price of the tables.

    The page that is set aside and the end of the memory are shared among all pages.
    """
    usable = demand.memory_bytes // fit.page_bytes - 1
    if usable < 1:
        return math.inf
    pages = sum(length.share * fit.expected_pages(length) for length in demand.lengths)
    held = pages * (demand.memory_bytes / usable + demand.rules.entry_bytes)
    return held * (1 + demand.rules.table_price * fit.count)


def _rank(choice: _Choice, demand: Demand) -> tuple[int, float]:
    """Where all lengths are exact, one more whole request counts before a little less cost."""
    if not all(length.exact for length in demand.lengths):
        return 0, choice.cost
    total = sum(length.share for length in demand.lengths)
    pages = sum(length.share * fit.pages(length.tokens) for length in demand.lengths for fit in choice.fits) / total
    return -int((demand.memory_bytes // choice.page_bytes - 1) // pages), choice.cost


def _least(family: Family, demand: Demand) -> float:
    """What no fit of a family can go below."""
    return sum(length.share * family.useful_bytes(length.tokens) for length in demand.lengths)


def _choice(
    families_least: Sequence[tuple[float, Family]], page_bytes: int, demand: Demand, *, bound: float
) -> _Choice | None:
    """The best arrangement at this page size; None if it costs more than `bound`, as soon as that is sure."""
    cost = sum(least for least, _ in families_least)
    fits = []
    for least, family in families_least:
        tried = family.fits(page_bytes, demand.rules.tables_max)
        if not tried:
            return None
        part, fit = min(((_cost(fit, demand), fit) for fit in tried), key=lambda item: item[0])
        cost += part - least
        if not cost < bound:
            return None
        fits.append(fit)
    if sum(fit.count for fit in fits) > demand.rules.tables_max:
        return None
    return _Choice(cost=cost, page_bytes=page_bytes, fits=tuple(fits))
