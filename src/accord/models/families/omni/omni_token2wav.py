"""Qwen2.5-Omni's token2wav: codec codes -> a denoiser of mel frames -> BigVGAN.

In: a `token2wav_config`. Out: `Denoiser` and `Vocoder`. Units are mel frames. Shapes follow transformers'
Qwen2_5OmniToken2WavDiTModel and Qwen2_5OmniToken2WavBigVGANModel. Both are held and run in float32.
"""

import math
from dataclasses import dataclass

from accord.models.card import Card
from accord.models.graphs import StageDraft
from accord.models.parts.audio import smoothed, snake, transposed
from accord.models.parts.pace import repeated, stored_as
from accord.models.parts.parts import Parts, convolution, linear, table
from accord.terms.architecture import Constraint, Rule, Unit
from accord.terms.graph import Batching, Capability
from accord.terms.tensors import Dtype, Split
from accord.terms.work import Attention, Per, Reach

# Defaults of transformers' sampler: ten points in time, hence nine steps of a fourth-order Runge-Kutta solver.
STEPS = 9 * 4
_TIME = 256  # width of the sines that time is written in


@dataclass(frozen=True, slots=True, kw_only=True)
class Denoiser:
    """Refines `bins` values for each of `repeats` mel frames a code."""

    parts: Parts
    card: Card
    bins: int
    repeats: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocoder:
    """Turns a mel frame into `samples` samples."""

    parts: Parts
    card: Card
    samples: int


def denoiser_stage(made: Denoiser) -> StageDraft:
    """The stage; its context is the mel frames of the voice that it imitates."""
    return StageDraft(
        name="denoiser",
        capabilities=(Capability.DENOISE,),
        batching=Batching.STEP,
        unit=Unit.LATENT,
        parts=made.parts,
        card=made.card,
        constraints=(
            Constraint(rule=Rule.STEPS, figure=STEPS, words="nine steps of a solver that asks four times each"),
            Constraint(rule=Rule.PASSES, figure=2, words="guidance: each step with and without the voice"),
            Constraint(rule=Rule.UNITS_MULTIPLE, figure=made.repeats, words=f"a code is {made.repeats} mel frames"),
        ),
        example_units=600,
    )


def vocoder_stage(made: Vocoder) -> StageDraft:
    """The stage; it works on chunks of mel frames as they come."""
    return StageDraft(
        name="vocoder",
        capabilities=(Capability.VOCODE,),
        batching=Batching.CHUNKED,
        unit=Unit.FRAME,
        parts=made.parts,
        card=made.card,
        example_units=600,
    )


def denoiser(card: Card) -> Denoiser:
    """A diffusion transformer over mel frames in which each layer sees blocks (published cards say `dim`, `depth`,
    `heads` where transformers has other words)."""
    card.skip("model_type", "max_position_embeddings", "enc_dilations", "enc_lin_neurons")
    hidden, bins = card.size("hidden_size", card.size("dim", 1024)), card.size("mel_dim", 80)
    codes, repeats = card.size("emb_dim", 512), card.size("repeats", 2)
    voice = card.size("enc_dim", 128)
    condition = bins + voice + card.size("enc_emb_dim", 192) + codes
    parts = (
        table("code_embedding", card.size("num_embeds", 8193) + 1, codes)
        + linear("time.1", _TIME, hidden, bias=True, per=Per.SEQUENCE, quantizable=False)
        + linear("time.2", hidden, hidden, bias=True, per=Per.SEQUENCE, quantizable=False)
        + _voice(card, bins, voice)
        + linear("in", condition, hidden, bias=True, quantizable=False)
        + _layers(card, hidden)
        + linear("norm_out", hidden, 2 * hidden, bias=True, per=Per.SEQUENCE, quantizable=False)
        + linear("out", hidden, bins, bias=True, quantizable=False)
    )
    return Denoiser(parts=stored_as(parts, Dtype.F32), card=card, bins=bins, repeats=repeats)


