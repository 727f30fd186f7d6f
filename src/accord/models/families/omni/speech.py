"""FastSpeech 2 on Conformers with HiFi-GAN: text to a spectrum in one pass, and a vocoder.

In: its card. Out: `Architecture` with the stages `acoustic` and `vocoder`. Shapes follow transformers'
FastSpeech2ConformerWithHifiGan. The acoustic stage's unit is a phoneme with its mel frames (`FRAMES` on average).
"""

from accord.models.card import Card
from accord.models.graphs import EdgeDraft, StageDraft, architecture, text_in
from accord.models.parts.audio import attend, residual_convolutions, transposed
from accord.models.parts.pace import paced
from accord.models.parts.parts import NOTHING, Layers, Parts, convolution, linear, norm, table, vector
from accord.terms.architecture import Architecture, Unit
from accord.terms.graph import DOOR, Batching, Capability, Payload
from accord.terms.work import Attention, Per, Reach

FAMILY = "fastspeech2-conformer"
# LJSpeech, with which it is published, has some 12 phonemes a second and 22050 / 256 = 86 mel frames.
FRAMES = 7

_TRAINING = (
    "decoder_attention_dropout_rate", "decoder_dropout_rate", "decoder_positional_dropout_rate",
    "duration_predictor_dropout_rate", "encoder_attention_dropout_rate", "encoder_dropout_rate",
    "encoder_positional_dropout_rate", "energy_embed_dropout", "energy_predictor_dropout", "pitch_embed_dropout",
    "pitch_predictor_dropout", "speech_decoder_postnet_dropout", "stop_gradient_from_energy_predictor",
    "stop_gradient_from_pitch_predictor", "use_masking", "use_weighted_masking", "encoder_normalize_before",
    "decoder_normalize_before", "max_source_positions", "speaking_speed", "model_type", "encoder_config",
    "decoder_config",
)  # fmt: skip


def build(card: Card, name: str) -> Architecture:
    """The acoustic model, with its vocoder where the card has one."""
    if card.word("model_type") == "fastspeech2_conformer":
        model, vocoder = card, None
    else:
        full = card.given(model_config=card.raw("model_config") or {}, vocoder_config=card.raw("vocoder_config") or {})
        model, vocoder = full.sub("model_config"), full.sub("vocoder_config")
    bins = model.size("num_mel_bins", 80)
    stages: tuple[StageDraft, ...] = (_acoustic_stage(model, acoustic(model, bins)),)
    spectrum = EdgeDraft(
        source="acoustic",
        target="vocoder" if vocoder else DOOR,
        payload=Payload.SPECTRUM,
        unit=Unit.FRAME,
        unit_bytes=4 * bins,
        required=True,
    )
    edges: tuple[EdgeDraft, ...] = (text_in("acoustic"), spectrum)
    if vocoder is not None:
        stages += (_vocoder_stage(vocoder, hifigan(vocoder, bins)),)
        edges += (
            EdgeDraft(source="vocoder", target=DOOR, payload=Payload.PCM, unit=Unit.SAMPLE, unit_bytes=2, stream=True),
        )
    words = f"work of the acoustic stage is for {FRAMES} mel frames a phoneme, as in the speech that it was trained on"
    return architecture(card, name=name, family=FAMILY, stages=stages, edges=edges, remarks=(words,))


def acoustic(card: Card, bins: int) -> Parts:
    """Phonemes, how long and how high each is, and mel frames."""
    card.skip(*_TRAINING)
    hidden = card.size("hidden_size", 384)
    parts = table("embed_tokens", card.size("vocab_size", 78), hidden)
    for key in ("num_speakers", "num_languages"):
        count = card.size(key, 1, least=0)
        if count > 1:
            parts += table(f"embed_{key.removeprefix('num_')}", count, hidden, per=Per.SEQUENCE)
    voice = card.maybe("speaker_embed_dim")
    if voice is not None:
        parts += linear("speaker", hidden + voice, hidden, bias=True, quantizable=False)
    parts += _conformer(card, "encoder", hidden, kernel=7)
    for what, layers, kernel in (("duration", 2, 3), ("pitch", 5, 5), ("energy", 2, 3)):
        parts += _predictor(card, what, hidden, layers=layers, kernel=kernel)
    return parts + paced(_conformer(card, "decoder", hidden, kernel=31) + _postnet(card, hidden, bins), FRAMES)


