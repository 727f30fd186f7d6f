"""The families that are known: a written-out table, one row each.

In: nothing. Out: `FAMILIES`. Invariant: a `model_type` stands in one row only.
"""

from collections.abc import Callable
from dataclasses import dataclass

from accord.models.card import Card
from accord.terms.architecture import Architecture

Build = Callable[[Card, str], Architecture]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One row. `build` is imported when it is called, so that one card costs one family's import."""

    name: str
    words: str
    model_types: tuple[str, ...]
    load: Callable[[], Build]


def _dense() -> Build:
    from accord.models.families.dense import build

    return build


def _whisper() -> Build:
    from accord.models.families.whisper import build

    return build


def _mla() -> Build:
    from accord.models.families.mla import build

    return build


def _sparse_index() -> Build:
    from accord.models.families.sparse_index import build

    return build


def _gemma() -> Build:
    from accord.models.families.gemma import build

    return build


def _gemma3() -> Build:
    from accord.models.families.gemma3 import build

    return build


def _qwen_vl() -> Build:
    from accord.models.families.qwen_vl import build

    return build


def _deepseek_v4() -> Build:
    from accord.models.families.deepseek_v4 import build

    return build


FAMILIES: tuple[Family, ...] = (
    Family(
        name="dense",
        words="dense decoders with grouped-query attention",
        model_types=("llama", "mistral", "qwen2", "qwen3", "mimo"),
        load=_dense,
    ),
    Family(
        name="whisper",
        words="speech recognition by an encoder and a decoder with cross attention",
        model_types=("whisper",),
        load=_whisper,
    ),
    Family(
        name="mla",
        words="mixtures of experts with multi-head latent attention",
        model_types=("deepseek_v2", "deepseek_v3", "kimi_k2", "glm4_moe_lite", "mistral4"),
        load=_mla,
    ),
    Family(
        name="sparse-index",
        words="latent attention over entries that an indexer chooses",
        model_types=("deepseek_v32", "glm_moe_dsa"),
        load=_sparse_index,
    ),
    Family(
        name="gemma",
        words="Gemma 1, 2 and 3: sliding and full layers",
        model_types=(
            "gemma",
            "gemma2",
            "gemma3_text",
        ),
        load=_gemma,
    ),
    Family(
        name="gemma3-vision",
        words="Gemma 3 with SigLIP; picture tokens see each other",
        model_types=("gemma3",),
        load=_gemma3,
    ),
    Family(
        name="qwen-vl",
        words="Qwen2-VL, Qwen2.5-VL, Qwen3-VL: merged patches, windows, deepstack",
        model_types=(
            "qwen2_vl",
            "qwen2_5_vl",
            "qwen3_vl",
            "qwen3_vl_moe",
        ),
        load=_qwen_vl,
    ),
    Family(
        name="deepseek-v4",
        words="attention over a window and compressed entries, with hyper-connections",
        model_types=("deepseek_v4", "deepseek_ref"),
        load=_deepseek_v4,
    ),
)
