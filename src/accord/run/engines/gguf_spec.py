"""What every engine that reads a GGUF takes out of its EngineSpec.

In: an EngineSpec. Out: the GGUF's path and the split of the memory budget into KV blocks.
Invariant: a budget that can't hold one useful conversation is BadInput, told before weights are loaded.
"""

from pathlib import Path

from accord.run.engines.ar_model import ModelShape
from accord.run.ports import EngineSpec
from accord.terms.errors import BadInput, BrokenEdge

_CONTEXT_TOKENS_MIN = 128


def find_gguf(spec: EngineSpec) -> Path:
    """The one GGUF among the assets; BrokenEdge if there is none, or more than one."""
    found = [path for _, folder in spec.assets for path in sorted(Path(folder).rglob("*.gguf"))]
    if len(found) != 1:
        names = ", ".join(f"{name} in {folder}" for name, folder in spec.assets) or "none"
        raise BrokenEdge(f"stages.{spec.stage}.assets: {names}: {len(found)} GGUF files there; give exactly one")
    return found[0]


def shape_of(
    spec: EngineSpec, *, token_bytes: int, context_tokens: int, block_tokens: int, prefill_tokens: int, width: int
) -> ModelShape:
    """As many blocks as the budget holds, and as long a context as one request may fill with them.

    Attention grows with the position: at about 3 times the width it doubles the time of a run of prompt tokens
    (measured with ONNX Runtime: 111 ms at position 0, 226 ms at 1,900, width 576, one thread).
    """
    blocks = spec.memory_bytes // (token_bytes * block_tokens)
    context = min(context_tokens // block_tokens, blocks) * block_tokens
    if context < _CONTEXT_TOKENS_MIN:
        raise BadInput(
            field=f"stages.{spec.stage}.memory_bytes",
            value=spec.memory_bytes,
            problem=f"holds {context} tokens of {token_bytes} bytes",
            fix=f"give at least {_CONTEXT_TOKENS_MIN * token_bytes} bytes, and context_tokens at least that many",
        )
    return ModelShape(
        context_tokens=context,
        slots=spec.batch_max,
        block_tokens=block_tokens,
        blocks=blocks,
        prefill_tokens=prefill_tokens,
        attention_tokens=3 * width,
    )
