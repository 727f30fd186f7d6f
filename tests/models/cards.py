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
    return tuple(sorted(path.name.removesuffix("_config.json") for path in FOLDER.glob("*[!t]_config.json")))


def public_card(name: str) -> dict[str, Json]:
    """One card, parsed."""
    return json.loads((FOLDER / f"{name}_config.json").read_text())
