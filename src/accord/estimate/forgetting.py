"""Families of layers that forget alike, and how many pages a request needs for them.

In: cache groups, a dtype, the smallest block of tokens. Out: `Family`, `Fit`. Invariant: the pages of a request are
the most that it holds on its way to its length, where a page is given back once all its tokens are forgotten.
"""

import functools
import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from accord.estimate.cache import group_bytes
from accord.terms.cache import CacheGroup, CacheKind
from accord.terms.pages import Length
from accord.terms.tensors import DTYPE_BYTES, Dtype


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Groups whose layers keep the same tokens, each as (layers, bytes of `step` tokens, or of a state, in one)."""

    kind: CacheKind
    names: tuple[str, ...]
    members: tuple[tuple[int, int], ...]
    step: int
    window: int | None

    def counts(self, most: int) -> tuple[int, ...]:
        """Numbers of tables worth trying: those at which some page has fewer layers than with one table less."""
        return _counts(tuple(layers for layers, _ in self.members), most)

    def page_layers(self, count: int) -> tuple[int, ...]:
        """Layers of each group in one page, with `count` tables."""
        return tuple(-(-layers // count) for layers, _ in self.members)

    def step_bytes(self, count: int) -> int:
        """Bytes of `step` tokens (or one state) of all layers of one table."""
        return sum(-(-layers // count) * size for layers, size in self.members)

    def steps(self, most: int) -> tuple[int, ...]:
        """`step_bytes` of each number of tables worth trying."""
        return _steps(self.members, self.counts(most))

    def useful_bytes(self, tokens: int) -> float:
        """Bytes that a request of this length needs here; compressed entries count in part."""
        each = sum(layers * size for layers, size in self.members)
        match self.kind:
            case CacheKind.STATE:
                return each
            case CacheKind.CROSS:
                return each * (self.window or 0) / self.step
            case _:
                return each * min(tokens, self.window or tokens) / self.step

    def fits(self, page_bytes: int, most: int) -> "tuple[Fit, ...]":
        """This family in pages of this size, in up to `most` tables; of states, only the fewest tables make sense."""
        found = []
        for count, step_bytes in zip(self.counts(most), self.steps(most), strict=True):
            if steps := page_bytes // step_bytes:
                tokens = 0 if self.kind is CacheKind.STATE else steps * self.step
                found.append(Fit(family=self, count=count, page_bytes=page_bytes, page_tokens=tokens))
                if not tokens:
                    break
        return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A family in pages of `page_bytes`, in `count` tables, `page_tokens` tokens a page."""

    family: Family
    count: int
    page_bytes: int
    page_tokens: int

    @property
    def filled_bytes(self) -> int:
        """Bytes of a full page that hold entries."""
        steps = self.page_tokens // self.family.step if self.page_tokens else 1
        return steps * self.family.step_bytes(self.count)

    def pages(self, tokens: int) -> int:
        """The most pages that a request of this length holds at one time."""
        return self.count * self._peak(tokens, self.page_tokens)

    def expected_pages(self, length: Length) -> float:
        """The same, averaged over lengths that end anywhere in a page unless this one is exact."""
        tokens, page, window = length.tokens, self.page_tokens, self.family.window
        if length.exact or not page or self.family.kind is CacheKind.CROSS:
            return self.pages(tokens)
        spread = self.count * (tokens / page + (1 - 1 / page) / 2)
        return spread if window is None or tokens <= window else min(spread, self.pages(tokens))

    def _peak(self, tokens: int, page: int) -> int:
        window = self.family.window
        match self.family.kind:
            case CacheKind.STATE:
                return 1
            case CacheKind.CROSS:
                return -(-(window or 0) // page)
            case CacheKind.WINDOW if window is not None and tokens > window:
                return min(-(-tokens // page), -(-(window - 1) // page) + 1)  # it may begin anywhere in a page
            case CacheKind.CHUNK if window is not None and tokens > window:
                return min(-(-tokens // page), -(-window // page) + (window % page > 0))
            case _:
                return -(-tokens // page)


def families(groups: Iterable[CacheGroup], *, dtype: Dtype, block: int) -> Iterator[tuple[Family, ...]]:
    """Ways to arrange the groups: those that forget alike together, or each alone."""
    alike: defaultdict[tuple[CacheKind, int | None], list[CacheGroup]] = defaultdict(list)
    for group in groups:
        alike[_forgets(group)].append(group)
    ways = []
    for members in alike.values():
        together = (_family(members, dtype=dtype, block=block),)
        alone = tuple(_family([group], dtype=dtype, block=block) for group in members)
        ways.append((together, alone) if len(members) > 1 else (together,))
    for chosen in itertools.product(*ways):
        yield tuple(itertools.chain(*chosen))


def _forgets(group: CacheGroup) -> tuple[CacheKind, int | None]:
    match group.kind:
        case CacheKind.FULL | CacheKind.LATENT | CacheKind.INDEX | CacheKind.COMPRESSED:
            return CacheKind.FULL, None
        case CacheKind.STATE:
            return CacheKind.STATE, None
        case _:
            return group.kind, group.window


def _family(groups: list[CacheGroup], *, dtype: Dtype, block: int) -> Family:
    kind, window = _forgets(groups[0])
    step = math.lcm(block, *(group.ratio for group in groups))
    return Family(
        kind=kind,
        names=tuple(group.name for group in groups),
        members=tuple((len(group.layers), _size(group, step, dtype)) for group in groups),
        step=step,
        window=window,
    )


def _size(group: CacheGroup, step: int, dtype: Dtype) -> int:
    if group.kind is CacheKind.STATE:
        return group_bytes(group, tokens=0, dtype=dtype) // len(group.layers)
    return step // group.ratio * group.entry_values * DTYPE_BYTES[dtype]


@functools.lru_cache(maxsize=4096)
def _counts(layers: tuple[int, ...], most: int) -> tuple[int, ...]:
    seen: dict[tuple[int, ...], int] = {}
    for count in range(1, min(max(layers), most) + 1):
        seen.setdefault(tuple(-(-each // count) for each in layers), count)
    return tuple(seen.values())


@functools.lru_cache(maxsize=4096)
def _steps(members: tuple[tuple[int, int], ...], counts: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sum(-(-layers // count) * size for layers, size in members) for count in counts)
