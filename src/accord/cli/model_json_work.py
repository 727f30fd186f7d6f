"""The JSON of operators and steps: what `accord model --json` says of a stage's work.

In: operators of a stage, rows of a step. Out: plain values for `json`. Invariant: with the tensors beside them, the
operators are all that FLOPs and bytes are computed from.
"""

from accord.estimate.summary import StepRow
from accord.estimate.traffic import OperatorTraffic
from accord.models.card import Json
from accord.terms.work import Attention, Experts, Lookup, MatMul, Operator, OperatorClass, Scan


def operator_json(operator: Operator) -> Json:
    """One operator, as `terms/work.py` explains it; weights are named as in the list of tensors."""
    match operator:
        case MatMul():
            return {
                "operator": operator.weight.name,
                "class": str(OperatorClass.CONVOLUTION if operator.convolution else OperatorClass.GEMM),
                "weights": [operator.weight.name],
                "per": str(operator.per),
                "rate": operator.rate,
                "phase": str(operator.phase),
            }
        case Experts():
            return {
                "operator": operator.name,
                "class": str(OperatorClass.EXPERTS),
                "weights": [weight.name for weight in operator.weights],
                "experts": operator.experts,
                "chosen": operator.chosen,
            }
        case Attention():
            return _attention(operator)
        case Scan():
            return {
                "operator": operator.name,
                "class": str(OperatorClass.SCAN),
                "kind": str(operator.kind),
                "layers": list(operator.layers),
                "heads": operator.heads,
                "key_heads": operator.key_heads,
                "key_dim": operator.key_dim,
                "value_dim": operator.value_dim,
                "chunk_units": operator.chunk,
            }
        case Lookup():
            return {
                "operator": operator.weight.name,
                "class": str(OperatorClass.LOOKUP),
                "weights": [operator.weight.name],
                "per": str(operator.per),
            }


def step_json(row: StepRow) -> Json:
    """One step of the example request: sums, and each operator that runs in it."""
    moved = row.traffic
    return {
        "phase": row.phase,
        "new_units": row.load.new,
        "context_units": row.load.context,
        "batch": row.load.batch,
        "flops": moved.flops,
        "flops_by_class": {str(kind): row.flops(kind) for kind in OperatorClass if row.flops(kind)},
        "moved_bytes": moved.moved_bytes,
        "weight_bytes": moved.weight_bytes,
        "cache_read_bytes": sum(item.cache_bytes for item in moved.operators),
        "cache_written_bytes": moved.cache_written_bytes,
        "state_bytes": moved.state_bytes,
        "activation_bytes": sum(item.activation_bytes for item in moved.operators),
        "flops_per_byte": moved.intensity,
        "operators": [_moved(item) for item in moved.operators],
    }


def _attention(operator: Attention) -> Json:
    return {
        "operator": operator.name,
        "class": str(OperatorClass.ATTENTION),
        "layers": list(operator.layers),
        "heads": operator.heads,
        "key_heads": operator.key_heads,
        "key_dim": operator.key_dim,
        "value_dim": operator.value_dim,
        "reach": str(operator.reach),
        "span": operator.span,
        "units_per_key": operator.ratio,
        "per": str(operator.per),
        "rate": operator.rate,
        "phase": str(operator.phase),
        "values_in_keys": operator.values_in_keys,
    }


def _moved(item: OperatorTraffic) -> Json:
    return {
        "operator": item.name,
        "flops": item.flops,
        "weight_bytes": item.weight_bytes,
        "cache_bytes": item.cache_bytes,
        "activation_bytes": item.activation_bytes,
    }
