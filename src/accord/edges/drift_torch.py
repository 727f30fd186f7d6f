"""The same model as transformers builds it, on PyTorch, from the weights in the GGUF file.

In: a GGUF file, tokens, a device, a dtype. Out: a `Trace`. Invariant: weights are the file's exact values, rounded to
the dtype; the model's code is transformers' own, so that it shares nothing with our engine but the file.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from accord.terms.errors import BadInput, BrokenEdge
from accord.verify.drift import Floats, Layer, Trace

if TYPE_CHECKING:
    from gguf import GGUFReader

# Unit roundoff (IEEE 754; bf16 keeps 8 bits) and PyTorch's name of each dtype.
_DTYPES = {"f32": ("float32", 2.0**-24), "f16": ("float16", 2.0**-11), "bf16": ("bfloat16", 2.0**-8)}
_NAMES = {
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}  # fmt: skip


def torch_trace(
    engine: str, source: Path, tokens: Sequence[Sequence[int]], *, device: str, dtype: str, threads: int
) -> Trace:
    """One pass over all prompts. BrokenEdge without PyTorch or transformers."""
    missing = [package for package in ("torch", "transformers", "gguf") if find_spec(package) is None]
    if missing:
        raise BrokenEdge(f"{engine}: {', '.join(missing)} isn't installed: pip install 'accord-ai[verify,embedded]'")
    import torch

    torch.set_num_threads(threads)
    name, roundoff = _DTYPES[dtype]
    model = build(source).to(getattr(torch, name))
    try:
        model.to(device)
    except (RuntimeError, AssertionError) as error:
        raise BadInput(
            field="engine", value=engine, problem=str(error), fix="say torch, which runs on the CPU"
        ) from error
    seen: list[list[Floats]] = []
    with torch.inference_mode():
        for prompt in tokens:
            seen.append(_run(model, torch.tensor([list(prompt)], device=device)))
    *streams, logits = (np.concatenate(parts) for parts in zip(*seen, strict=True))
    layers = (Layer(name=f"layer {number}", values=values) for number, values in enumerate(streams))
    return Trace(engine=engine, roundoff=roundoff, layers=tuple(layers), logits=logits)


def build(source: Path) -> Any:
    """transformers' model with the file's weights, in float32. BrokenEdge if it isn't a Llama."""
    import torch
    from gguf import GGUFReader, dequantize
    from transformers import LlamaConfig, LlamaForCausalLM

    reader = GGUFReader(str(source))
    sizes = _config(reader)
    config = LlamaConfig(**sizes)
    with torch.device("meta"):
        model: Any = LlamaForCausalLM(config)
    state = {}
    for tensor in reader.tensors:
        values = np.array(dequantize(tensor.data, tensor.tensor_type), np.float32)
        part = tensor.name.split(".")[2] if tensor.name.startswith("blk.") else ""
        if part in ("attn_q", "attn_k"):
            values = _halves(values, sizes["num_attention_heads" if part == "attn_q" else "num_key_value_heads"])
        state[_name(tensor.name)] = torch.from_numpy(values)
    state.setdefault("lm_head.weight", state["model.embed_tokens.weight"])
    model.to_empty(device="cpu")
    model.load_state_dict(state, strict=True)
    model.model.rotary_emb = type(model.model.rotary_emb)(config=config)  # its buffers aren't in the file
    return model.eval()


def _run(model: Any, ids: Any) -> list[Floats]:
    """The stream after each layer, and the logits. transformers norms the last one in `hidden_states`, so hooks."""
    streams: list[Any] = []
    hooks = [
        layer.register_forward_hook(lambda _, __, made: streams.append(made[0] if isinstance(made, tuple) else made))
        for layer in model.model.layers
    ]
    try:
        logits = model(input_ids=ids, use_cache=False).logits
    finally:
        for hook in hooks:
            hook.remove()
    return [item.reshape(ids.shape[1], -1).float().cpu().numpy() for item in (*streams, logits)]


def _config(reader: "GGUFReader") -> dict[str, Any]:
    def field(key: str) -> Any:
        found = reader.fields.get(key)
        if found is None:
            raise BrokenEdge(f"GGUF: {key} is missing; fetch the weights again")
        return found.contents()

    if field("general.architecture") != "llama":
        raise BrokenEdge(f"GGUF: general.architecture: {field('general.architecture')}: only llama is known")
    names = {tensor.name: tensor for tensor in reader.tensors}
    return {
        "hidden_size": int(field("llama.embedding_length")),
        "intermediate_size": int(field("llama.feed_forward_length")),
        "num_hidden_layers": int(field("llama.block_count")),
        "num_attention_heads": int(field("llama.attention.head_count")),
        "num_key_value_heads": int(field("llama.attention.head_count_kv")),
        "rms_norm_eps": float(field("llama.attention.layer_norm_rms_epsilon")),
        "rope_theta": float(field("llama.rope.freq_base")),
        "max_position_embeddings": int(field("llama.context_length")),
        "vocab_size": int(names["token_embd.weight"].shape[1]),
        "tie_word_embeddings": "output.weight" not in names,
    }


def _name(name: str) -> str:
    outer = {
        "token_embd.weight": "model.embed_tokens.weight",
        "output_norm.weight": "model.norm.weight",
        "output.weight": "lm_head.weight",
    }
    if name in outer:
        return outer[name]
    _, layer, part, kind = name.split(".")
    return f"model.layers.{layer}.{_NAMES[part]}.{kind}"


def _halves(values: Floats, heads: int) -> Floats:
    """GGUF keeps q and k for RoPE on neighbouring pairs; transformers rotates the two halves of a head."""
    rows, columns = values.shape
    return np.ascontiguousarray(values.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2)).reshape(
        values.shape
    )
