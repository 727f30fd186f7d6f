"""The measured rows of aiconfigurator-core, with what their labels mean.

In: `silicon_sample.csv` of the installed wheel (Apache-2.0). Out: `Row`s, one for each line, in its order. Invariant:
only columns that describe a configuration are read here; what was measured stands beside them, untouched.
"""

# What labels mean where they don't say it was found by comparing rows that are equal otherwise. `attention_dp_size` and
# `tp_size` of some dumps are products with the expert-parallel size. The concurrency is of the whole service, in
# `silicon_concurrency`. A "tp" of 12 and more on racks counts all devices of a disaggregated service.

import csv
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from accord.terms.layout import Layout

CARDS = {
    "MiniMaxAI/MiniMax-M2.5": "minimax-m2.5",
    "Qwen/Qwen3-235B-A22B-FP8": "qwen3-235b-a22b",
    "Qwen/Qwen3-32B": "qwen3-32b",
    "Qwen/Qwen3.5-397B-A17B": "qwen3.5-397b-a17b",
    "deepseek-ai/DeepSeek-R1": "deepseek-r1",
    "deepseek-ai/DeepSeek-V3": "deepseek-v3",
    "meta-llama/Llama-3.1-70B": "llama-3.1-70b",
    "meta-llama/Llama-3.1-8B-Instruct": "llama-3.1-8b",
    "moonshotai/Kimi-K2.5": "kimi-k2.5",
    "nvidia/DeepSeek-R1-NVFP4": "deepseek-r1",
    "nvidia/DeepSeek-V3.1-NVFP4": "deepseek-v3",
    "nvidia/Llama-3.1-8B-Instruct-FP8": "llama-3.1-8b",
    "nvidia/Qwen3-32B-NVFP4": "qwen3-32b",
    "openai/gpt-oss-120b": "gpt-oss-120b",
    "zhipuai/GLM-5": "glm-5",
}
DENSE = ("qwen3-32b", "llama-3.1-70b", "llama-3.1-8b")
_FORMATS = {"fp8": "fp8", "fp8_block": "fp8", "nvfp4": "fp4", "int4_wo": "int4", "": "bf16"}
_RACK = 12  # devices from which a "tp" counts a whole service
_NODE = ("h100", "h200")


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Replicas of one role: `ranks` devices each, `tensor` of which share a sequence; `experts` as labelled."""

    tensor: int
    data: int
    experts: int
    count: int = 1

    @property
    def ranks(self) -> int:
        return self.tensor * self.data

    def layout(self, *, dense: bool) -> Layout:
        """As `form` takes it: data-parallel attention deals experts to all ranks."""
        if dense:
            return Layout(tensor=self.tensor)
        return Layout(tensor=self.tensor, experts=self.ranks if self.data > 1 else math.gcd(self.experts, self.tensor))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measured configuration. `requests` are under way at each replica that writes.

    `even`: all requests have one length, so that they come and go together; else lengths vary from 80 to 100% of what
    is named. `reader` is None where one replica reads and writes. `drafts`: 1 if a draft model is used. `described`:
    whether the row itself says how many replicas it has.
    """

    name: str
    model: str
    kind: str
    engine: str
    release: str
    form: str
    inputs: float
    outputs: float
    even: bool
    requests: float
    writer: Side
    reader: Side | None
    drafts: float
    described: bool
    ttft_ms: float
    tpot_ms: float

    @property
    def architecture(self) -> str:
        """DeepSeek-R1 and V3 have the same tensors."""
        return self.model.replace("deepseek-r1", "deepseek-v3")

    @property
    def mode(self) -> str:
        return "aggregated" if self.reader is None else "disaggregated"

    @property
    def everyone(self) -> float:
        return self.requests * self.writer.count


def path() -> Path | None:
    """The file in the installed wheel."""
    spec = find_spec("aiconfigurator_core")
    if spec is None or spec.origin is None:
        return None
    found = Path(spec.origin).parent / "systems" / "silicon_sample.csv"
    return found if found.exists() else None


def rows(file: Path) -> list[Row]:
    """All of them."""
    with file.open(encoding="utf-8", newline="") as lines:
        read = [_row(line) for line in csv.DictReader(lines)]
    known = [row for row in read if row.reader is not None and row.described and row.engine != "vllm"]
    return [row if row.described else _like(row, known) for row in read]


Line = Mapping[str, str]


def _row(line: Line) -> Row:
    source = line["silicon_data_source"]
    dated = re.search(r"measured=(\d{4}-\d\d)", source)
    month = dated.group(1) if dated else "undated"
    model, engine = CARDS[line["model_path"]], line["backend"]
    form = line["precision"] or _FORMATS[line["gemm_quant_mode"]]
    load = re.search(r"silicon_concurrency=(\d+)", source)
    apart = line["mode"] == "disagg"
    even = "/Users/" in source
    length = 1.0 if even else 0.9
    row = Row(
        name=line["id"],
        model=model,
        kind=line["system"].removesuffix("_sxm"),
        engine=engine,
        release=line["backend_version"] or f"{month} {form}",
        form=form,
        inputs=float(line["isl"]) * length,
        outputs=float(line["osl"]) * length,
        even=even,
        requests=float(load.group(1)) if load else 0.0,
        writer=Side(tensor=1, data=1, experts=1),
        reader=None,
        drafts=float(_drafts(model, engine, line["backend_version"], month)),
        described=True,
        ttft_ms=float(line["silicon_ttft_ms"]),
        tpot_ms=float(line["silicon_tpot_ms"]),
    )
    return _apart(row, line) if apart else _together(row, line)


