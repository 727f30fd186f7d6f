"""The audio encoders of the omni models: mel frames in, embeddings that take the place of tokens out.

In: an `audio_config`. Out: `Sound`. The unit is a mel frame (10 ms). Shapes follow transformers'
Qwen2_5OmniAudioEncoder and Qwen3OmniMoeAudioEncoder, with clips of whole windows.
"""

from dataclasses import dataclass

from accord.models.card import Card
from accord.models.graphs import EdgeDraft, StageDraft
from accord.models.parts.audio import encoder_layers
from accord.models.parts.feedforward import ACTIVATIONS
from accord.models.parts.pace import paced
from accord.models.parts.parts import Parts, convolution, linear, norm, table
from accord.terms.architecture import Constraint, Rule, Unit
from accord.terms.graph import DOOR, Batching, Capability, Payload
from accord.terms.work import Per


@dataclass(frozen=True, slots=True, kw_only=True)
class Sound:
    """An encoder of `bins` mel bins whose output is `width` wide. `window` frames become `tokens` tokens."""

    parts: Parts
    card: Card
    bins: int
    width: int
    window: int
    tokens: int


def qwen2_5_sound(card: Card) -> Sound:
    """Whisper's front end, layers that see two seconds, pairs of positions averaged into one token."""
    base = _frame(card)
    window = 2 * card.size("n_window", 100)
    if window % 4:
        card.wrong("n_window", problem="odd", fix="write an even number")
    layers = encoder_layers(
        base.layers, hidden=base.hidden, heads=base.heads, width=base.width, key_bias=False, span=window // 2
    )
    parts = (
        convolution("conv1", base.bins, base.hidden, kernel=3, rate=1)
        + convolution("conv2", base.hidden, base.hidden, kernel=3, rate=0.5)
        + paced(layers, 0.5)
        + norm("norm", base.hidden, bias=True)
        + linear("proj", base.hidden, base.out, bias=True, rate=0.25, quantizable=False)
        + table("bos_eos", 2, base.out, per=Per.SEQUENCE)
    )
    return Sound(parts=parts, card=card, bins=base.bins, width=base.out, window=window, tokens=window // 4)


def qwen3_sound(card: Card) -> Sound:
    """Three convolutions over time and pitch on pieces of a second, layers that see some seconds."""
    base = _frame(card)
    window = 2 * card.size("n_window", 50)
    seen = card.size("n_window_infer", 800)
    if seen < window:
        card.wrong("n_window_infer", problem=f"less than 2 * n_window = {window}", fix=f"write a multiple of {window}")
    channels = card.size("downsample_hidden_size", 480)
    times, pitches = _halvings(window), _halvings(base.bins)
    parts = Parts()
    for index, (time, pitch) in enumerate(zip(times, pitches, strict=True)):
        parts += convolution(
            f"conv{index + 1}", channels if index else 1, channels, kernel=9, rate=time * pitch / window
        )
    layers = encoder_layers(
        base.layers,
        hidden=base.hidden,
        heads=base.heads,
        width=base.width,
        key_bias=True,
        span=times[-1] * (seen // window),
    )
    tail = (
        norm("norm", base.hidden, bias=True)
        + linear("proj1", base.hidden, base.hidden, bias=True, quantizable=False)
        + linear("proj2", base.hidden, base.out, bias=True, quantizable=False)
    )
    flat = linear("conv_out", channels * pitches[-1], base.hidden, quantizable=False)
    parts += paced(flat + layers + tail, times[-1] / window)
    return Sound(parts=parts, card=card, bins=base.bins, width=base.out, window=window, tokens=times[-1])


def sound_stage(sound: Sound) -> StageDraft:
    """The stage; clips of one step are alike, so that they can be batched as they are."""
    tokens = f"{sound.tokens} tokens" if sound.tokens > 1 else "one token"
    words = f"{sound.window} mel frames become {tokens}; shorter clips are padded to whole windows"
    return StageDraft(
        name="audio",
        capabilities=(Capability.ENCODE,),
        batching=Batching.PLAIN,
        unit=Unit.FRAME,
        parts=sound.parts,
        card=sound.card,
        constraints=(Constraint(rule=Rule.UNITS_MULTIPLE, figure=sound.window, words=words),),
        example_units=-(-1000 // sound.window) * sound.window,
    )


def sound_edges(sound: Sound, *, target: str) -> tuple[EdgeDraft, EdgeDraft]:
    """Mel frames (float32) in, embeddings (bf16) out."""
    return (
        EdgeDraft(source=DOOR, target="audio", payload=Payload.FEATURES, unit=Unit.FRAME, unit_bytes=4 * sound.bins),
        EdgeDraft(source="audio", target=target, payload=Payload.HIDDEN, unit=Unit.TOKEN, unit_bytes=2 * sound.width),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frame:
    layers: tuple[int, ...]
    hidden: int
    heads: int
    width: int
    bins: int
    out: int


def _frame(card: Card) -> _Frame:
    card.choice("activation_function", ACTIVATIONS, "gelu")
    # Positions are sines, and how many pieces the convolutions take at once only bounds their memory.
    card.skip("max_source_positions", "conv_chunksize", "num_hidden_layers", "encoder_layerdrop", "model_type")
    hidden, heads = card.size("d_model", 1280), card.size("encoder_attention_heads", 20)
    card.divides("d_model", hidden, heads, by="encoder_attention_heads")
    return _Frame(
        layers=tuple(range(card.layers("encoder_layers", 32))),
        hidden=hidden,
        heads=heads,
        width=card.size("encoder_ffn_dim", 5120),
        bins=card.size("num_mel_bins", 128),
        out=card.size("output_dim", 3584),
    )


def _halvings(size: int) -> tuple[int, int, int]:
    """What three convolutions of stride 2 leave."""
    first = (size + 1) // 2
    second = (first + 1) // 2
    return first, second, (second + 1) // 2
