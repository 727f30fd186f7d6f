"""What diffusers and transformers make of a pipeline's card, component by component.

Whole components are made on the meta device (no memory); shrunk ones are random, on the CPU in float32.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import diffusers
import torch
import transformers
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from tests.models.peers import config_of

_STAGES = {"transformer": "denoiser", "transformer_2": "denoiser_2"}


def components(card: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The nested mappings of a card that have weights, by the names of our stages."""
    parts = {key: value for key, value in card.items() if isinstance(value, Mapping) and key != "scheduler"}
    return {_STAGES.get(key, key): value for key, value in parts.items()}


def component(values: Mapping[str, Any], *, device: str = "cpu") -> torch.nn.Module:
    """One component, random: a diffusers class, or the text encoder that `architectures` names."""
    torch.manual_seed(0)
    # The class is looked up first: some modules make tensors while they are imported.
    if "_class_name" in values:
        settings = {key: value for key, value in values.items() if not key.startswith("_")}
        kind = getattr(diffusers, values["_class_name"])
        with torch.device(device):
            return kind(**settings).eval()
    kind, config = getattr(transformers, values["architectures"][0]), config_of(values)
    with torch.device(device):
        return kind(config).eval()


def meta_component(values: Mapping[str, Any]) -> torch.nn.Module:
    """The same without memory."""
    return component(values, device="meta")


def save(card: Mapping[str, Any], folder: Path) -> None:
    """A pipeline's folder as diffusers writes it, without weights: every setting is spelled out."""
    index = {"_class_name": card["_class_name"], "_diffusers_version": diffusers.__version__}
    absent = {
        "image_encoder": [None, None],
        "transformer_2": [None, None],
        "tokenizer": ["transformers", "T5Tokenizer"],
    }
    for key, value in card.items():
        if isinstance(value, Mapping):
            index[key] = ["diffusers" if "_class_name" in value else "transformers", "any"]
            model: Any = meta_component(value)
            if "_class_name" in value:
                model.save_config(folder / key)
            else:
                model.config.architectures = value["architectures"]
                model.config.save_pretrained(folder / key)
    (folder / "model_index.json").write_text(json.dumps({**absent, **index}))


def flops_of(call: Callable[[], Any]) -> int:
    """FLOPs of one call. Attention runs as plain matrix multiplies, since no CPU kernel for it is counted."""
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter, sdpa_kernel(SDPBackend.MATH):
        call()
    return counter.get_total_flops()


def times_of(steps: int, *, shift: float) -> list[int]:
    """The times of the scheduler that Wan's pipelines use."""
    kind: Any = diffusers.UniPCMultistepScheduler
    scheduler = kind(
        prediction_type="flow_prediction", use_flow_sigmas=True, num_train_timesteps=1000, flow_shift=shift
    )
    scheduler.set_timesteps(steps)
    return list(scheduler.timesteps.tolist())
