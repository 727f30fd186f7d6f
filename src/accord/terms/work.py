"""What a stage computes, operator by operator.

In: nothing. Out: `Operator` (a tagged union) and `Load`. Invariant: an operator is data; FLOPs and bytes of a
load are computed in `estimate/work.py`.
"""

from dataclasses import dataclass
from enum import StrEnum

from accord.terms.tensors import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One step: each of `batch` sequences computes `new` units on top of `context` units that are there already.

    Units are the stage's: tokens, frames, patches, latent positions. For a denoiser `context` is the prompt's
    tokens; for a decoder it is what the cache holds.
    """

    new: int
    context: int = 0
    batch: int = 1


class Phase(StrEnum):
    """When an operator runs: some have another form when a step has one token a sequence."""

    ALWAYS = "always"
    PREFILL = "prefill"
    DECODE = "decode"


class Per(StrEnum):
    """How often a weight is applied."""

    UNIT = "unit"  # to each new unit
    CONTEXT = "context"  # to each unit of context
    BOTH = "both"  # to each new unit and to each unit of context
    SEQUENCE = "sequence"  # once a sequence and step


class OperatorClass(StrEnum):
    """Kinds that devices are fast or slow at."""

    GEMM = "gemm"
    CONVOLUTION = "convolution"
    EXPERTS = "experts"
    ATTENTION = "attention"
    SCAN = "scan"
    LOOKUP = "lookup"


@dataclass(frozen=True, slots=True, kw_only=True)
class MatMul:
    """`weight` applied `rate` times for each `per`, in each of the weight's layers and copies.

    A convolution is one, too: rows are output channels, columns are input channels of its group times the kernel's
    size, `rate` is output positions a unit.
    """

    weight: Tensor
    per: Per = Per.UNIT
    rate: float = 1.0
    convolution: bool = False
    phase: Phase = Phase.ALWAYS


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """Each new unit goes through `chosen` of `experts` copies of all `weights`."""

    name: str
    weights: tuple[Tensor, ...]
    experts: int
    chosen: int


class Reach(StrEnum):
    """Which keys a query sees."""

    CAUSAL = "causal"  # all up to itself
    ALL = "all"  # all new units and all context
    WINDOW = "window"  # the last `span` up to itself
    CHUNK = "chunk"  # those up to itself in its chunk of `span`
    BLOCK = "block"  # all of its block of `span` new units, before and after
    CHOSEN = "chosen"  # at most `span` of those up to itself
    CROSS = "cross"  # `span` keys that an encoder left, or all context where span is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Scores and the weighted sum: 2 * heads * (key_dim + value_dim) FLOPs for each pair of query and key.

    `key_heads` says how many heads keys and values have in memory. `ratio`: one key stands for this many units.
    `rate`: queries a unit. `value_dim` 0: scores only (an indexer). `values_in_keys`: values are a part of the keys
    in memory (MLA's latent, one tensor for both), so only keys are read. `per` CONTEXT: the queries are the context's
    units; they see each other as `reach` says, and the new units, too, where it is ALL. BOTH: all units are queries.
    """

    name: str
    layers: tuple[int, ...]
    heads: int
    key_heads: int
    key_dim: int
    value_dim: int
    reach: Reach
    span: int | None = None
    ratio: int = 1
    rate: float = 1.0
    phase: Phase = Phase.ALWAYS
    values_in_keys: bool = False
    per: Per = Per.UNIT


class ScanKind(StrEnum):
    """Recurrences over a sequence; estimate/work.py has the FLOPs of each."""

    MAMBA = "mamba"
    MAMBA2 = "mamba2"
    GATED_DELTA = "gated-delta"
    KIMI_DELTA = "kimi-delta"
    LIGHTNING = "lightning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """A recurrence with a state of heads x key_dim x value_dim, run in chunks of `chunk` units when there are many.

    `key_heads` is how many heads keys have (groups, for Mamba).
    """

    name: str
    layers: tuple[int, ...]
    kind: ScanKind
    heads: int
    key_heads: int
    key_dim: int
    value_dim: int
    chunk: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """Reads one row of `weight` for each `per`; no FLOPs."""

    weight: Tensor
    per: Per = Per.UNIT


Operator = MatMul | Experts | Attention | Scan | Lookup
