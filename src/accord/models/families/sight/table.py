"""Models that see pictures and write text: their rows of the table of families.

In: nothing. Out: `FAMILIES`. Invariant: a family's code is imported when its row is loaded.
"""

from accord.models.families.family import Build, Family


def _gemma3() -> Build:
    from accord.models.families.sight.gemma3 import build

    return build


def _qwen_vl() -> Build:
    from accord.models.families.sight.qwen_vl import build

    return build


def _step() -> Build:
    from accord.models.families.sight.step import build

    return build


def _gemma4_vision() -> Build:
    from accord.models.families.sight.gemma4_vision import build

    return build


def _qwen_hybrid_vl() -> Build:
    from accord.models.families.sight.hybrid_qwen_vl import build

    return build


def _llava() -> Build:
    from accord.models.families.sight.llava import build

    return build


def _fuyu() -> Build:
    from accord.models.families.sight.fuyu import build

    return build


def _llama4_vision() -> Build:
    from accord.models.families.sight.llama4_vision import build

    return build


def _minimax_m3() -> Build:
    from accord.models.families.sight.minimax_m3 import build

    return build


def _kimi() -> Build:
    from accord.models.families.sight.kimi import build

    return build


FAMILIES: tuple[Family, ...] = (
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
        name="step",
        words="Step Flash: windows with more heads, gates, experts; pictures",
        model_types=("step3p5", "step3p7"),
        load=_step,
    ),
    Family(
        name="gemma4-vision",
        words="Gemma 4 with its vision tower; picture tokens see each other",
        model_types=("gemma4",),
        load=_gemma4_vision,
    ),
    Family(
        name="qwen-hybrid-vl",
        words="a vision tower in front of a hybrid Qwen decoder",
        model_types=("qwen3_5", "qwen3_5_moe"),
        load=_qwen_hybrid_vl,
    ),
    Family(
        name="llava",
        words="LLaVA, InternVL, Mistral 3: any tower, a projector, any decoder",
        model_types=(
            "llava",
            "internvl",
            "mistral3",
        ),
        load=_llava,
    ),
    Family(
        name="fuyu",
        words="Fuyu and Persimmon: a decoder that reads patches without a tower",
        model_types=(
            "fuyu",
            "persimmon",
        ),
        load=_fuyu,
    ),
    Family(
        name="llama4-vision",
        words="Llama 4 with its vision tower",
        model_types=("llama4",),
        load=_llama4_vision,
    ),
    Family(
        name="minimax-m3",
        words="an indexer chooses blocks of keys; experts; vision",
        model_types=("minimax_m3", "minimax_m3_vl", "minimax_m3_vl_text"),
        load=_minimax_m3,
    ),
    Family(
        name="kimi",
        words="Kimi-K2.5 to K3: a vision tower in front of latent attention",
        model_types=("kimi_k25", "kimi_k3"),
        load=_kimi,
    ),
)
