"""What other people's code says of a model: transformers on the meta device, or on a shrunk random model.

Parameters are counted on the meta device (no memory); caches and FLOPs are taken from a real forward pass of a
small model on the CPU.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForImageTextToText, PreTrainedConfig


def config_of(values: Mapping[str, Any]) -> PreTrainedConfig:
    """transformers' configuration of a card, without its quantization settings."""
    plain = copy.deepcopy(dict(values))
    for key in ("quantization_config", "auto_map"):
        plain.pop(key, None)
    kind = plain.pop("model_type")
    return AutoConfig.for_model(kind, **plain)


def meta_model(config: PreTrainedConfig, kind: Any = AutoModelForCausalLM) -> torch.nn.Module:
    """The model without memory."""
    with torch.device("meta"):
        return kind.from_config(config)


def parameters_of(model: torch.nn.Module) -> int:
    """Parameters, shared ones once."""
    return sum(parameter.numel() for parameter in model.parameters())


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One forward pass: FLOPs as torch counts them, and the cache it leaves."""

    flops: int
    cache: Any


def small_model(
    config: PreTrainedConfig, kind: Any = AutoModelForCausalLM, *, experts: str = "eager"
) -> torch.nn.Module:
    """A random model of this (small) configuration, on the CPU in float32, for a forward pass."""
    torch.manual_seed(0)
    model = kind.from_config(config, dtype=torch.float32, attn_implementation="eager")
    if hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation(experts)
    return model.eval()


def run(model: torch.nn.Module, *, new: int, batch: int = 1, cache: Any = None, **inputs: Any) -> Pass:
    """A step of `new` tokens for each of `batch` sequences, on top of `cache`; logits of the last token only."""
    vocabulary = model.config.get_text_config().vocab_size
    ids = torch.randint(5, vocabulary, (batch, new), generator=torch.Generator().manual_seed(1))
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        out = model(input_ids=ids, cache=cache, use_cache=True, logits_to_keep=1, **inputs)
    return Pass(flops=counter.get_total_flops(), cache=out.cache)


def cache_bytes(cache: Any) -> int:
    """Bytes of all tensors of floats in transformers' cache object (its counters are left out)."""
    seen: dict[int, int] = {}

    def visit(value: Any, depth: int) -> None:
        if isinstance(value, torch.Tensor):
            if value.is_floating_point():
                seen[value.data_ptr() or id(value)] = value.numel() * value.element_size()
        elif isinstance(value, list | tuple):
            for item in value:
                visit(item, depth)
        elif isinstance(value, dict):
            for item in value.values():
                visit(item, depth)
        elif depth and hasattr(value, "__dict__"):
            for item in vars(value).values():
                visit(item, depth - 1)

    visit(cache, 4)
    return sum(seen.values())


__all__ = ["AutoModel", "AutoModelForCausalLM", "AutoModelForImageTextToText"]
