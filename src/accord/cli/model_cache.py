"""The words of `accord model` on caches: what a request keeps, by group of layers, and how pages hold it.

In: a `Summary`. Out: lines of plain text. Invariant: the rows of a stage add up to its last one.
"""

import textwrap
from collections.abc import Iterator

from accord.cli.table import Rows, article, count, plural, size, table_lines
from accord.estimate.summary import CacheRow, PageRow, StageRow, Summary
from accord.terms.cache import CacheGroup, CacheKind
from accord.terms.pages import PagePlan, PageRules, PageTable, Pool
from accord.terms.refusal import Refusal

_KINDS = {CacheKind.INDEX: "index keys", CacheKind.CROSS: "cross, at most"}


def cache_lines(found: Summary, width: int) -> Iterator[str]:
    """One table for each stage that keeps anything."""
    full = found.architecture.context_max
    for row in found.stages:
        if not row.cache:
            continue
        unit = row.needs.unit
        heads = [f"{row.usual_tokens:,} {unit}s", *([] if full is None else [f"{full:,} {unit}s"])]
        rows: Rows = [("layers", "kind", "entry", article(unit), *heads)]
        rows += [_row(item) for item in row.cache]
        if len(row.cache) > 1:
            rows.append(_sum(row))
        yield ""
        yield f"  What {row.stage.name} keeps of a request, bf16 / fp8; entry: heads x (key + value)"
        yield from table_lines(rows, width=width, keys=2)


def page_lines(found: Summary, width: int) -> Iterator[str]:
    """How caches fill the memory that was asked about."""
    if found.example.memory_bytes is None:
        return
    for row in found.stages:
        if not row.pages:
            continue
        yield ""
        memory = size(found.example.memory_bytes)
        yield f"  Pages for {row.stage.name} in {memory}: requests of {plural(row.usual_tokens, row.needs.unit)}"
        for item in row.pages:
            for line in _page_words(item):
                more = " " * (8 if line.startswith(" ") else 6)
                yield from textwrap.wrap(line, max(40, width), initial_indent="    ", subsequent_indent=more)


def _row(row: CacheRow) -> tuple[str, ...]:
    kept = [row.usual_bytes, *([] if row.full_bytes is None else [row.full_bytes])]
    more = _both(row.token_bytes) if row.token_bytes[0] else "-"
    return (_layers(row.group), _kind(row.group), _entry(row.group), more, *(_both(item) for item in kept))


def _sum(row: StageRow) -> tuple[str, ...]:
    more, usual = _total([item.token_bytes for item in row.cache]), _total([item.usual_bytes for item in row.cache])
    full = [item.full_bytes for item in row.cache if item.full_bytes is not None]
    return ("all", "", "", _both(more), _both(usual), *([_both(_total(full))] if full else []))


def _total(pairs: list[tuple[float, float]] | list[tuple[int, int]]) -> tuple[float, float]:
    return sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)


def _both(pair: tuple[float, float]) -> str:
    return f"{size(pair[0])} / {size(pair[1])}"


def _layers(group: CacheGroup) -> str:
    return str(len(group.layers))


def _kind(group: CacheGroup) -> str:
    if group.kind is CacheKind.STATE:
        return f"state: {group.name.removesuffix('.state')}"
    words = _KINDS.get(group.kind, str(group.kind))
    if group.window is not None:
        words += f" {group.window:,}"
    return f"{words}, 1 for {group.ratio}" if group.ratio > 1 else words


def _entry(group: CacheGroup) -> str:
    if group.kind is CacheKind.STATE:
        return f"{count(group.state_values)} values in {group.state_dtype}"
    heads = f"{group.heads} x " if group.heads > 1 else ""
    sides = str(group.key_dim) if not group.value_dim else f"({group.key_dim} + {group.value_dim})"
    return heads + sides


def _page_words(row: PageRow) -> Iterator[str]:
    match row.plan:
        case Refusal() as refusal:
            yield f"{row.dtype}: {refusal.limit}; {', or '.join(refusal.fix)}"
        case PagePlan() as plan:
            yield (
                f"{row.dtype}: {plan.requests:,} requests ({plan.tokens:,} tokens) at once, {100 * plan.waste:.1f}% "
                f"waste; plain paging holds {row.plain_requests:,}{_block_words(plan)}"
            )
            yield from (_pool_words(pool) for pool in plan.pools)


def _block_words(plan: PagePlan) -> str:
    """Pages of 16 tokens go without saying."""
    fine = plan.block < PageRules().blocks[0] and any(table.page_tokens for pool in plan.pools for table in pool.tables)
    return f"; kernels must read pages of {plural(plan.block, 'token')}" if fine else ""


def _pool_words(pool: Pool) -> str:
    tables = "; ".join(_table_words(table) for table in pool.tables)
    return f"  {plural(pool.pages, 'page')} of {size(pool.page_bytes)}: {tables}"


def _table_words(table: PageTable) -> str:
    held = plural(table.page_tokens, "token") if table.page_tokens else "the states"
    layers = "+".join(map(str, table.page_layers))
    times = f"{table.count} tables" if table.count > 1 else "a table"
    return f"{times} for {' and '.join(table.groups)}, {held} of {layers} layers a page"
