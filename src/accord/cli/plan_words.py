"""The words of a plan for a fleet: a table of its pools, what is promised, what it stands on.

In: a `FleetPlan`. Out: lines of plain text, no wider than the terminal. Invariant: every figure comes from the plan.
"""

import itertools
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.text import Text

from accord.cli.table import size, table_lines
from accord.edges.name_range import compress
from accord.explain import Topic, account_lines, promise_rows
from accord.terms import units
from accord.terms.account import PoolAccount
from accord.terms.fleet_plan import FleetPlan, Parallel, Pool, Role
from accord.terms.gang import Need
from accord.terms.tensors import Dtype, Quantization

_HEADING = ("stage", "devices", "parallel", "replicas", "batch", "util", "memory", "$/h", "formats", "on")

_HEADINGS = re.compile(r"\s+(stage|predicted)\s.*(?<!\.)$")
_TITLES = re.compile(r"  [A-Z][a-z' ]*$")
_COLOURS = (
    (r"(?<=\s)met$", "green"),
    (r"(?<=\s)missed$", "bold red"),
    (r"^\s*Refused:", "bold red"),
    (r"\bassumed\b", "yellow"),
    (r"\bmeasured\b", "green"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """One pool, its part's needs, and its account where there is one."""

    pool: Pool
    need: Need
    nodes: tuple[str, ...]
    account: PoolAccount | None


def fleet_plan_lines(plan: FleetPlan, *, width: int) -> Iterator[str]:
    """The table, the promises, and what they stand on."""
    yield from pool_lines(plan, width=width)
    if plan.account is not None:
        if plan.account.predicted:
            yield from table_lines(promise_rows(plan.account), width=width)
        notes = (f"note: {remark}" for remark in plan.account.remarks)
        yield from wrapped((*account_lines(plan.account), *notes), width=width, indent=2)


def pool_lines(plan: FleetPlan, *, width: int) -> Iterator[str]:
    """A row for each pool; columns that say nothing are left out."""
    rows = [_cells(row) for row in _rows(plan)]
    used = [number for number, cells in enumerate(zip(*rows, strict=True)) if any(cell != "" for cell in cells)]
    shown = [tuple(row[number] for number in used) for row in (_HEADING, *rows)]
    yield from table_lines(shown, width=width)


def topic_lines(topics: Sequence[Topic], *, width: int) -> Iterator[str]:
    """Each topic under its title."""
    for topic in topics:
        yield f"  {topic.title}"
        yield from wrapped(topic.lines, width=width, indent=4)


def wrapped(sentences: Iterable[str], *, width: int, indent: int) -> Iterator[str]:
    """Sentences no wider than the terminal; what goes on stands further in."""
    for sentence in sentences:
        yield from textwrap.wrap(
            sentence,
            width=max(40, width),
            initial_indent=" " * indent,
            subsequent_indent=" " * (indent + 2),
            break_long_words=False,
            break_on_hyphens=False,
        )


def _rows(plan: FleetPlan) -> Iterator[_Row]:
    needs = {part.name: part.need for part in plan.gang.parts}
    accounts = {} if plan.account is None else {item.pool: item for item in plan.account.pools}
    for pool in plan.pools:
        nodes = tuple(dict.fromkeys(seat.node for seat in plan.seats if seat.part == pool.part))
        yield _Row(pool=pool, need=needs[pool.part], nodes=nodes, account=accounts.get(pool.name))


def _cells(row: _Row) -> tuple[str, ...]:
    pool, account = row.pool, row.account
    figures = ("", "", "") if account is None else _account_cells(account)
    return (
        _stage(pool),
        _devices(pool, row.need),
        parallel_words(pool.parallel),
        str(pool.replicas),
        _batch(pool),
        *figures,
        _formats(pool),
        _nodes(row.nodes),
    )


def _account_cells(account: PoolAccount) -> tuple[str, str, str]:
    used, most = size(account.memory_bytes), size(account.memory_bytes_max)
    same = most.lstrip("0123456789.") == used.lstrip("0123456789.")
    memory = f"{used.rstrip('KMGTiB') if same else used} of {most}"
    cost = account.cost_usd_per_hour
    return (f"{account.utilisation:.0%}", memory, "?" if cost is None else f"{cost:.4g}")


def _stage(pool: Pool) -> str:
    return pool.stage if pool.role is Role.WHOLE else f"{pool.stage}.{pool.role}"


def painted(line: str) -> Text:
    """The line with its verdicts and sources in colour, for terminals that have any."""
    text = Text(line)
    if _HEADINGS.match(line):
        text.stylize("dim")
    if _TITLES.match(line):
        text.stylize("bold")
    for pattern, style in _COLOURS:
        text.highlight_regex(pattern, style=style)
    return text


def _devices(pool: Pool, need: Need) -> str:
    if need.share:
        return f"{pool.replicas} x {units.format_share(need.share, digits=3)} of {pool.kind}"
    cards = need.cards * pool.nodes * pool.replicas
    return f"{cards} x {pool.kind}" if cards else f"{pool.replicas} x {need.cpus:g} cores"


def _nodes(names: tuple[str, ...]) -> str:
    """Names of one pattern are written as it."""
    found = []
    for _, group in itertools.groupby(sorted(names), key=lambda name: re.sub(r"[0-9]+", "#", name)):
        alike = list(group)
        found.append(compress(alike) or ",".join(alike))
    return ",".join(found)


def parallel_words(parallel: Parallel) -> str:
    """ "tp4 ep8"; "-" where one device holds it all."""
    counts = (("tp", parallel.tensor), ("pp", parallel.pipeline), ("dp", parallel.data), ("ep", parallel.expert))
    return " ".join(f"{name}{count}" for name, count in counts if count > 1) or "-"


def _batch(pool: Pool) -> str:
    """A prefill's batch is counted in tokens, as the design of every engine does."""
    if pool.role is Role.PREFILL and pool.chunk_tokens is not None:
        return f"{pool.chunk_tokens:,} tok"
    return "" if pool.batch_max is None else str(pool.batch_max)


def _formats(pool: Pool) -> str:
    """What isn't the usual: quantized weights, caches in other formats than bf16."""
    words = []
    if pool.quantization not in (None, Quantization.NONE):
        words.append(str(pool.quantization))
    if pool.cache_dtype not in (None, Dtype.BF16):
        words.append(f"kv {pool.cache_dtype}")
    return ", ".join(words)
