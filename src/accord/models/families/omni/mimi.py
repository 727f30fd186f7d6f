"""The Mimi codec: sound to frames of codes and back (arXiv 2410.00037).

In: a `codec_config`. Out: `Parts` of its two halves. The unit is a frame of codes, 12.5 a second. Shapes follow
transformers' MimiModel: convolutions, a causal transformer over a window, residual vector quantizers.
"""

import math
from dataclasses import dataclass

from accord.models.card import Card
from accord.models.parts.attention import grouped
from accord.models.parts.audio import transposed
from accord.models.parts.feedforward import ACTIVATIONS, plain
from accord.models.parts.pace import paced
from accord.models.parts.parts import NOTHING, Parts, convolution, linear, norm, vector
from accord.terms.tensors import Dtype, Part, Tensor
from accord.terms.work import Lookup, MatMul, Reach


@dataclass(frozen=True, slots=True, kw_only=True)
class Mimi:
    """Both halves; a frame of `groups` codes stands for `samples` samples."""

    encoder: Parts
    decoder: Parts
    groups: int
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Figures:
    hidden: int
    filters: int
    ratios: tuple[int, ...]
    residuals: int
    squeeze: int
    shortcut: bool
    kernels: tuple[int, int, int]  # the first convolution's, the last one's, those of residual blocks
    pace: int  # positions of the transformer for each frame


def mimi(card: Card) -> Mimi:
    """The codec of one `codec_config`."""
    card.skip("model_type", "dilation_growth_rate", "max_position_embeddings", "layer_scale_initial_scale", "pad_mode")
    card.skip("trim_right_ratio", "use_causal_conv", "use_streaming", "tie_word_embeddings", "normalize")
    figures = _figures(card)
    groups, meaning = card.size("num_quantizers", 32, least=2), card.size("num_semantic_quantizers", 1)
    if meaning >= groups:
        card.wrong("num_semantic_quantizers", problem=f"not below {groups}", fix="write fewer than num_quantizers")
    size, width = card.size("codebook_size", 2048), card.size("codebook_dim", 256)
    inner = card.size("vector_quantization_hidden_dimension", 256)
    layers = _transformer(card, figures.hidden)
    channels = card.size("audio_channels", 1)
    down = convolution(
        "downsample", figures.hidden, figures.hidden, kernel=2 * figures.pace, rate=1, bias=False
    ) + _sides("in", figures.hidden, inner)
    up = _sides("out", inner, figures.hidden) + transposed(
        "upsample",
        figures.hidden,
        figures.hidden,
        kernel=2 * figures.pace,
        rate=1,
        groups=card.size("upsample_groups", 512),
        bias=False,
    )
    books = _books(size, width, groups)
    return Mimi(
        encoder=_encoder(figures, channels)
        + paced(layers, figures.pace)
        + down
        + Parts(tensors=(books,), operators=(MatMul(weight=books),)),
        decoder=Parts(tensors=(books,), operators=(Lookup(weight=books),))
        + up
        + paced(layers, figures.pace)
        + _decoder(figures, channels),
        groups=groups,
        samples=math.prod(figures.ratios) * figures.pace,
    )


