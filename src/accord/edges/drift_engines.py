"""Runs a language model on an engine and keeps what stands after each layer.

In: a GGUF file, prompts, an engine's name (`onnxruntime`, `torch`, `torch:cuda/bf16`). Out: a `Trace`.
Invariant: all engines get the same tokens, from the tokenizer inside the file, and forget them after each prompt.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from accord.edges.drift_torch import torch_trace
from accord.run.engines.gguf_graph import GRAPH, cache_names
from accord.run.engines.gguf_pack import Pack, open_pack
from accord.run.engines.gguf_text import TOKENIZER
from accord.run.engines.gguf_weights import WEIGHTS, restore
from accord.terms.errors import BadInput
from accord.verify.drift import Floats, Layer, Trace

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

Tokens = tuple[tuple[int, ...], ...]

# MatMulNBits with accuracy level 4 rounds activations to int8, blockwise: 127 steps on either side of zero.
_INT8_ROUNDOFF = 1 / 254


def trace(engine: str, source: Path, prompts: Sequence[str], *, cache: Path, threads: int) -> Trace:
    """One pass over all prompts. BadInput for an engine that isn't known or a file that isn't there."""
    if not source.is_file():
        raise BadInput(field="model", value=str(source), problem="no such file", fix="give the path of a GGUF file")
    run = _engine(engine)
    pack = open_pack(source, cache)
    return run(pack, source, tokens_of(pack, prompts), threads)


def tokens_of(pack: Pack, prompts: Sequence[str]) -> Tokens:
    """The prompts as tokens, without a chat template: plain text is where every position can be compared."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(pack.folder / TOKENIZER))
    return tuple(tuple(tokenizer.encode(prompt).ids) for prompt in prompts)


Run = Callable[[Pack, Path, Tokens, int], Trace]


def _engine(name: str) -> Run:
    if name == "onnxruntime":
        return _onnx_trace
    found = re.fullmatch(r"torch(?::(?P<device>[a-z]+(?::\d+)?))?(?:/(?P<dtype>f32|f16|bf16))?", name)
    if found is None:
        raise BadInput(
            field="engine",
            value=name,
            problem="not known",
            fix="say onnxruntime, torch, torch/bf16, torch/f16, or torch:DEVICE/DTYPE such as torch:cuda/bf16",
        )
    device, dtype = found["device"] or "cpu", found["dtype"] or "f32"

    def run(_: Pack, source: Path, tokens: Tokens, threads: int) -> Trace:
        return torch_trace(name, source, tokens, device=device, dtype=dtype, threads=threads)

    return run


def _onnx_trace(pack: Pack, _: Path, tokens: Tokens, threads: int) -> Trace:
    """The engine's own graph, with the residual stream after each layer as further outputs."""
    size = pack.dimensions
    names = [f"blk.{layer}.attn_norm.weight.sum" for layer in range(1, size.layers)] + ["output_norm.weight.sum"]
    session = _session(pack.folder, names, threads)
    table = np.memmap(pack.folder / WEIGHTS, np.uint8, "r", offset=size.table.offset, shape=size.table.shape)
    scales = np.memmap(
        pack.folder / WEIGHTS, np.float32, "r", offset=size.table_scales.offset, shape=size.table_scales.shape
    )
    seen: list[list[Floats]] = []
    for prompt in tokens:
        ids = list(prompt)
        feeds: dict[str, Any] = {
            "hidden": restore(table[ids], scales[ids])[None].astype(np.float32),
            "seqlens_k": np.array([len(ids) - 1], np.int32),
            "total": np.array(len(ids), np.int32),
            "pick": np.arange(len(ids), dtype=np.int64),
        }
        empty = np.zeros((1, size.kv_heads, len(ids), size.head_width), np.float32)
        feeds |= {f"past_{name}": empty for name in cache_names(size.layers)}
        seen.append([np.asarray(item).reshape(len(ids), -1) for item in session.run([*names, "logits"], feeds)])
    *streams, logits = (np.concatenate(parts) for parts in zip(*seen, strict=True))
    layers = (Layer(name=f"layer {number}", values=values) for number, values in enumerate(streams))
    return Trace(engine="onnxruntime", roundoff=_INT8_ROUNDOFF, layers=tuple(layers), logits=logits)


def _session(folder: Path, names: Sequence[str], threads: int) -> "InferenceSession":
    import onnx
    import onnxruntime

    model = onnx.load(str(folder / GRAPH), load_external_data=False)
    model.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in names)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(folder))
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
