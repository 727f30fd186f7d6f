"""What a profiler and its child tell each other, over the child's stdin and stdout.

In: typed values. Out: msgpack. Invariant: one `Order` in, one `Report` out, then the child ends.
"""

import msgspec

from accord.run.ports import EngineSpec
from accord.terms.graph import Payload
from accord.terms.request import Params, Usage

# Stands in a piece's data for the job's number, so that no job finds another's work in a cache.
NUMBER = b"{{number}}"


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """One chunk that a job is fed."""

    source: str
    payload: Payload
    data: bytes
    index: int = 0
    meta: bytes = b""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """`copies` like jobs at once, over and over for `time_s_max`, at least 3 and at most 20 times."""

    name: str
    pieces: tuple[Piece, ...]
    params: Params = Params()
    copies: int = 1
    keep_output: bool = False


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """One engine, and what to try with it."""

    spec: EngineSpec
    trials: tuple[Trial, ...]
    time_s_max: float


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a trial: seconds inside the engine until the first output, and in all.

    `written` counts the tokens that all jobs of the run have written.
    """

    first_s: float
    total_s: float
    written: int


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """All runs of a trial. `usage` and `output` are those of one job of the last run."""

    name: str
    runs: tuple[Run, ...]
    usage: Usage
    output_bytes: int
    output: tuple[Piece, ...] = ()


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured, or why it could not be."""

    results: tuple[Result, ...] = ()
    load_s: float = 0.0
    broken: str | None = None


def pack(message: Order | Report) -> bytes:
    """A message as bytes."""
    return msgspec.msgpack.encode(message)


def unpack_order(data: bytes) -> Order:
    """The order in these bytes."""
    return msgspec.msgpack.decode(data, type=Order)


def unpack_report(data: bytes) -> Report:
    """The report in these bytes; msgspec.DecodeError if they are none."""
    return msgspec.msgpack.decode(data, type=Report)