def vocoder(card: Card) -> Vocoder:
    """BigVGAN (arXiv 2206.04658): HiFi-GAN's blocks with periodic activations at twice the rate."""
    card.skip("model_type", "resblock_dilation_sizes", "use_bias_at_final")
    channels = card.size("upsample_initial_channel", 1536)
    rates = card.sizes("upsample_rates", least=1, default=(5, 3, 2, 2, 2, 2))
    kernels = card.sizes("upsample_kernel_sizes", least=1, count=len(rates), default=(11, 7, 4, 4, 4, 4))
    sides = card.sizes("resblock_kernel_sizes", least=1, default=(3, 7, 11))
    if channels % 2 ** len(rates):
        card.wrong("upsample_initial_channel", problem=f"can't be halved {len(rates)} times", fix="write a power of 2")
    parts, pace = convolution("in", card.size("mel_dim", 80), channels, kernel=7, rate=1), 1
    for index, (rate, kernel) in enumerate(zip(rates, kernels, strict=True)):
        out = channels // 2
        parts += transposed(f"up{index}", channels, out, kernel=kernel, rate=pace)
        pace, channels = pace * rate, out
        for side in sides:
            name = f"up{index}.k{side}"
            one = (
                snake(f"{name}.snake", out)
                + smoothed(f"{name}.smooth", out, rate=pace)
                + convolution(name, out, out, kernel=side, rate=pace)
            )
            parts += repeated(one, 6)
    parts += snake("snake", channels) + smoothed("smooth", channels, rate=pace)
    parts += convolution("out", channels, 1, kernel=7, rate=pace, bias=False)
    return Vocoder(parts=stored_as(parts, Dtype.F32), card=card, samples=math.prod(rates))


def _layers(card: Card, hidden: int) -> Parts:
    layers = tuple(range(card.layers(default=card.size("depth", 22))))
    heads, size = card.size("num_attention_heads", card.size("heads", 16)), card.size("head_dim", 64)
    block = card.size("block_size", 24)
    inner, width = heads * size, hidden * card.size("ff_mult", 2)
    wide = {*card.sizes("look_ahead_layers", default=(10,)), *card.sizes("look_backward_layers", default=(0, 20))}
    parts = linear("modulation", hidden, 6 * hidden, layers, bias=True, per=Per.SEQUENCE, quantizable=False)
    for side in ("q", "k", "v"):
        parts += linear(f"attention.{side}", hidden, inner, layers, split=Split.ROWS, pieces=heads, bias=True)
    for name, some, span in (
        ("attention", tuple(layer for layer in layers if layer not in wide), block),
        ("attention.wide", tuple(layer for layer in layers if layer in wide), 2 * block),
    ):
        scores = Attention(
            name=name,
            layers=some,
            heads=heads,
            key_heads=heads,
            key_dim=size,
            value_dim=size,
            reach=Reach.BLOCK,
            span=span,
        )
        parts += Parts(operators=(scores,) if some else ())
    return (
        parts
        + linear("attention.o", inner, hidden, layers, split=Split.COLUMNS, pieces=heads, bias=True)
        + linear("mlp.up", hidden, width, layers, split=Split.ROWS, pieces=width, bias=True)
        + linear("mlp.down", width, hidden, layers, split=Split.COLUMNS, pieces=width, bias=True)
    )


def _voice(card: Card, bins: int, out: int) -> Parts:
    """ECAPA-TDNN (arXiv 2005.07143) over the mel frames of a voice, in each step as the reference does."""
    channels = card.sizes("enc_channels", least=1, default=(256, 256, 256, 256, 768))
    kernels = card.sizes("enc_kernel_sizes", least=1, count=len(channels), default=(5, 3, 3, 3, 1))
    if len(channels) < 2:
        card.wrong("enc_channels", problem="too few", fix="write two at least")
    if channels[-1] != sum(channels[1:-1]):
        card.wrong("enc_channels", problem="the last isn't the sum of those between", fix="make it their sum")
    scale, squeezed = card.size("enc_res2net_scale", 2), card.size("enc_se_channels", 64)
    read = card.size("enc_attention_channels", 64)
    parts = _filter("voice.0", bins, channels[0], kernels[0])
    for index in range(1, len(channels) - 1):
        name, wide, kernel = f"voice.{index}", channels[index], kernels[index]
        card.divides("enc_channels", wide, scale, by="enc_res2net_scale")
        parts += _filter(f"{name}.1", channels[index - 1], wide, 1)
        parts += repeated(_filter(f"{name}.res2", wide // scale, wide // scale, kernel), scale - 1)
        parts += _filter(f"{name}.2", wide, wide, 1)
        parts += convolution(f"{name}.squeeze", wide, squeezed, kernel=1, rate=1, per=Per.SEQUENCE)
        parts += convolution(f"{name}.excite", squeezed, wide, kernel=1, rate=1, per=Per.SEQUENCE)
    last = channels[-1]
    return (
        parts
        + _filter("voice.all", last, last, kernels[-1])
        + _filter("voice.pool1", 3 * last, read, 1)
        + _filter("voice.pool2", read, last, 1)
        + convolution("voice.out", 2 * last, out, kernel=1, rate=1, per=Per.SEQUENCE)
    )


def _filter(name: str, channels: int, filters: int, kernel: int) -> Parts:
    return convolution(name, channels, filters, kernel=kernel, rate=1, per=Per.CONTEXT)
