"""Qwen3-Omni's code2wav: frames of codec codes in, sound out.

In: a `code2wav_config`. Out: `Parts` and the samples of a frame. The unit is a codec frame. Shapes follow
transformers' Qwen3OmniMoeCode2Wav: a causal transformer, upsampling, and a decoder of convolutions.
"""

import math
from dataclasses import dataclass

from accord.models.card import Card
from accord.models.graphs import StageDraft
from accord.models.parts.attention import grouped
from accord.models.parts.audio import snake, transposed
from accord.models.parts.feedforward import ACTIVATIONS, gated
from accord.models.parts.pace import paced, repeated
from accord.models.parts.parts import Parts, convolution, linear, norm, table, vector
from accord.terms.architecture import Constraint, Rule, Unit
from accord.terms.graph import Batching, Capability
from accord.terms.work import Reach

CHUNK, LEFT = 300, 25  # frames decoded at once, and frames before them that are computed again


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocoder:
    """What turns a frame of `groups` codes into `samples` samples."""

    parts: Parts
    card: Card
    groups: int
    samples: int


def code2wav(card: Card) -> Vocoder:
    """The whole vocoder."""
    card.choice("hidden_act", ACTIVATIONS, "silu")
    # The codec's encoder side, positions and initial values: nothing that decoding holds or runs.
    card.skip(
        "codebook_dim", "layer_scale_initial_scale", "max_position_embeddings", "model_type", "num_semantic_quantizers",
        "semantic_codebook_size", "vector_quantization_hidden_dimension",
    )  # fmt: skip
    hidden, groups = card.size("hidden_size", 1024), card.size("num_quantizers", 16)
    ratios = card.sizes("upsampling_ratios", least=1, default=(2, 2))
    rates = card.sizes("upsample_rates", least=1, default=(8, 5, 4, 3))
    parts = table("code_embedding", card.size("codebook_size", 2048) * groups, hidden) + _transformer(card, hidden)
    pace = 1
    for index, factor in enumerate(ratios):
        parts += transposed(f"upsample{index}", hidden, hidden, kernel=factor, rate=pace)
        pace *= factor
        parts += paced(_convnext(f"upsample{index}", hidden), pace)
    parts += _decoder(card, hidden, rates, pace)
    return Vocoder(parts=parts, card=card, groups=groups, samples=pace * math.prod(rates))


def code2wav_stage(vocoder: Vocoder) -> StageDraft:
    """The stage; it works on chunks of frames as they come."""
    words = f"chunks of {CHUNK} frames, with the {LEFT} frames before them computed again"
    return StageDraft(
        name="code2wav",
        capabilities=(Capability.VOCODE,),
        batching=Batching.CHUNKED,
        unit=Unit.FRAME,
        parts=vocoder.parts,
        card=vocoder.card,
        constraints=(Constraint(rule=Rule.UNITS_MAX, figure=CHUNK + LEFT, words=words),),
        example_units=CHUNK,
    )


def _transformer(card: Card, hidden: int) -> Parts:
    layers = tuple(range(card.layers(default=8)))
    heads = card.size("num_attention_heads", 16)
    held = card.size("num_key_value_heads", 16)
    card.divides("num_attention_heads", heads, held, by="num_key_value_heads")
    card.divides("hidden_size", hidden, heads, by="num_attention_heads")
    bias = card.flag("attention_bias", False)
    return (
        norm("input_norm", hidden, layers)
        + norm("post_norm", hidden, layers)
        + vector("attention_scale", hidden, layers)
        + vector("mlp_scale", hidden, layers)
        + grouped(
            layers,
            hidden=hidden,
            heads=heads,
            kv_heads=held,
            head_dim=hidden // heads,
            reach=Reach.WINDOW,
            span=card.size("sliding_window", 72),
            bias=bias,
            out_bias=bias,
            cached=False,
        )
        + gated(layers, hidden=hidden, width=card.size("intermediate_size", 3072))
        + norm("norm", hidden)
    )


def _convnext(name: str, hidden: int) -> Parts:
    return (
        convolution(f"{name}.depthwise", hidden, hidden, kernel=7, rate=1, groups=hidden)
        + norm(f"{name}.norm", hidden, bias=True)
        + linear(f"{name}.up", hidden, 4 * hidden, bias=True, quantizable=False)
        + linear(f"{name}.down", 4 * hidden, hidden, bias=True, quantizable=False)
        + vector(f"{name}.scale", hidden)
    )


def _decoder(card: Card, hidden: int, rates: tuple[int, ...], pace: int) -> Parts:
    """Channels halve with each block while the rate grows."""
    channels = card.size("decoder_dim", 1536)
    if channels % 2 ** len(rates):
        card.wrong("decoder_dim", problem=f"can't be halved {len(rates)} times", fix=f"a multiple of {2 ** len(rates)}")
    parts = convolution("decoder.in", hidden, channels, kernel=7, rate=pace)
    for index, rate in enumerate(rates):
        name, out = f"decoder.{index}", channels // 2
        parts += snake(f"{name}.snake", channels)
        parts += transposed(f"{name}.up", channels, out, kernel=2 * rate, rate=pace)
        pace *= rate
        units = (
            snake(f"{name}.unit.snake1", out)
            + convolution(f"{name}.unit.conv1", out, out, kernel=7, rate=pace)
            + snake(f"{name}.unit.snake2", out)
            + convolution(f"{name}.unit.conv2", out, out, kernel=1, rate=pace)
        )
        parts += repeated(units, 3)
        channels = out
    return parts + snake("decoder.snake", channels) + convolution("decoder.out", channels, 1, kernel=7, rate=pace)
