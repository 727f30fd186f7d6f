"""The JSON of `accord model`: all that the words say, and each tensor and operator behind it.

In: a `Summary`. Out: plain values for `json`. Invariant: names don't change, and units end them; what is absent is
null.
"""

from collections.abc import Mapping, Sequence

from accord.estimate.summary import CacheRow, StageRow, StepRow, Summary
from accord.estimate.weights import tensor_bytes
from accord.models.card import Json
from accord.terms.architecture import Architecture, Constraint, Stored
from accord.terms.tensors import Dtype, Tensor


def summary_json(found: Summary, *, source: str) -> Mapping[str, Json]:
    """One document."""
    made = found.architecture
    return {
        "model": made.name,
        "family": made.family,
        "source": source,
        "parameters": found.parameters,
        "weights_bytes": found.stored_bytes,
        "weights_bf16_bytes": found.bf16_bytes,
        "context_tokens_max": made.context_max,
        "stages": [_stage(row) for row in found.stages],
        "edges": _edges(made),
        "remarks": list(made.remarks),
        "unread_keys": list(made.unread),
    }


def _stage(row: StageRow) -> Json:
    return {
        "stage": row.stage.name,
        "capabilities": [str(item) for item in row.stage.capabilities],
        "batching": str(row.stage.batching),
        "unit": str(row.needs.unit),
        "parameters": row.parameters,
        "weights_bytes": row.stored_bytes,
        "weights_bf16_bytes": row.bf16_bytes,
        "stored": _stored(row.stored),
        "parts": [
            {"part": str(part.part), "parameters": part.parameters, "weights_bytes": part.stored_bytes}
            for part in row.parts
        ],
        "cache": [_cache(item) for item in row.cache],
        "example_tokens": row.usual_tokens,
        "request_bytes": {str(dtype): row.cache_bytes(row.usual_tokens, dtype) for dtype in (Dtype.BF16, Dtype.FP8)},
        "steps": [_step(item) for item in row.steps],
        "constraints": [_constraint(item) for item in row.needs.constraints],
        "tensors": [_tensor(item, row.stored) for item in row.needs.tensors],
    }


def _stored(stored: Stored) -> Json:
    return {
        "quantization": str(stored.quantization),
        "group": stored.group,
        "exceptions": [
            {"tensor": item.tensor, "layers": list(item.layers), "quantization": str(item.quantization)}
            for item in stored.exceptions
        ],
    }


def _cache(row: CacheRow) -> Json:
    group = row.group
    return {
        "group": group.name,
        "kind": str(group.kind),
        "layers": list(group.layers),
        "heads": group.heads,
        "key_dim": group.key_dim,
        "value_dim": group.value_dim,
        "window_tokens": group.window,
        "tokens_per_entry": group.ratio,
        "state_values": group.state_values,
        "state_dtype": str(group.state_dtype) if group.state_values else None,
        "token_bytes": _by_dtype(row.token_bytes),
        "request_bytes": _by_dtype(row.usual_bytes),
        "full_context_bytes": None if row.full_bytes is None else _by_dtype(row.full_bytes),
    }


def _by_dtype(figures: Sequence[float]) -> Json:
    return {"bf16": figures[0], "fp8": figures[1]}


def _step(row: StepRow) -> Json:
    return {
        "phase": row.phase,
        "new_units": row.load.new,
        "context_units": row.load.context,
        "batch": row.load.batch,
        "flops": row.flops_total,
        "flops_by_class": {str(kind): figure for kind, figure in row.flops},
    }


def _constraint(rule: Constraint) -> Json:
    return {"rule": str(rule.rule), "figure": rule.figure, "words": rule.words}


def _tensor(tensor: Tensor, stored: Stored) -> Json:
    return {
        "tensor": tensor.name,
        "part": str(tensor.part),
        "rows": tensor.rows,
        "columns": tensor.columns,
        "copies": tensor.copies,
        "layers": list(tensor.layers),
        "split": str(tensor.split),
        "pieces": tensor.pieces,
        "buffer": tensor.buffer,
        "weights_bytes": tensor_bytes(tensor, stored),
    }


def _edges(made: Architecture) -> Json:
    return [
        {
            "edge": edge.name,
            "source": edge.source,
            "target": edge.target,
            "payload": str(edge.payload),
            "required": edge.required,
            "unit": str(flow.unit),
            "unit_bytes": flow.unit_bytes,
            "stream": flow.stream,
            "chunk_units": flow.chunk_units,
        }
        for edge, flow in zip(made.graph.edges, made.flows, strict=True)
    ]