def _figures(card: Card) -> _Figures:
    card.choice("hidden_act", ACTIVATIONS, "gelu")
    ratios = card.sizes("upsampling_ratios", least=1, default=(8, 6, 5, 4))
    rate = card.number("frame_rate", card.size("sampling_rate", 24000) / math.prod(ratios) / 2)
    pace = round(-(-card.size("sampling_rate", 24000) // math.prod(ratios)) / rate) if rate > 0 else 0
    if pace != 2:
        card.wrong("frame_rate", problem="not half the rate of the convolutions", fix="leave it out")
    kernels = (
        card.size("kernel_size", 7),
        card.size("last_kernel_size", 3),
        card.size("residual_kernel_size", 3),
    )
    return _Figures(
        hidden=card.size("hidden_size", 512),
        filters=card.size("num_filters", 64),
        ratios=ratios,
        residuals=card.size("num_residual_layers", 1),
        squeeze=card.size("compress", 2),
        shortcut=card.flag("use_conv_shortcut", False),
        kernels=kernels,
        pace=pace,
    )


def _transformer(card: Card, hidden: int) -> Parts:
    layers = tuple(range(card.layers(default=8)))
    heads, held = card.size("num_attention_heads", 8), card.size("num_key_value_heads", 8)
    card.divides("num_attention_heads", heads, held, by="num_key_value_heads")
    card.divides("hidden_size", hidden, heads, by="num_attention_heads")
    bias = card.flag("attention_bias", False)
    return (
        norm("input_norm", hidden, layers, bias=True)
        + norm("post_norm", hidden, layers, bias=True)
        + vector("attention_scale", hidden, layers)
        + vector("mlp_scale", hidden, layers)
        + grouped(
            layers,
            hidden=hidden,
            heads=heads,
            kv_heads=held,
            head_dim=card.size("head_dim", hidden // heads),
            reach=Reach.WINDOW,
            span=card.size("sliding_window", 250),
            bias=bias,
            out_bias=bias,
            cached=False,
        )
        + plain(layers, hidden=hidden, width=card.size("intermediate_size", 2048), bias=False)
    )


def _encoder(figures: _Figures, channels: int) -> Parts:
    """Channels double with each block while the rate falls."""
    rate = figures.pace * math.prod(figures.ratios)
    wide = figures.filters
    parts = convolution("in", channels, wide, kernel=figures.kernels[0], rate=rate)
    for index, ratio in enumerate(reversed(figures.ratios)):
        parts += _residuals(f"down{index}", figures, wide, rate)
        rate //= ratio
        parts += convolution(f"down{index}", wide, 2 * wide, kernel=2 * ratio, rate=rate)
        wide *= 2
    return parts + convolution("out", wide, figures.hidden, kernel=figures.kernels[1], rate=rate)


def _decoder(figures: _Figures, channels: int) -> Parts:
    """The same backwards."""
    rate, wide = figures.pace, figures.filters * 2 ** len(figures.ratios)
    parts = convolution("in", figures.hidden, wide, kernel=figures.kernels[0], rate=rate)
    for index, ratio in enumerate(figures.ratios):
        parts += transposed(f"up{index}", wide, wide // 2, kernel=2 * ratio, rate=rate)
        wide, rate = wide // 2, rate * ratio
        parts += _residuals(f"up{index}", figures, wide, rate)
    return parts + convolution("out", wide, channels, kernel=figures.kernels[1], rate=rate)


def _residuals(name: str, figures: _Figures, wide: int, rate: float) -> Parts:
    parts, inner = NOTHING, wide // figures.squeeze
    for index in range(figures.residuals):
        one = f"{name}.residual{index}"
        parts += convolution(f"{one}.1", wide, inner, kernel=figures.kernels[2], rate=rate)
        parts += convolution(f"{one}.2", inner, wide, kernel=1, rate=rate)
        if figures.shortcut:
            parts += convolution(f"{one}.shortcut", wide, wide, kernel=1, rate=rate)
    return parts


def _sides(name: str, inputs: int, outputs: int) -> Parts:
    """The quantizers of meaning and of sound have a projection each, where their width isn't the codec's."""
    if inputs == outputs:
        return NOTHING
    return linear(f"quantizer.{name}", inputs, outputs, copies=2, quantizable=False)


def _books(size: int, width: int, groups: int) -> Tensor:
    """Codebooks are running means, which transformers keeps as buffers in float32."""
    return Tensor(
        name="codebooks",
        part=Part.EMBEDDING,
        rows=size,
        columns=width,
        copies=groups,
        buffer=True,
        dtype=Dtype.F32,
    )
