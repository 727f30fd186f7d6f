"""The work of all rows at peak rates, stacked: what a fit computes once, by the code that plans are made with.

In: `Row`s. Out: `Stack`. Invariant: row by row the figures are those of `estimate/roof.py`; what differs between
models (how many bounds a step has) is filled up with zeros.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from _accuracy_rows import DENSE, Row, Side
from _accuracy_rows import tags as named
from accord.edges.fleet_kinds import catalog_kind
from accord.edges.model_catalog import entry
from accord.estimate.form import Form, form
from accord.estimate.performance import Performance, Tuning, performance
from accord.estimate.roof import Bound, Grouped, Roof, Step, roof
from accord.estimate.steady import Crowd, seats
from accord.estimate.tuned import tags_of
from accord.models.read import read_card
from accord.terms.architecture import Needs, Stored, StoredAs
from accord.terms.layout import Layout
from accord.terms.refusal import Refusal
from accord.terms.tensors import Dtype, Quantization

Array = npt.NDArray[np.float64]

# Batches that a replica may have, as parts of the most that it has: fewer where prompts come too slowly.
PARTS = np.array([1.0, 0.75, 0.55, 0.4, 0.28, 0.18, 0.1, 0.05])
WHOLE = np.ones(1)
KINDS = {"h100": ("hopper",), "h200": ("hopper",), "b200": ("blackwell",), "b300": ("blackwell",)}
KINDS = {**KINDS, "gb200": ("blackwell",), "gb300": ("blackwell",)}
_BLOCKS = ("deepseek-r1", "deepseek-v3", "glm-5", "minimax-m2.5", "qwen3-235b-a22b", "qwen3.5-397b-a17b", "qwen3-32b")
_RACKS = {"gb200": 72, "gb300": 72}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """Rows of one mode. The last axis of `writing`: batches and one step with a prompt; of `reading`: one prompt."""

    writing: Roof
    reading: Roof
    batches: Array
    crowd: Crowd
    apart: bool


def stacked(rows: Sequence[Row]) -> Stack:
    """The work of rows of one mode."""
    made = [Made(row) for row in rows]
    width = len(made[0].batches)
    return Stack(
        writing=_stack([item.writing() for item in made], width + 1),
        reading=_stack([item.reading() for item in made], 1),
        batches=np.array([item.batches for item in made]),
        crowd=_crowd(made),
        apart=rows[0].reader is not None,
    )


class Made:
    """One row with its forms."""

    def __init__(self, row: Row) -> None:
        self.row = row
        reader = row.reader or row.writer
        self.writer = _form(row.model, row.form, _cached(row), row.writer)
        self.reader = _form(row.model, row.form, _cached(row), reader)
        self.lanes = reader.data
        self.device = device(row.kind)
        # TensorRT-LLM keeps room for the whole answer; others for what is written by then.
        whole = row.inputs + row.outputs * (1.0 if row.engine == "trtllm" else 0.75)
        room = seats(self.writer, self.device, tokens=whole)
        # A row that doesn't say how many replicas it has was run with as many as its requests need.
        self.seats = room if row.described else max(room, row.requests)
        self.batches = np.maximum(min(row.requests, self.seats), 1e-3) * (WHOLE if row.reader is None else PARTS)

    def writing(self) -> Roof:
        row, none = self.row, np.zeros(len(self.batches))
        decode = np.append(self.batches, 0.0 if row.reader else self.batches[0])
        return roof(
            self.writer,
            self.device,
            Step(
                decode=decode,
                context=np.full(len(self.batches) + 1, row.inputs + row.outputs / 2),
                prompts=np.append(none, 1.0),
                new=np.append(none, row.inputs),
                before=np.zeros(len(self.batches) + 1),
            ),
        )

    def reading(self) -> Roof:
        prompts = float(self.lanes if self.row.reader else 1)
        one = np.ones(1)
        return roof(
            self.reader,
            self.device,
            Step(decode=0 * one, context=0 * one, prompts=prompts * one, new=self.row.inputs * one, before=0 * one),
        )


def _crowd(made: Sequence[Made]) -> Crowd:
    def column(values: list[float]) -> Array:
        return np.array(values, dtype=float)

    return Crowd(
        requests=column([max(item.row.requests, 1e-3) for item in made]),
        seats=column([item.seats for item in made]),
        outputs=column([item.row.outputs for item in made]),
        drafts=column([item.row.drafts for item in made]),
        lanes=column([item.row.writer.data for item in made]),
        pools=column([item.row.writer.count for item in made]),
        readers=column([item.row.reader.count if item.row.reader else 0 for item in made]),
        reader_lanes=column([item.lanes for item in made]),
    )


def _cached(row: Row) -> Dtype:
    """Load tests of InferenceMAX keep caches in fp8; the others as the engine's build has it."""
    return Dtype.FP8 if not row.even or (row.engine == "trtllm" and row.form == "fp8") else Dtype.BF16


