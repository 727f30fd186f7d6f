"""Kernel times that others measured: the tables of the package `aiconfigurator-core`, where it is installed.

In: a device kind, an engine. Out: a `Calibration`. Invariant: rows are taken evenly over all shapes that models have,
never by how well they fit; nothing of the tables is kept but those rows.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TypeAlias

from accord.estimate.calibrate import reached
from accord.terms.calibration import Calibration, Kernel, Sample
from accord.terms.errors import BadInput, BrokenEdge
from accord.terms.tensors import Math

PACKAGE = "aiconfigurator-core"
ENGINES: Mapping[str, str] = {"vllm": "vllm", "sglang": "sglang", "tensorrt-llm": "trtllm"}
SYSTEMS: Mapping[str, str] = {
    "a100-80g": "a100_sxm", "h100": "h100_sxm", "h200": "h200_sxm", "b200": "b200_sxm", "b300": "b300_sxm",
    "gb200": "gb200", "gb300": "gb300", "l40s": "l40s",
}  # fmt: skip
# Blocks of scales are what models in FP8 have; the tables' plain `fp8` is one scale a matrix.
_MATHS: Mapping[str, tuple[Math, float]] = {
    "bfloat16": (Math.BF16, 2.0), "fp8_block": (Math.FP8, 1.0), "nvfp4": (Math.FP4, 0.5625),
}  # fmt: skip
_ROWS = 240  # of each table and format
_ACTIVATION_BYTES = 2

Cell: TypeAlias = "int | float | str"
Row: TypeAlias = "Mapping[str, Cell]"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """Where a table lies, which of its rows count, and what a row says."""

    path: str
    wanted: Callable[[Row], bool]
    sample: Callable[[Row], Sample]


def kernel_calibration(kind: str, engine: str, *, taken: str) -> Calibration:
    """What the tables say of this kind with this engine. BadInput where they have nothing of it."""
    data = _data()
    if engine not in ENGINES:
        raise BadInput(field="--engine", value=engine, problem="no tables", fix=f"use one of {', '.join(ENGINES)}")
    system = SYSTEMS.get(kind)
    if system is None or not (data / system / "gemm" / ENGINES[engine]).is_dir():
        raise BadInput(field="DEVICE", value=kind, problem="no tables", fix=f"use one of {', '.join(SYSTEMS)}")
    samples = tuple(sample for table in _tables() for sample in _samples(data / system, table, ENGINES[engine]))
    newest = _newest(data / system / "gemm" / ENGINES[engine])
    return Calibration(
        kind=kind,
        engine=engine,
        machine=system,
        tool=f"kernel tables of {PACKAGE} {version(PACKAGE)}, {engine} {newest.name}",
        taken=taken,
        reached=reached(samples),
        samples=samples,
    )


def _data() -> Path:
    try:
        import aiconfigurator_core
        from pyarrow import parquet  # noqa: F401, read with further below
    except ModuleNotFoundError as error:
        text = f"kernel tables: the package of the module {error.name} isn't installed; pip install 'accord-ai[tables]'"
        raise BrokenEdge(text) from error
    return Path(str(aiconfigurator_core.__file__)).parent / "systems" / "data"


def _newest(folder: Path) -> Path:
    """The table of the latest version; names are compared number by number."""
    return max(folder.iterdir(), key=lambda path: [int(part) for part in path.name.split(".") if part.isdigit()])


def _tables() -> tuple[_Table, ...]:
    return (
        _Table(path="gemm/{engine}/gemm_perf.parquet", wanted=_is_gemm, sample=_gemm),
        _Table(path="moe/{engine}/moe_perf.parquet", wanted=_is_experts, sample=_experts),
        _Table(path="attention/{engine}/context_attention_perf.parquet", wanted=_is_attention, sample=_prefill),
        _Table(path="attention/{engine}/generation_attention_perf.parquet", wanted=_is_attention, sample=_decode),
        _Table(path="comm/{engine}/custom_allreduce_perf.parquet", wanted=_is_reduction, sample=_reduction),
    )


def _samples(system: Path, table: _Table, engine: str) -> Iterator[Sample]:
    """Evenly many rows of each format, in the order of their shapes."""
    from pyarrow import parquet

    folder, _, name = table.path.format(engine=engine).rpartition("/")
    if not (system / folder).is_dir():
        return
    path = _newest(system / folder) / name
    if not path.is_file():
        return
    rows: list[Row] = [row for row in parquet.read_table(path).to_pylist() if table.wanted(row)]
    for math in sorted({_format(row) for row in rows}):
        same = sorted((row for row in rows if _format(row) == math), key=lambda row: float(row["latency"]))
        step = max(1, len(same) // _ROWS)
        yield from (table.sample(row) for row in same[step // 2 :: step])


def _format(row: Row) -> str:
    return str(row.get("gemm_dtype") or row.get("moe_dtype") or "")


def _is_gemm(row: Row) -> bool:
    large = min(int(row["n"]), int(row["k"])) >= 1024
    return row["gemm_dtype"] in _MATHS and large and int(row["m"]) <= 16384


def _gemm(row: Row) -> Sample:
    rows, columns, inner = int(row["m"]), int(row["n"]), int(row["k"])
    math, size = _MATHS[str(row["gemm_dtype"])]
    return Sample(
        kernel=Kernel.GEMM,
        math=math,
        words=f"{rows} x {inner} times {inner} x {columns}",
        flops=2.0 * rows * columns * inner,
        moved_bytes=size * columns * inner + _ACTIVATION_BYTES * rows * (columns + inner),
        seconds=float(row["latency"]) / 1e3,
    )


def _is_experts(row: Row) -> bool:
    alone = row["moe_tp_size"] == 1 and row["moe_ep_size"] == 1
    return row["moe_dtype"] in _MATHS and alone and row["distribution"] == "balanced"


def _experts(row: Row) -> Sample:
    units, hidden, inner = int(row["num_tokens"]), int(row["hidden_size"]), int(row["inter_size"])
    experts, chosen = int(row["num_experts"]), int(row["topk"])
    math, size = _MATHS[str(row["moe_dtype"])]
    touched = experts * (1.0 - (1.0 - chosen / experts) ** units)
    return Sample(
        kernel=Kernel.EXPERTS,
        math=math,
        words=f"{units} tokens to {chosen} of {experts} experts, {hidden} x {inner}",
        flops=6.0 * hidden * inner * units * chosen,
        moved_bytes=size * 3 * hidden * inner * touched + _ACTIVATION_BYTES * 3 * (hidden + inner) * units * chosen,
        seconds=float(row["latency"]) / 1e3,
    )


def _is_attention(row: Row) -> bool:
    plain = row["window_size"] == 0 and row["head_dim"] == 128 and row["kv_cache_dtype"] == "bfloat16"
    return plain and row["attn_dtype"] == "bfloat16"


def _prefill(row: Row) -> Sample:
    count, new, heads, head = (int(row[name]) for name in ("batch_size", "isl", "num_heads", "head_dim"))
    return Sample(
        kernel=Kernel.PREFILL,
        words=f"{count} x {new} new tokens, {heads} heads of {head}",
        flops=4.0 * count * heads * head * new * (new + 1) / 2,
        moved_bytes=_ACTIVATION_BYTES * 2.0 * count * head * new * (heads + int(row["num_key_value_heads"])),
        seconds=float(row["latency"]) / 1e3,
    )


def _decode(row: Row) -> Sample:
    count, seen, heads, head = int(row["batch_size"]), int(row["step"]) + 1, int(row["num_heads"]), int(row["head_dim"])
    return Sample(
        kernel=Kernel.DECODE,
        words=f"{count} tokens after {seen - 1} each, {heads} heads of {head}",
        flops=4.0 * count * heads * head * seen,
        moved_bytes=_ACTIVATION_BYTES * 2.0 * count * head * (int(row["num_key_value_heads"]) * seen + heads),
        seconds=float(row["latency"]) / 1e3,
    )


def _is_reduction(row: Row) -> bool:
    return "eager" not in str(row["kernel_source"])  # engines capture graphs


def _reduction(row: Row) -> Sample:
    ranks, values = int(row["num_gpus"]), int(row["message_size"])
    return Sample(
        kernel=Kernel.ALL_REDUCE,
        words=f"{values} values of {ranks} ranks",
        flops=0.0,
        moved_bytes=float(_ACTIVATION_BYTES * values),
        seconds=float(row["latency"]) / 1e3,
        ranks=ranks,
    )
