"""Qwen2.5-Omni and Qwen3-Omni: audio and vision encoders, a thinker that writes, a talker that speaks.

In: their cards, whole or of the thinker alone. Out: `Architecture` with the stages `audio`, `vision`, `thinker`,
`talker`, and `code2wav` (Qwen3) or `denoiser` and `vocoder` (Qwen2.5). Shapes follow transformers' classes.
"""

from accord.models.card import Card
from accord.models.families.decoders.dense import decoder_stage
from accord.models.families.omni.omni_code2wav import CHUNK, code2wav, code2wav_stage
from accord.models.families.omni.omni_sound import Sound, qwen2_5_sound, qwen3_sound, sound_edges, sound_stage
from accord.models.families.omni.omni_talker import Talker, qwen2_5_talker, qwen3_talker, talker_stage
from accord.models.families.omni.omni_token2wav import denoiser, denoiser_stage, vocoder, vocoder_stage
from accord.models.families.sight.qwen_vl import sight_of
from accord.models.families.sight.seeing import Sight, vision_edges, vision_stage
from accord.models.families.text import Text, text_of
from accord.models.graphs import EdgeDraft, StageDraft, architecture, text_in, text_out
from accord.terms.architecture import Architecture, Unit
from accord.terms.graph import DOOR, Payload

FAMILY = "qwen-omni"

_TOKENS = (
    "assistant_token_id", "audio_end_token_id", "audio_start_token_id", "audio_token_id", "audio_token_index",
    "enable_talker", "ignore_index", "im_end_token_id", "im_start_token_id", "image_token_id", "image_token_index",
    "system_token_id", "tts_bos_token_id", "tts_eos_token_id", "tts_pad_token_id", "user_token_id", "video_token_id",
    "video_token_index", "vision_end_token_id", "vision_start_token_id", "vision_token_id",
)  # fmt: skip
# Where clips stand in time, and keys of these encoders that their classes don't read.
_POSITIONS = ("position_id_per_seconds", "seconds_per_chunk", "interleaved")
_UNUSED_VISION = ("apply_vit_abs_pos_embed", "image_size", "embed_dim", "mlp_ratio")
_ONE_VECTOR = (
    "thinker -> talker carries one vector a token: a text token's embedding, or the hidden state of layer {layer} for "
    "what was seen or heard; engines that send both need twice the bytes"
)
_SUM = "thinker -> talker carries one vector a token: the sum of its embedding and its last hidden state"


def build(card: Card, name: str) -> Architecture:
    """The architecture of a whole omni model, of its thinker with the encoders, or of its text decoder."""
    kind = card.word("model_type")
    if kind.endswith("_text"):
        text = text_of(card)
        return architecture(
            card,
            name=name,
            family=FAMILY,
            stages=(decoder_stage(text.card, text.parts),),
            edges=(text_in("decoder"), text_out("decoder")),
            context_max=text.context_max,
            remarks=text.remarks,
        )
    newer = kind.startswith("qwen3")
    card.skip(*_TOKENS)
    thinker = card if kind.endswith("_thinker") else card.sub("thinker_config")
    stages, edges, text = _thinker(thinker, newer=newer)
    remarks = text.remarks
    if thinker is not card and card.flag("enable_audio_output", True):
        more, flows, words = _speech3(card) if newer else _speech2_5(card)
        stages, edges, remarks = stages + more, edges + flows, (*remarks, words)
    return architecture(
        card, name=name, family=FAMILY, stages=stages, edges=edges, context_max=text.context_max, remarks=remarks
    )


def _thinker(card: Card, *, newer: bool) -> tuple[tuple[StageDraft, ...], tuple[EdgeDraft, ...], Text]:
    card.skip("model_type", *_TOKENS, *_POSITIONS)
    below = card.sub("text_config")
    below.skip("shared_expert_intermediate_size", "use_qk_norm", *_POSITIONS)
    kind = "qwen3_omni_moe_text" if newer else "qwen2_5_omni_text"
    text = text_of(below, kind=kind, tied=card.flag("tie_word_embeddings", False))
    heard, seen = card.sub("audio_config"), card.sub("vision_config")
    seen.skip(*_UNUSED_VISION)
    sound: Sound = qwen3_sound(heard) if newer else qwen2_5_sound(heard)
    sight: Sight = sight_of(seen, kind="qwen3_vl" if newer else "qwen2_5_vl", hidden=text.hidden)
    if sound.width != text.hidden:
        heard.wrong("output_dim", problem=f"the decoder's width is {text.hidden}", fix=f"write {text.hidden}")
    stages = (sound_stage(sound), vision_stage(sight), decoder_stage(text.card, text.parts, name="thinker"))
    edges = (
        *sound_edges(sound, target="thinker"),
        *vision_edges(sight, target="thinker"),
        text_in("thinker"),
        text_out("thinker"),
    )
    return stages, edges, text


def _speech3(card: Card) -> tuple[tuple[StageDraft, ...], tuple[EdgeDraft, ...], str]:
    below = card.sub("talker_config")
    layer = below.size("accept_hidden_layer", 18, least=0)
    talker, wave = qwen3_talker(below), code2wav(card.sub("code2wav_config"))
    if wave.groups != talker.groups:
        wave.card.wrong("num_quantizers", problem=f"not the talker's {talker.groups}", fix=f"write {talker.groups}")
    edges = (
        _hidden(talker),
        _codes(talker, target="code2wav", chunk=CHUNK),
        _sound(source="code2wav", chunk=CHUNK * wave.samples),
    )
    return (talker_stage(talker), code2wav_stage(wave)), edges, _ONE_VECTOR.format(layer=layer)


def _speech2_5(card: Card) -> tuple[tuple[StageDraft, ...], tuple[EdgeDraft, ...], str]:
    talker = qwen2_5_talker(card.sub("talker_config"))
    below = card.sub("token2wav_config")
    below.skip("model_type")
    refiner, wave = denoiser(below.sub("dit_config")), vocoder(below.sub("bigvgan_config"))
    edges = (
        _hidden(talker),
        _codes(talker, target="denoiser", chunk=None),
        EdgeDraft(
            source="denoiser",
            target="vocoder",
            payload=Payload.SPECTRUM,
            unit=Unit.FRAME,
            unit_bytes=4 * refiner.bins,
            required=True,
        ),
        _sound(source="vocoder", chunk=None),
    )
    return (talker_stage(talker), denoiser_stage(refiner), vocoder_stage(wave)), edges, _SUM


def _hidden(talker: Talker) -> EdgeDraft:
    return EdgeDraft(
        source="thinker",
        target="talker",
        payload=Payload.HIDDEN,
        unit=Unit.TOKEN,
        unit_bytes=2 * talker.width,
        stream=True,
        chunk_units=1,
        required=True,
    )


def _codes(talker: Talker, *, target: str, chunk: int | None) -> EdgeDraft:
    return EdgeDraft(
        source="talker",
        target=target,
        payload=Payload.CODES,
        unit=Unit.FRAME,
        unit_bytes=4 * talker.groups,
        stream=True,
        chunk_units=chunk,
        required=True,
    )


def _sound(*, source: str, chunk: int | None) -> EdgeDraft:
    return EdgeDraft(
        source=source,
        target=DOOR,
        payload=Payload.PCM,
        unit=Unit.SAMPLE,
        unit_bytes=2,
        stream=True,
        chunk_units=chunk,
    )
