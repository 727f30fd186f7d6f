"""Models that hear, speak or act: their rows of the table of families.

In: nothing. Out: `FAMILIES`. Invariant: a family's code is imported when its row is loaded.
"""

from accord.models.families.family import Build, Family


def _whisper() -> Build:
    from accord.models.families.omni.whisper import build

    return build


def _qwen_omni() -> Build:
    from accord.models.families.omni.qwen_omni import build

    return build


def _pi0() -> Build:
    from accord.models.families.omni.pi0 import build

    return build


def _openvla() -> Build:
    from accord.models.families.omni.openvla import build

    return build


def _csm() -> Build:
    from accord.models.families.omni.csm import build

    return build


def _fastspeech2_conformer() -> Build:
    from accord.models.families.omni.speech import build

    return build


def _gemma3n_omni() -> Build:
    from accord.models.families.omni.gemma3n_omni import build

    return build


def _minicpm_o() -> Build:
    from accord.models.families.omni.minicpm_o import build

    return build


def _gemma4_unified() -> Build:
    from accord.models.families.omni.gemma4_unified import build

    return build


FAMILIES: tuple[Family, ...] = (
    Family(
        name="whisper",
        words="speech recognition by an encoder and a decoder with cross attention",
        model_types=("whisper",),
        load=_whisper,
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
