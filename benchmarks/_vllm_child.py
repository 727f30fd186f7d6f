"""Asks vLLM itself how many requests fit in its KV cache; runs in a process of its own, with vLLM on its path.

In: JSON on stdin, a list of cases (layers, tokens, bytes). Out: JSON on stdout, a list of what vLLM plans for each.
Grouping, page sizes and block counts are vLLM's code. Modules that it names only for types, hashes, hosts and servers
are put out of the way, so that the wheel alone is enough.
"""

import contextlib
import json
import sys
import types
from types import SimpleNamespace
from typing import Any

# kv_cache_utils imports these for annotations, prefix hashes and offloading to hosts; no case here uses them.
_ABSENT = (
    "psutil",
    "vllm.config",
    "vllm.config.cache",
    "vllm.config.kv_transfer",
    "vllm.config.vllm",
    "vllm.distributed",
    "vllm.distributed.kv_events",
    "vllm.model_executor.models",
    "vllm.v1.metrics.stats",
    "vllm.utils.hashing",
    "vllm.v1.attention.backend",
    "vllm.v1.hisparse.layout",
    "vllm.v1.request",
    "vllm.v1.utils",
)
_LAYOUTS = ("LBHNC", "BLHNC")  # layers outermost (vLLM's first choice), and blocks outermost (packs mixed sizes)


class _Absent(types.ModuleType):
    """A module, and a package, in which every name is an empty class."""

    def __init__(self, name: str, **given: object) -> None:
        super().__init__(name)
        self.__path__ = []
        self.__dict__.update(given)

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (), {})
        setattr(self, name, made)
        return made


def main() -> None:
    cases = json.load(sys.stdin)
    for name in _ABSENT:
        sys.modules[name] = _Absent(name)
    _put("vllm.v1.hisparse.layout", get_hisparse_kv_cache_groups=lambda *_: None)
    _put("vllm.config.vllm", set_current_vllm_config=contextlib.nullcontext)
    json.dump([_case(case) for case in cases], sys.stdout)


def _put(module: str, **given: object) -> None:
    sys.modules[module] = _Absent(module, **given)


def _case(case: Any) -> dict[str, Any]:
    """The better of vLLM's two layouts."""
    return max((_plan(case, layout) for layout in _LAYOUTS), key=lambda plan: plan["requests"])


def _plan(case: Any, layout: str) -> dict[str, Any]:
    from vllm.v1.core import kv_cache_utils
    from vllm.v1.kv_cache_layout import KVCacheLayout

    config = _config(case, KVCacheLayout[layout])
    _align(case, config)
    specs = {layer["name"]: _spec(layer, config) for layer in case["layers"]}
    try:
        groups = kv_cache_utils.get_kv_cache_groups(config, specs)
        made = kv_cache_utils.get_kv_cache_config_from_groups(config, groups, case["memory_bytes"])
    except (NotImplementedError, ValueError):
        return {"requests": -1}  # this layout can't hold this model's pages
    block = kv_cache_utils._get_kv_cache_bytes_per_block(groups)
    needed = kv_cache_utils._max_memory_usage_bytes_from_groups(config, groups) // block
    return {
        "layout": layout,
        "requests": (made.num_blocks - 1) // needed,  # BlockPool keeps one block back
        "blocks": made.num_blocks,
        "block_bytes": block,
        "request_blocks": needed,
        "block_tokens": config.cache_config.block_size,
        "groups": len(groups),
    }


def _config(case: Any, layout: object) -> Any:
    return SimpleNamespace(
        model_config=SimpleNamespace(
            max_model_len=case["tokens"],
            original_max_model_len=case["tokens"],
            dtype=_torch_dtype("bf16"),
            use_mla=any(layer["kind"] == "latent" for layer in case["layers"]),
            architecture="",
            get_num_kv_heads=lambda _: _attention(case)["heads"],
            get_head_size=lambda: _attention(case)["key_dim"],
        ),
        cache_config=SimpleNamespace(
            block_size=case["block"],
            cache_dtype="auto",
            get_resolved_kv_cache_layout=lambda: layout,
            num_gpu_blocks_override=None,
            mamba_cache_mode="none",
            user_specified_mamba_block_size=False,
            mamba_page_size_padded=None,
            prefix_cache_retention_interval=None,
        ),
        scheduler_config=SimpleNamespace(disable_hybrid_kv_cache_manager=False),
        parallel_config=SimpleNamespace(decode_context_parallel_size=1, pipeline_parallel_size=1),
        attention_config=SimpleNamespace(hisparse_config=None),
        speculative_config=None,
        kv_transfer_config=None,
        max_in_flight_tokens=case["in_flight"],
    )


def _align(case: Any, config: Any) -> None:
    """Lets vLLM choose the block size of a model with recurrent states."""
    states = [layer for layer in case["layers"] if layer["kind"] == "state"]
    if not states:
        return
    from vllm.platforms.interface import Platform

    shapes, dtypes = _states(states[0])
    model = SimpleNamespace(
        get_mamba_state_shape_from_config=lambda _: shapes, get_mamba_state_dtype_from_config=lambda _: dtypes
    )
    registry = SimpleNamespace(resolve_model_cls=lambda *_, **__: (model, ""))
    _put("vllm.model_executor.models", ModelRegistry=registry)
    backend = SimpleNamespace(customize_spec=lambda spec: spec, get_supported_kernel_block_sizes=lambda: [16])
    Platform._align_hybrid_block_size(config, backend)


def _spec(layer: Any, config: Any) -> object:
    from vllm.v1 import kv_cache_interface as interface

    cache = config.cache_config
    if layer["kind"] == "state":
        shapes, dtypes = _states(layer)
        return interface.MambaSpec(
            block_size=config.model_config.max_model_len,
            shapes=shapes,
            dtypes=dtypes,
            page_size_padded=cache.mamba_page_size_padded,
        )
    shape = {
        "block_size": cache.block_size,
        "num_kv_heads": layer["heads"],
        "head_size": layer["key_dim"],
        "dtype": _torch_dtype(layer["dtype"]),
    }
    match layer["kind"]:
        case "latent" | "index":
            return interface.MLAAttentionSpec(**shape)
        case "window":
            return interface.SlidingWindowSpec(**shape, head_size_v=layer["value_dim"], sliding_window=layer["window"])
        case "chunk":
            return interface.ChunkedLocalAttentionSpec(
                **shape, head_size_v=layer["value_dim"], attention_chunk_size=layer["window"]
            )
        case _:
            return interface.FullAttentionSpec(**shape, head_size_v=layer["value_dim"])


def _states(layer: Any) -> tuple[tuple[tuple[int], ...], tuple[object, ...]]:
    shapes = tuple((values,) for values, _ in layer["states"])
    return shapes, tuple(_torch_dtype(dtype) for _, dtype in layer["states"])


def _attention(case: Any) -> Any:
    return next(layer for layer in case["layers"] if layer["kind"] != "state")


def _torch_dtype(name: str) -> object:
    import torch

    return {"bf16": torch.bfloat16, "f32": torch.float32, "f16": torch.float16, "fp8": torch.float8_e4m3fn}[name]


if __name__ == "__main__":
    main()
