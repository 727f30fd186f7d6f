"""Where the tests' model cards are: the wheel of aiconfigurator-core, and our own catalog."""

import functools
import json
from importlib.resources import files
from pathlib import Path

from accord.models.card import Json

FOLDER = Path(str(files("aiconfigurator_core"))) / "model_configs"


@functools.cache
def public_cards() -> tuple[str, ...]:
    """Names such as `Qwen--Qwen3-8B` of the cards that the wheel carries."""
    found = (path.name for path in FOLDER.glob("*_config.json") if not path.name.endswith("_hf_quant_config.json"))
    return tuple(sorted(name.removesuffix("_config.json") for name in found))


def public_cards_of(*model_types: str) -> tuple[str, ...]:
    """Those whose outermost `model_type` is one of these."""
    return tuple(name for name in public_cards() if public_card(name).get("model_type") in model_types)


def public_card(name: str) -> dict[str, Json]:
    """One card, parsed."""
    return json.loads((FOLDER / f"{name}_config.json").read_text())
