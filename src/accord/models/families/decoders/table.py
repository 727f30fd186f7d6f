"""Language models alone: their rows of the table of families.

In: nothing. Out: `FAMILIES`. Invariant: a family's code is imported when its row is loaded.
"""

from accord.models.families.family import Build, Family


def _dense() -> Build:
    from accord.models.families.decoders.dense import build

    return build


def _mla() -> Build:
    from accord.models.families.decoders.mla import build

    return build


def _sparse_index() -> Build:
    from accord.models.families.decoders.sparse_index import build

    return build


def _gemma() -> Build:
    from accord.models.families.decoders.gemma import build

    return build


def _deepseek_v4() -> Build:
    from accord.models.families.decoders.deepseek_v4 import build

    return build


def _moe() -> Build:
    from accord.models.families.decoders.moe import build

    return build


def _gpt_oss() -> Build:
    from accord.models.families.decoders.gpt_oss import build

    return build


def _llama4() -> Build:
    from accord.models.families.decoders.llama4 import build

    return build


def _mimo_v2() -> Build:
    from accord.models.families.decoders.mimo_v2 import build

    return build


def _nas() -> Build:
    from accord.models.families.decoders.nas import build

    return build


def _gemma4() -> Build:
    from accord.models.families.decoders.gemma4 import build

    return build


def _qwen_hybrid() -> Build:
    from accord.models.families.decoders.hybrid_qwen import build

    return build


def _kimi_linear() -> Build:
    from accord.models.families.decoders.kimi_linear import build

    return build


def _minimax_text() -> Build:
    from accord.models.families.decoders.hybrid_lightning import build

    return build


def _nemotron_h() -> Build:
    from accord.models.families.decoders.nemotron_h import build

    return build


def _mamba2_hybrid() -> Build:
    from accord.models.families.decoders.hybrid_mamba2 import build

    return build


def _lfm2() -> Build:
    from accord.models.families.decoders.lfm2 import build

    return build


def _jamba() -> Build:
    from accord.models.families.decoders.jamba import build

    return build


def _gemma3n() -> Build:
    from accord.models.families.decoders.gemma3n import build

    return build


FAMILIES: tuple[Family, ...] = (
    Family(
        name="dense",
        words="dense decoders with grouped-query attention",
        model_types=("llama", "mistral", "ministral", "ministral3", "qwen2", "qwen3", "mimo"),
        load=_dense,
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
        name="deepseek-v4",
        words="attention over a window and compressed entries, with hyper-connections",
        model_types=("deepseek_v4", "deepseek_ref"),
        load=_deepseek_v4,
    ),
    Family(
        name="moe",
        words="mixtures of experts with grouped-query attention",
        model_types=("mixtral", "qwen2_moe", "qwen3_moe", "glm4_moe", "minimax_m2"),
        load=_moe,
    ),
    Family(
        name="gpt-oss",
        words="gpt-oss: attention sinks, windows in every other layer, experts with biases",
        model_types=("gpt_oss",),
        load=_gpt_oss,
    ),
    Family(
        name="llama4",
        words="Llama 4's language model: chunked attention, experts",
        model_types=("llama4_text",),
        load=_llama4,
    ),
    Family(
        name="mimo-v2",
        words="MiMo-V2-Flash: windows with heads of their own, experts",
        model_types=("mimo_v2_flash",),
        load=_mimo_v2,
    ),
    Family(
        name="nas",
        words="Nemotron models found by architecture search",
        model_types=("nemotron-nas",),
        load=_nas,
    ),
    Family(
        name="gemma4",
        words="Gemma 4: two sizes of heads, shared caches, per-layer embeddings, experts",
        model_types=("gemma4_text", "gemma4_unified_text"),
        load=_gemma4,
    ),
    Family(
        name="qwen-hybrid",
        words="decoders that mix gated delta nets and gated attention",
        model_types=("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"),
        load=_qwen_hybrid,
    ),
    Family(
        name="kimi-linear",
        words="decoders that mix Kimi Delta Attention and latent attention",
        model_types=("kimi_linear",),
        load=_kimi_linear,
    ),
    Family(
        name="minimax-text",
        words="decoders that mix lightning attention and softmax attention",
        model_types=("minimax", "minimax_text_01", "minimax_m1"),
        load=_minimax_text,
    ),
    Family(
        name="nemotron-h",
        words="decoders of Mamba-2, attention and feed-forward layers",
        model_types=("nemotron_h",),
        load=_nemotron_h,
    ),
    Family(
        name="mamba2-hybrid",
        words="decoders that mix Mamba-2 and attention: Bamba, Granite 4, Falcon-H1",
        model_types=("bamba", "granitemoehybrid", "falcon_h1"),
        load=_mamba2_hybrid,
    ),
    Family(
        name="lfm2",
        words="decoders that mix short convolutions and attention",
        model_types=("lfm2", "lfm2_moe"),
        load=_lfm2,
    ),
    Family(
        name="jamba",
        words="decoders that mix Mamba and attention, with experts",
        model_types=("jamba",),
        load=_jamba,
    ),
    Family(
        name="gemma3n",
        words="Gemma 3n: residual streams, per-layer embeddings, shared caches",
        model_types=("gemma3n_text",),
        load=_gemma3n,
    ),
)