@functools.cache
def device(kind: str) -> Performance:
    """Peaks of a kind of the catalog; the tuning is the fit's."""
    found = performance(catalog_kind(kind), Tuning(), engine="", node_cards=_RACKS.get(kind, 8))
    assert not isinstance(found, Refusal), found
    return found


@functools.cache
def _needs(model: str) -> Needs:
    read = read_card(entry(model).card, name=model)
    return read.of("decoder")


@functools.cache
def _form(model: str, kept: str, cached: Dtype, side: Side) -> Form:
    """The form; where the labelled layout can't divide the weights, engines pad, and blocks of scales don't count."""
    needs = _needs(model)
    layout = side.layout(dense=model in DENSE)
    for stored in (stored_as(model, kept), replace(stored_as(model, kept), quantization=Quantization.FP8)):
        made = form(needs, stored, layout, cache_dtype=cached)
        if not isinstance(made, Refusal):
            return made
    nearest = max(n for n in (1, 2, 4, 8) if n <= side.ranks)
    made = form(needs, stored_as(model, kept), Layout(tensor=nearest), cache_dtype=cached)
    assert not isinstance(made, Refusal), made
    return made


@functools.cache
def stored_as(model: str, kept: str) -> Stored:
    """How weights of a precision are stored in the releases that were measured.

    gpt-oss: experts in mxfp4, the rest in bf16, whatever the label. NVFP4 releases leave attention in bf16, and INT4
    ones all but experts.
    """
    names = tuple(tensor.name for tensor in _needs(model).tensors if tensor.columns > 1 and tensor.quantizable)

    def all_but(quantization: Quantization, plain: tuple[str, ...]) -> Stored:
        return Stored(quantization=quantization, exceptions=tuple(StoredAs(tensor=name) for name in plain))

    if model == "gpt-oss-120b":
        return all_but(Quantization.MXFP4, tuple(name for name in names if not name.startswith("experts.")))
    match kept:
        case "bf16":
            return Stored()
        case "fp8":
            return Stored(quantization=Quantization.FP8_BLOCK if model in _BLOCKS else Quantization.FP8)
        case "fp4" if model in DENSE:
            return Stored(quantization=Quantization.NVFP4)
        case "fp4":
            return all_but(Quantization.NVFP4, tuple(name for name in names if name.startswith("attention")))
        case "int4":
            return all_but(Quantization.INT4_GROUP, tuple(name for name in names if not name.startswith("experts.")))
        case _:
            raise ValueError(f"precision {kept}: unknown; bf16, fp8, fp4 and int4 are")


def _stack(roofs: Sequence[Roof], width: int) -> Roof:
    def flat(values: Sequence[Array]) -> Array:
        return np.stack([np.broadcast_to(value, (width,)) for value in values])

    def bounds(name: str) -> tuple[Bound, ...]:
        rows: list[tuple[Bound, ...]] = [getattr(item, name) for item in roofs]
        zero = Bound(compute_s=np.zeros(()), memory_s=np.zeros(()))
        most = max(len(row) for row in rows)
        filled = [(*row, *(zero,) * (most - len(row))) for row in rows]
        return tuple(
            Bound(
                compute_s=flat([row[place].compute_s for row in filled]),
                memory_s=flat([row[place].memory_s for row in filled]),
            )
            for place in range(most)
        )

    none = Grouped(**{item.name: np.zeros(()) for item in fields(Grouped)})
    experts = [item.experts[0] if item.experts else none for item in roofs]
    assert all(len(item.experts) <= 1 for item in roofs)
    grouped = Grouped(**{item.name: flat([getattr(one, item.name) for one in experts]) for item in fields(Grouped)})
    plain = {
        item.name: flat([getattr(one, item.name) for one in roofs])
        for item in fields(Roof)
        if item.name not in ("gemm", "convolution", "experts", "attention", "scan")
    }
    return Roof(
        gemm=bounds("gemm"),
        convolution=bounds("convolution"),
        experts=(grouped,),
        attention=bounds("attention"),
        scan=bounds("scan"),
        **plain,
    )


def tags(row: Row) -> frozenset[str]:
    """All that is known of a row."""
    known = tags_of(_needs(row.model), stored_as(row.model, row.form), kind=KINDS[row.kind], engine=row.engine)
    where = {
        name for name, holds in (("dealt", row.writer.experts > 1), ("data-parallel", row.writer.data > 1)) if holds
    }
    return known | where | named(row) | {row.form}