def hifigan(card: Card, bins: int) -> Parts:
    """HiFi-GAN (arXiv 2010.05646)."""
    card.skip("model_type", "leaky_relu_slope", "normalize_before", "sampling_rate")
    inputs, channels = card.size("model_in_dim", 80), card.size("upsample_initial_channel", 512)
    if inputs != bins:
        card.wrong("model_in_dim", problem=f"the spectrum has {bins} bins", fix=f"write {bins}")
    rates = card.sizes("upsample_rates", least=1, default=(8, 8, 2, 2))
    kernels = card.sizes("upsample_kernel_sizes", least=1, count=len(rates), default=(16, 16, 4, 4))
    if channels % 2 ** len(rates):
        card.wrong("upsample_initial_channel", problem=f"can't be halved {len(rates)} times", fix="write a power of 2")
    sides = card.sizes("resblock_kernel_sizes", least=1, default=(3, 7, 11))
    dilations = _dilations(card, len(sides))
    parts, pace = convolution("in", inputs, channels, kernel=7, rate=1), 1
    for index, (rate, kernel) in enumerate(zip(rates, kernels, strict=True)):
        parts += transposed(f"up{index}", channels, channels // 2, kernel=kernel, rate=pace)
        channels, pace = channels // 2, pace * rate
        parts += residual_convolutions(f"up{index}", channels, kernels=sides, pairs=dilations, rate=pace)
    return parts + convolution("out", channels, 1, kernel=7, rate=pace)


def _dilations(card: Card, count: int) -> tuple[int, ...]:
    """How many pairs of convolutions each kernel has: three, unless the card lists other dilations."""
    listed = card.raw("resblock_dilation_sizes")
    if not isinstance(listed, list):
        return (3,) * count
    lengths = tuple(len(item) for item in listed if isinstance(item, list))
    if len(lengths) != count or len(listed) != count:
        card.wrong("resblock_dilation_sizes", problem=f"not {count} lists", fix="write one list for each kernel size")
    return lengths


def _conformer(card: Card, side: str, hidden: int, *, kernel: int) -> Parts:
    """Layers with attention by distance (arXiv 1901.02860), a convolution, and feed-forward blocks that convolve."""
    heads, width = card.size(f"{side}_num_attention_heads", 2), card.size(f"{side}_linear_units", 1536)
    card.divides("hidden_size", hidden, heads, by=f"{side}_num_attention_heads")
    first = card.layers("encoder_layers", 4) if side == "decoder" else 0
    layers = tuple(range(first, first + card.layers(f"{side}_layers", 4)))
    reach = card.size("positionwise_conv_kernel_size", 3)
    parts = _distances(layers, hidden=hidden, heads=heads, side=side)
    blocks = ["mlp", "macaron"] if card.flag("use_macaron_style_in_conformer", True) else ["mlp"]
    for name in blocks:
        parts += norm(f"{side}.{name}_norm", hidden, layers, bias=True)
        parts += convolution(f"{side}.{name}.up", hidden, width, layers, kernel=reach, rate=1)
        parts += convolution(f"{side}.{name}.down", width, hidden, layers, kernel=reach, rate=1)
    if card.flag("use_cnn_in_conformer", True):
        bias, kernel = card.flag("convolution_bias", True), card.size(f"{side}_kernel_size", kernel)
        parts += norm(f"{side}.conv_norm", hidden, layers, bias=True)
        parts += norm(f"{side}.final_norm", hidden, layers, bias=True)
        parts += convolution(f"{side}.conv.in", hidden, 2 * hidden, layers, kernel=1, rate=1, bias=bias)
        parts += convolution(f"{side}.conv", hidden, hidden, layers, kernel=kernel, rate=1, groups=hidden, bias=bias)
        parts += norm(f"{side}.conv.norm", hidden, layers, bias=True)
        parts += convolution(f"{side}.conv.out", hidden, hidden, layers, kernel=1, rate=1, bias=bias)
    if card.flag(f"{side}_concat_after", False):
        parts += linear(f"{side}.concat", 2 * hidden, hidden, layers, bias=True)
    return parts


def _distances(layers: Layers, *, hidden: int, heads: int, side: str) -> Parts:
    """Attention whose scores have a second term, over all 2 n - 1 distances between n positions."""
    name, size = f"{side}.attention", hidden // heads
    further = Attention(
        name=f"{name}.distance",
        layers=layers,
        heads=heads,
        key_heads=heads,
        key_dim=2 * size,
        value_dim=0,
        reach=Reach.ALL,
    )
    return (
        norm(f"{name}_norm", hidden, layers, bias=True)
        + attend(layers, hidden=hidden, heads=heads, reach=Reach.ALL, name=name)
        + linear(f"{name}.distances", hidden, hidden, layers, rate=2)
        + vector(f"{name}.bias_u", hidden, layers)
        + vector(f"{name}.bias_v", hidden, layers)
        + Parts(operators=(further,))
    )


def _predictor(card: Card, what: str, hidden: int, *, layers: int, kernel: int) -> Parts:
    """A number for each phoneme; pitch and energy are then embedded again."""
    wide, count = card.size(f"{what}_predictor_channels", 256), card.layers(f"{what}_predictor_layers", layers)
    kernel = card.size(f"{what}_predictor_kernel_size", kernel)
    parts = NOTHING
    for index in range(count):
        parts += convolution(f"{what}.{index}", wide if index else hidden, wide, kernel=kernel, rate=1)
        parts += norm(f"{what}.{index}.norm", wide, bias=True)
    parts += linear(f"{what}.out", wide, 1, bias=True, quantizable=False)
    if what == "duration":
        return parts
    return parts + convolution(f"{what}.embed", 1, hidden, kernel=card.size(f"{what}_embed_kernel_size", 1), rate=1)


def _postnet(card: Card, hidden: int, bins: int) -> Parts:
    wide, kernel = card.size("speech_decoder_postnet_units", 256), card.size("speech_decoder_postnet_kernel", 5)
    if card.size("reduction_factor", 1) != 1:
        card.wrong("reduction_factor", problem="not supported here", fix="set it to 1")
    count = card.layers("speech_decoder_postnet_layers", 5)
    parts = linear("feat_out", hidden, bins, bias=True, quantizable=False)
    for index in range(count):
        inputs, outputs = wide if index else bins, bins if index == count - 1 else wide
        parts += convolution(f"postnet.{index}", inputs, outputs, kernel=kernel, rate=1, bias=False)
        parts += norm(f"postnet.{index}.norm", outputs, bias=True)
    return parts


def _acoustic_stage(card: Card, parts: Parts) -> StageDraft:
    return StageDraft(
        name="acoustic",
        capabilities=(Capability.VOCODE,),
        batching=Batching.PLAIN,
        unit=Unit.TOKEN,
        parts=parts,
        card=card,
        example_units=60,
    )


def _vocoder_stage(card: Card, parts: Parts) -> StageDraft:
    return StageDraft(
        name="vocoder",
        capabilities=(Capability.VOCODE,),
        batching=Batching.CHUNKED,
        unit=Unit.FRAME,
        parts=parts,
        card=card,
        example_units=60 * FRAMES,
    )
