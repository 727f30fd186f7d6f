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


def _moe() -> Build:
    from accord.models.families.moe import build

    return build


def _gpt_oss() -> Build:
    from accord.models.families.gpt_oss import build

    return build


def _llama4() -> Build:
    from accord.models.families.llama4 import build

    return build


def _mimo_v2() -> Build:
    from accord.models.families.mimo_v2 import build

    return build


def _step() -> Build:
    from accord.models.families.step import build

    return build


def _nas() -> Build:
    from accord.models.families.nas import build

    return build


def _gemma4() -> Build:
    from accord.models.families.gemma4 import build

    return build


def _gemma4_vision() -> Build:
    from accord.models.families.gemma4_vision import build

    return build


def _qwen_omni() -> Build:
    from accord.models.families.qwen_omni import build

    return build


def _qwen_hybrid() -> Build:
    from accord.models.families.hybrid_qwen import build

    return build


def _qwen_hybrid_vl() -> Build:
    from accord.models.families.hybrid_qwen_vl import build

    return build


def _kimi_linear() -> Build:
    from accord.models.families.kimi_linear import build

    return build


def _minimax_text() -> Build:
    from accord.models.families.hybrid_lightning import build

    return build


def _nemotron_h() -> Build:
    from accord.models.families.nemotron_h import build

    return build


def _mamba2_hybrid() -> Build:
    from accord.models.families.hybrid_mamba2 import build

    return build


def _lfm2() -> Build:
    from accord.models.families.lfm2 import build

    return build


def _jamba() -> Build:
    from accord.models.families.jamba import build

    return build


def _cosmos_ar() -> Build:
    from accord.models.families.cosmos_ar import build

    return build


def _diffusion() -> Build:
    from accord.models.families.diffusion import build

    return build


def _llava() -> Build:
    from accord.models.families.llava import build

    return build


def _fuyu() -> Build:
    from accord.models.families.fuyu import build

    return build


def _llama4_vision() -> Build:
    from accord.models.families.llama4_vision import build

    return build


def _minimax_m3() -> Build:
    from accord.models.families.minimax_m3 import build

    return build


def _kimi() -> Build:
    from accord.models.families.kimi import build

    return build


def _gemma3n() -> Build:
    from accord.models.families.gemma3n import build

    return build


def _pi0() -> Build:
    from accord.models.families.pi0 import build

    return build


def _openvla() -> Build:
    from accord.models.families.openvla import build

    return build


def _csm() -> Build:
    from accord.models.families.csm import build

    return build


def _fastspeech2_conformer() -> Build:
    from accord.models.families.speech import build

    return build


def _gemma3n_omni() -> Build:
    from accord.models.families.gemma3n_omni import build

    return build


def _minicpm_o() -> Build:
    from accord.models.families.minicpm_o import build

    return build


def _gemma4_unified() -> Build:
    from accord.models.families.gemma4_unified import build

    return build


FAMILIES: tuple[Family, ...] = (
    Family(
        name="dense",
        words="dense decoders with grouped-query attention",
        model_types=("llama", "mistral", "ministral", "ministral3", "qwen2", "qwen3", "mimo"),
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
        name="step",
        words="Step Flash: windows with more heads, gates, experts; pictures",
        model_types=("step3p5", "step3p7"),
        load=_step,
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
        name="gemma4-vision",
        words="Gemma 4 with its vision tower; picture tokens see each other",
        model_types=("gemma4",),
        load=_gemma4_vision,
    ),
    Family(
        name="qwen-omni",
        words="Qwen2.5-Omni and Qwen3-Omni: encoders, thinker, talker, code2wav",
        model_types=(
            "qwen2_5_omni",
            "qwen2_5_omni_text",
            "qwen2_5_omni_thinker",
            "qwen3_omni_moe",
            "qwen3_omni_moe_text",
            "qwen3_omni_moe_thinker",
        ),
        load=_qwen_omni,
    ),
    Family(
        name="qwen-hybrid",
        words="decoders that mix gated delta nets and gated attention",
        model_types=("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"),
        load=_qwen_hybrid,
    ),
    Family(
        name="qwen-hybrid-vl",
        words="a vision tower in front of a hybrid Qwen decoder",
        model_types=("qwen3_5", "qwen3_5_moe"),
        load=_qwen_hybrid_vl,
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
        name="diffusion",
        words="text encoders, a denoiser run step by step, a VAE: pictures, clips and worlds",
        model_types=(
            "QwenImagePipeline",
            "FluxPipeline",
            "StableDiffusion3Pipeline",
            "ZImagePipeline",
            "WanPipeline",
            "CosmosTextToWorldPipeline",
            "CosmosVideoToWorldPipeline",
            "Cosmos2TextToImagePipeline",
            "Cosmos2VideoToWorldPipeline",
            "Cosmos3OmniPipeline",
        ),
        load=_diffusion,
    ),
    Family(
        name="cosmos-ar",
        words="Cosmos's autoregressive world models: a decoder over a video's tokens",
        model_types=("cosmos_ar",),
        load=_cosmos_ar,
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
    Family(
        name="gemma3n",
        words="Gemma 3n: residual streams, per-layer embeddings, shared caches",
        model_types=("gemma3n_text",),
        load=_gemma3n,
    ),
    Family(
        name="pi0",
        words="pi0: a prefix of pictures and words, and an action expert with flow matching",
        model_types=("pi0",),
        load=_pi0,
    ),
    Family(
        name="openvla",
        words="OpenVLA: two vision towers and a Llama 2 that writes actions",
        model_types=("openvla",),
        load=_openvla,
    ),
    Family(
        name="csm",
        words="CSM: a Llama that speaks codes, a depth decoder, the Mimi codec",
        model_types=("csm",),
        load=_csm,
    ),
    Family(
        name="fastspeech2-conformer",
        words="FastSpeech 2 on Conformers, with HiFi-GAN",
        model_types=(
            "fastspeech2_conformer",
            "fastspeech2_conformer_with_hifigan",
        ),
        load=_fastspeech2_conformer,
    ),
    Family(
        name="gemma3n-omni",
        words="Gemma 3n with its audio encoder",
        model_types=("gemma3n",),
        load=_gemma3n_omni,
    ),
    Family(
        name="minicpm-o",
        words="MiniCPM-o 2.6: SigLIP, Whisper, Qwen2.5, ChatTTS, Vocos",
        model_types=("minicpmo",),
        load=_minicpm_o,
    ),
    Family(
        name="gemma4-unified",
        words="Gemma 4 without towers: pixels and samples go straight in",
        model_types=("gemma4_unified",),
        load=_gemma4_unified,
    ),
)
