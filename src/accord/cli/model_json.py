"""The JSON of `accord model`: all that the words say, and each tensor and operator behind it.

In: a `Summary`. Out: plain values for `json`. Invariant: names don't change, and units end them; what is absent is
null.
"""

from collections.abc import Mapping, Sequence

from accord.cli.model_json_work import operator_json, step_json
from accord.estimate.summary import CACHE_DTYPES, CacheRow, PageRow, RankRow, StageRow, Summary
from accord.estimate.weights import tensor_bytes
from accord.models.card import Json
from accord.terms.architecture import Architecture, Stored
from accord.terms.pages import Pool
from accord.terms.refusal import Refusal
from accord.terms.tensors import Tensor


def summary_json(found: Summary, *, source: str) -> Mapping[str, Json]:
    """One document."""
    made = found.architecture
    return {
        "model": made.name,
        "family": made.family,
        "source": source,
        "parameters": made.parameters,
        "weights_bytes": found.stored_bytes,
        "weights_bf16_bytes": found.bf16_bytes,
        "weights_bytes_by_quantization": {str(kind): held for kind, held in found.other_bytes},
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
        "parameters": row.needs.parameters,
        "weights_bytes": row.stored_bytes,
        "weights_bf16_bytes": row.bf16_bytes,
        "weights_bytes_by_quantization": {str(kind): held for kind, held in row.other_bytes},
        "stored": _stored(row.stored),
        "portions": [
            {
                "portion": portion.name,
                "count": portion.count,
                "parameters_each": portion.parameters,
                "weights_bytes_each": portion.stored_bytes,
            }
            for portion in row.portions
        ],
        "example_units": row.usual_tokens,
        "request_bytes": {str(dtype): row.cache_bytes(row.usual_tokens, dtype) for dtype in CACHE_DTYPES},
        "cache": [_cache(item) for item in row.cache],
        "operators": [operator_json(item) for item in row.needs.operators],
        "steps": [step_json(item) for item in row.steps],
        "rank": None if row.rank is None else _rank(row.rank),
        "pages": [_pages(item) for item in row.pages],
        "constraints": [
            {"rule": str(rule.rule), "figure": rule.figure, "words": rule.words} for rule in row.needs.constraints
        ],
        "tensors": [_tensor(item, row.stored) for item in row.needs.tensors],
    }


def _stored(stored: Stored) -> Json:
    return {
        "quantization": str(stored.quantization),
        "group": stored.group,
        "scale_bits": stored.scale_bits,
        "exceptions": [
            {
                "tensor": item.tensor,
                "layers": list(item.layers),
                "quantization": str(item.quantization),
                "group": item.group,
            }
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
        "pieces": group.pieces,
        "state_values": group.state_values,
        "state_dtype": str(group.state_dtype) if group.state_values else None,
        "token_bytes": _by_dtype(row.token_bytes),
        "request_bytes": _by_dtype(row.usual_bytes),
        "full_context_bytes": None if row.full_bytes is None else _by_dtype(row.full_bytes),
    }


def _by_dtype(figures: Sequence[float]) -> Json:
    return {str(dtype): figure for dtype, figure in zip(CACHE_DTYPES, figures, strict=True)}


def _rank(row: RankRow) -> Json:
    match row.shares:
        case Refusal() as refusal:
            held: dict[str, Json] = {"refusal": _refusal(refusal)}
        case share:
            held = {
                "weights_bytes_max": share.largest_bytes,
                "duplicate_bytes": share.duplicate_bytes,
                "padding_bytes": share.padding_bytes,
            }
    return {**held, "request_bf16_bytes": row.request_bytes}


def _pages(row: PageRow) -> Json:
    match row.plan:
        case Refusal() as refusal:
            return {"dtype": str(row.dtype), "refusal": _refusal(refusal)}
        case plan:
            return {
                "dtype": str(row.dtype),
                "requests": plan.requests,
                "tokens": plan.tokens,
                "waste_share": plan.waste,
                "request_pages": plan.request_pages,
                "request_bytes": plan.request_bytes,
                "useful_bytes": plan.useful_bytes,
                "plain_requests": row.plain_requests,
                "page_tokens_multiple": plan.block,
                "pools": [_pool(pool) for pool in plan.pools],
            }


def _pool(pool: Pool) -> Json:
    return {
        "page_bytes": pool.page_bytes,
        "pages": pool.pages,
        "tables": [
            {
                "groups": list(table.groups),
                "count": table.count,
                "page_layers": list(table.page_layers),
                "page_tokens": table.page_tokens,
            }
            for table in pool.tables
        ],
    }


def _refusal(refusal: Refusal) -> Json:
    return {
        "field": refusal.field,
        "value": refusal.value,
        "limit": refusal.limit,
        "causes": list(refusal.causes),
        "fix": list(refusal.fix),
    }


def _tensor(tensor: Tensor, stored: Stored) -> Json:
    return {
        "tensor": tensor.name,
        "part": str(tensor.part),
        "rows": tensor.rows,
        "columns": tensor.columns,
        "copies": tensor.copies,
        "layers": list(tensor.layers),
        "dtype": str(tensor.dtype),
        "split": str(tensor.split),
        "inner_split": str(tensor.inner),
        "pieces": tensor.pieces,
        "quantizable": tensor.quantizable,
        "buffer": tensor.buffer,
        "idle": tensor.idle,
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
