"""A KV page plan: how the memory of caches is cut into pages for a model whose layers differ.

In: nothing. Out: `PagePlan`, `PageRules`, `Length`. Invariant: all pages of one pool have one size; a page of a table
holds `page_tokens` tokens of the same layers, whatever table it serves next.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Length:
    """Requests that reach `tokens` tokens, and their share of all requests.

    `exact`: each reaches just this length (a full context, a benchmark). Otherwise lengths lie around it and end
    anywhere in a page, so that no page size is chosen because a round length happens to fill its last page.
    """

    tokens: int
    share: float = 1.0
    exact: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRules:
    """What an engine can build.

    `blocks`: a page holds a multiple of so many tokens. 16 suits all attention kernels; some read finer pages, such as
    FlashInfer's (SGLang's pages have 1 token by default). The first that wastes at most `waste_max` is taken.
    `tables_max`: block tables of one request. `table_price`: a further block table must save this part of the memory,
    since the scheduler fills one more array for it each step. `pages_max`: page ids in all. `entry_bytes`: one page id
    in a block table. `align`: page sizes are multiples of so many bytes.
    """

    blocks: tuple[int, ...] = (16, 8, 4, 2, 1)
    waste_max: float = 0.04
    tables_max: int = 64
    table_price: float = 0.0001
    pages_max: int = 1 << 22
    entry_bytes: int = 4
    align: int = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class PageTable:
    """`count` block tables that are alike, each for up to `page_layers` of each group's layers.

    `page_tokens` is how many tokens a page holds; 0: a page holds one request's states. `filled_bytes` of a page hold
    entries when it is full; the rest is padding.
    """

    groups: tuple[str, ...]
    count: int
    page_layers: tuple[int, ...]
    page_tokens: int
    filled_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """`pages` pages of `page_bytes`, which these tables share."""

    page_bytes: int
    pages: int
    tables: tuple[PageTable, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PagePlan:
    """Pools, and what fits. Pages hold multiples of `block` tokens.

    `requests` are whole requests of the stated lengths that fit at once, `tokens` theirs. `request_pages` and
    `request_bytes` are held by one request (the mean of a mix), page ids included; `useful_bytes` of them hold entries
    that it needs. `waste` is the rest, as a part of `request_bytes`: unused ends of pages, padding of pages, tokens
    that have left a window but not their page, page ids.
    """

    pools: tuple[Pool, ...]
    block: int
    requests: int
    tokens: int
    request_pages: float
    request_bytes: float
    useful_bytes: float

    @property
    def waste(self) -> float:
        """Part of a request's bytes that holds nothing useful."""
        return 1.0 - self.useful_bytes / self.request_bytes