def _drafts(model: str, engine: str, version: str, month: str) -> bool:
    """TensorRT-LLM 1.2.0rc6.post3, and 1.1.0rc2.post2 from 2026 on, ran DeepSeek with drafts (MTP)."""
    if engine != "trtllm" or not model.startswith("deepseek"):
        return False
    return version == "1.2.0rc6.post3" or (version == "1.1.0rc2.post2" and month >= "2026-01")


def _count(line: Line, name: str, least: int = 1) -> int:
    return max(least, int(float(line[name] or 0)))


def _together(row: Row, line: Line) -> Row:
    tensor, data = _count(line, "tp_size"), _count(line, "attention_dp_size")
    experts, divided = _count(line, "moe_ep_size"), _count(line, "moe_tp_size")
    batch = float(line["batch_size"])
    requests = row.requests or batch
    if row.model in DENSE:  # a batch is that of one of several replicas
        return replace(row, requests=batch, writer=Side(tensor=tensor, data=1, experts=1))
    if tensor >= _RACK and experts == 1:
        whole = Side(tensor=tensor, data=1, experts=1)
        return replace(row, requests=requests, writer=whole, reader=whole, described=False)
    ranks, parts = tensor, 1
    if tensor > 8 and experts > 1:
        ranks = experts
    elif data > 1 and tensor == 1:
        ranks = parts = experts if experts > 1 else divided
    elif data > 1 or (not line["attention_dp_size"] and requests == batch * tensor > batch):
        parts = tensor
    elif not line["attention_dp_size"] and divided * experts > tensor:
        ranks, parts = divided * experts, divided * experts // tensor
        requests *= parts if row.requests == batch else 1
    writer = Side(tensor=ranks // parts, data=parts, experts=min(experts, ranks))
    return replace(row, requests=requests, writer=writer)


def _apart(row: Row, line: Line) -> Row:
    described = bool(line["prefill_num_workers"])
    sides = [
        Side(
            tensor=_count(line, f"{role}_tp_size"),
            data=_count(line, f"{role}_attention_dp_size"),
            experts=_count(line, f"{role}_moe_ep_size"),
            count=_count(line, f"{role}_num_workers"),
        )
        for role in ("prefill", "decode")
    ]
    writer = sides[1]
    requests = row.requests or float(line["decode_batch_size"] or 1) * writer.count * writer.data
    return replace(row, requests=requests / writer.count, writer=writer, reader=sides[0], described=described)


def _like(row: Row, known: Sequence[Row]) -> Row:
    """With the replicas of the nearest described service: the same concurrency, if it can be, on the same devices."""
    reader, writer = row.reader, row.writer
    assert reader is not None
    alike = [item for item in known if (item.architecture, item.engine) == (row.architecture, row.engine)]
    alike = alike or [item for item in known if item.engine == row.engine]
    whole = writer.ranks == 1 or (writer.ranks >= _RACK and reader.ranks == writer.ranks and row.kind not in _NODE)
    nearest = min(alike, key=lambda item: _distance(row, item, whole=whole))
    taken = nearest.reader
    assert taken is not None
    same = abs(math.log(nearest.everyone / row.everyone)) < 1e-9
    # Loads that no described recipe has are those of recipes with drafts.
    draft = not same and row.engine == "trtllm" and row.architecture == "deepseek-v3"
    draft = draft or (row.engine, row.kind) == ("sglang", "b200")  # half of the recipes have drafts, at the same loads
    if not any(item.kind == row.kind for item in known if item.engine == row.engine):
        draft = draft and row.everyone not in {item.everyone for item in known if item.engine == "trtllm"}
    if whole:
        found = nearest.writer
    else:
        taken = replace(_resized(taken, reader), count=taken.count)
        found = _resized(nearest.writer, writer)
    return replace(row, requests=row.everyone / found.count, writer=found, reader=taken, drafts=float(draft))


def _distance(row: Row, item: Row, *, whole: bool) -> float:
    assert item.reader is not None
    assert row.reader is not None
    far = abs(math.log(item.everyone / row.everyone))
    far += 0.3 * (item.kind != row.kind) + 0.3 * (item.form != row.form)
    far += 0.5 * ((item.inputs, item.outputs) != (row.inputs, row.outputs))
    if whole:
        devices = item.reader.ranks * item.reader.count + item.writer.ranks * item.writer.count
        return far + 2.0 * (row.writer.ranks > 1 and devices != row.writer.ranks)
    return far + 2.0 * (item.writer.ranks != row.writer.ranks) + 0.2 * (item.reader.ranks != row.reader.ranks)


def _resized(like: Side, labelled: Side) -> Side:
    """The labelled number of devices, divided as the described service divides its own."""
    ranks = labelled.ranks
    wide = like.data > 1 if like.ranks == ranks else ranks >= 16
    count = like.count if like.ranks == ranks or not wide else 1
    if wide:
        return Side(tensor=1, data=ranks, experts=ranks, count=count)
    return Side(tensor=ranks, data=1, experts=min(labelled.experts, ranks), count=count)


def tags(row: Row) -> frozenset[str]:
    """What is known of a row beside its form, as `estimate/tuned.py` takes it."""
    named: Iterable[tuple[str, bool]] = (
        ("dealt", row.writer.experts > 1),
        ("data-parallel", row.writer.data > 1),
        ("even", row.even),
        ("disaggregated", row.reader is not None),
        ("undescribed", not row.described and row.drafts > 0),
    )
    always = (f"{row.engine} {row.release}", f"{row.architecture} in {row.engine}")
    return frozenset((*always, *(name for name, holds in named if holds)))
