"""MiniCPM-o 2.6: SigLIP with a resampler, a Whisper encoder, a Qwen2.5 thinker, a ChatTTS talker, and Vocos.

In: its card. Out: `Architecture` with the stages `vision`, `audio`, `thinker`, `talker` and `code2wav`. Shapes follow
the model's own code, as vLLM-Omni carries it, and ChatTTS's and Vocos's; transformers has no class for it.
"""

from accord.models.card import Card
from accord.models.families.decoders.dense import decoder_stage
from accord.models.families.omni.minicpm_o_speech import speech_stages
from accord.models.families.omni.omni_sound import Sound, sound_edges, sound_stage
from accord.models.families.sight.seeing import Sight, vision_edges, vision_stage
from accord.models.families.text import text_of
from accord.models.graphs import architecture, text_in, text_out
from accord.models.parts.audio import encoder_layers
from accord.models.parts.feedforward import ACTIVATIONS
from accord.models.parts.pace import paced
from accord.models.parts.parts import Parts, convolution, linear, norm, table, vector
from accord.models.parts.vision import NAME, Blocks, blocks, patches, positions
from accord.terms.architecture import Architecture
from accord.terms.work import Attention, Reach

FAMILY = "minicpm-o"

# How pictures are cut and sound is chunked, and which halves are loaded.
_HANDLING = (
    "audio_chunk_length", "batch_vision_input", "chunk_input", "init_audio", "init_tts", "init_vision", "slice_config",
    "slice_mode", "stream_input", "use_image_id", "version", "vision_batch_size",
)  # fmt: skip
_TRAINING = (
    "apply_spec_augment", "begin_suppress_tokens", "classifier_proj_size", "decoder_attention_heads",
    "decoder_ffn_dim", "decoder_layerdrop", "decoder_layers", "encoder_layerdrop", "forced_decoder_ids",
    "mask_feature_length", "mask_feature_min_masks", "mask_feature_prob", "mask_time_length", "mask_time_min_masks",
    "mask_time_prob", "max_target_positions", "median_filter_width", "model_type", "num_hidden_layers",
    "suppress_tokens", "use_weighted_layer_sum", "vocab_size",
)  # fmt: skip


def build(card: Card, name: str) -> Architecture:
    """The architecture of a MiniCPM-o 2.6."""
    card.skip(*_HANDLING)
    text = text_of(card.given(model_type="qwen2"))
    sight, sound = _sight(card, text.hidden), _sound(card, text.hidden)
    stages, edges, remark = speech_stages(card.sub("tts_config"), width=text.hidden)
    return architecture(
        card,
        name=name,
        family=FAMILY,
        stages=(
            vision_stage(sight),
            sound_stage(sound),
            decoder_stage(card, text.parts, name="thinker"),
            *stages,
        ),
        edges=(
            *vision_edges(sight, target="thinker"),
            *sound_edges(sound, target="thinker"),
            text_in("thinker"),
            text_out("thinker"),
            *edges,
        ),
        context_max=text.context_max,
        remarks=(*text.remarks, remark),
    )


def _sight(card: Card, hidden: int) -> Sight:
    """A slice of a picture has at most as many patches as `image_size` allows, and becomes `query_num` tokens."""
    below = card.sub("vision_config")
    below.skip("model_type")
    below.choice("hidden_act", ACTIVATIONS, "gelu_pytorch_tanh")
    patch = below.size("patch_size", 14)
    card.skip("patch_size")
    side, table_side = card.size("image_size", 448) // patch, below.size("image_size", 980) // patch
    wide, heads = below.size("hidden_size", 1152), below.size("num_attention_heads", 16)
    below.divides("hidden_size", wide, heads, by="num_attention_heads")
    if not side:
        card.wrong("image_size", problem=f"smaller than a patch of {patch}", fix="write a larger picture")
    count = below.layers(default=27) - int(card.flag("drop_vision_last_layer", True))
    figures = Blocks(
        layers=tuple(range(count)),
        hidden=wide,
        heads=heads,
        width=below.size("intermediate_size", 4304),
        picture=side * side,
    )
    values = below.size("num_channels", 3) * patch**2
    queries = card.size("query_num", 64)
    parts = (
        patches(wide, values=values, bias=True)
        + positions(table_side**2, wide)
        + blocks(figures)
        + norm(f"{NAME}.norm_after", wide, bias=True)
        + _resampler(wide, hidden, queries=queries, picture=side * side)
    )
    return Sight(parts=parts, card=below, values=values, token_values=hidden, picture=side * side, tokens=queries)


def _resampler(wide: int, hidden: int, *, queries: int, picture: int) -> Parts:
    """Learned queries that read a slice's patches (heads of 128)."""
    rate, heads = queries / picture, max(1, hidden // 128)
    name = f"{NAME}.resampler"
    scores = Attention(
        name=name,
        layers=(0,),
        heads=heads,
        key_heads=heads,
        key_dim=hidden // heads,
        value_dim=hidden // heads,
        reach=Reach.CROSS,
        span=picture,
        rate=rate,
    )
    parts = vector(f"{name}.queries", queries * hidden) + linear(f"{name}.kv", wide, hidden, quantizable=False)
    for side in ("q_norm", "kv_norm", "out_norm"):
        parts += norm(f"{name}.{side}", hidden, bias=True)
    for side, each in (("q", rate), ("k", 1.0), ("v", 1.0), ("o", rate)):
        parts += linear(f"{name}.{side}", hidden, hidden, bias=True, rate=each, quantizable=False)
    return parts + Parts(operators=(scores,)) + linear(f"{name}.proj", hidden, hidden, rate=rate, quantizable=False)


def _sound(card: Card, out: int) -> Sound:
    """Whisper's encoder, a projection, and an average of neighbours."""
    below = card.sub("audio_config")
    below.skip(*_TRAINING)
    below.choice("activation_function", ACTIVATIONS, "gelu")
    hidden, heads = below.size("d_model", 1024), below.size("encoder_attention_heads", 16)
    below.divides("d_model", hidden, heads, by="encoder_attention_heads")
    bins, width = below.size("num_mel_bins", 80), below.size("encoder_ffn_dim", 4096)
    if width // 4 != hidden:
        below.wrong("encoder_ffn_dim", problem="not four times d_model", fix=f"write {4 * hidden}")
    pool = card.size("audio_pool_step", 5)
    layers = tuple(range(below.layers("encoder_layers", 24)))
    stack = (
        encoder_layers(layers, hidden=hidden, heads=heads, width=width, key_bias=False)
        + norm("norm", hidden, bias=True)
        + linear("proj1", hidden, out, bias=True, quantizable=False)
        + linear("proj2", out, out, bias=True, quantizable=False)
    )
    parts = (
        convolution("conv1", bins, hidden, kernel=3, rate=1)
        + convolution("conv2", hidden, hidden, kernel=3, rate=0.5)
        + table("positions", below.size("max_source_positions", 1500), hidden)
        + paced(stack, 0.5)
    )
    return Sound(parts=parts, card=below, bins=bins, width=out, window=2 * pool, tokens=1)
