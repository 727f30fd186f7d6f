"""Whole steps of a model, put together of measured kernels by the package `aiconfigurator-core`.

In: a device kind, an engine, a model that the package knows. Out: `StepGrid`s, one a layout. Invariant: layouts that
the package can't count are left out, not guessed.
"""

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Protocol

from accord.edges.kernel_tables import ENGINES, PACKAGE, SYSTEMS
from accord.edges.model_card import find_card
from accord.estimate.form import Form, form
from accord.estimate.known_steps import unit_flops
from accord.models.read import read_card
from accord.terms.calibration import StepGrid
from accord.terms.errors import BadInput, BrokenEdge
from accord.terms.graph import Capability
from accord.terms.layout import Layout
from accord.terms.refusal import Refusal
from accord.terms.work import Experts

_BATCHES = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024)
_CONTEXTS = (256, 1024, 2048, 4096, 8192, 16384, 65536)
_PROMPTS = (128, 512, 1024, 2048, 4096, 8192, 16384)
# What the package itself puts on sums of kernels, for the gaps between them.
READ_FACTOR, WRITE_FACTOR = 1.1, 1.08


class _Handle(Protocol):
    def predict_prefill_latency(self, bs: int, isl: int, prefix: int = 0) -> float: ...

    def predict_decode_latency(self, bs: int, isl: int, osl: int = 2) -> float: ...


def kernel_steps(kind: str, engine: str, model: str) -> tuple[StepGrid, ...]:
    """Steps on every layout within a node. BadInput where the package doesn't know the model."""
    card = _card(model)
    found = find_card(str(card))
    architecture = read_card(found.values, name=model)
    stage, needs, stored = next(row for row in architecture.rows() if Capability.AR in row[0].capabilities)
    grids = []
    for layout in _layouts(any(isinstance(item, Experts) for item in needs.operators)):
        made = form(needs, stored, layout)
        handle = _handle(model, SYSTEMS[kind], ENGINES[engine], layout) if not isinstance(made, Refusal) else None
        if handle is None or isinstance(made, Refusal):
            continue
        grids.append(_grid(handle, layout, made))
    if not grids:
        text = f"kernel tables: {PACKAGE} can't count {stage.name} of {model} on {kind} with {engine}"
        raise BrokenEdge(text)
    return tuple(grids)


def _card(model: str) -> Path:
    folder = Path(str(files("aiconfigurator_core"))) / "model_configs"
    path = folder / f"{model.replace('/', '--')}_config.json"
    if not path.is_file():
        fix = "name one that the package has, such as Qwen/Qwen3-32B-FP8"
        raise BadInput(field="--steps", value=model, problem=f"{PACKAGE} doesn't know this model", fix=fix)
    return path


def _layouts(experts: bool) -> Iterator[Layout]:
    for ranks in (1, 2, 4, 8):
        yield Layout(tensor=ranks)
        if experts and ranks > 1:
            yield Layout(tensor=ranks, experts=ranks)
            yield Layout(tensor=1, experts=ranks)


def _handle(model: str, system: str, engine: str, layout: Layout) -> _Handle | None:
    """What counts steps on this layout; None where the package has no rows for it."""
    from aiconfigurator_core.sdk.engine import EngineHandle

    try:
        handle: _Handle = EngineHandle.compile(
            model,
            system,
            engine,
            tp_size=layout.tensor,
            attention_dp_size=layout.group // layout.tensor,
            moe_tp_size=layout.group // layout.experts,
            moe_ep_size=layout.experts,
        )
        handle.predict_decode_latency(1, _CONTEXTS[0], 2)
    except (ValueError, RuntimeError, KeyError, NotImplementedError):
        return None
    return handle


def _grid(handle: _Handle, layout: Layout, made: Form) -> StepGrid:
    decode = tuple(
        tuple(WRITE_FACTOR * handle.predict_decode_latency(batch, context, 2) / 1e3 for context in _CONTEXTS)
        for batch in _BATCHES
    )
    return StepGrid(
        tensor=layout.tensor,
        experts=layout.experts,
        batches=tuple(map(float, _BATCHES)),
        contexts=tuple(map(float, _CONTEXTS)),
        decode_s=decode,
        prompts=tuple(map(float, _PROMPTS)),
        prefill_s=tuple(READ_FACTOR * handle.predict_prefill_latency(1, prompt) / 1e3 for prompt in _PROMPTS),
        unit_flops=unit_flops(made),
        math=made.routed[0].math if made.routed else max(made.dense, key=lambda row: row.flops).math,
    )
