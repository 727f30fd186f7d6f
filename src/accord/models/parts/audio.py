"""Sound: encoders of mel frames, codec decoders and vocoders.

In: channels, kernels, how many positions there are for each unit of the stage. Out: `Parts`. Invariant: a
transposed convolution's rate counts the positions that go in, any other convolution's those that come out.
"""

from collections.abc import Sequence

from accord.models.parts.feedforward import plain
from accord.models.parts.pace import once, repeated
from accord.models.parts.parts import Layers, Parts, convolution, linear, norm, vector
from accord.terms.cache import CacheGroup, CacheKind
from accord.terms.tensors import Part, Split, Tensor
from accord.terms.work import Attention, MatMul, Reach


def encoder_layers(
    layers: Layers, *, hidden: int, heads: int, width: int, key_bias: bool, span: int | None = None
) -> Parts:
    """Layers that see all positions, or all of their block of `span` (Whisper and its kin)."""
    return (
        norm("attention_norm", hidden, layers, bias=True)
        + attend(layers, hidden=hidden, heads=heads, key_bias=key_bias, span=span)
        + norm("mlp_norm", hidden, layers, bias=True)
        + plain(layers, hidden=hidden, width=width)
    )


def attend(
    layers: Layers,
    *,
    hidden: int,
    heads: int,
    key_bias: bool = True,
    reach: Reach | None = None,
    span: int | None = None,
    name: str = "attention",
) -> Parts:
    """Multi-head attention with biases, as encoders have it; CAUSAL leaves a cache."""
    size = hidden // heads
    scores = Attention(
        name=name,
        layers=layers,
        heads=heads,
        key_heads=heads,
        key_dim=size,
        value_dim=size,
        reach=reach or (Reach.BLOCK if span else Reach.ALL),
        span=span,
    )
    kept = CacheGroup(
        name=name, kind=CacheKind.FULL, layers=layers, heads=heads, key_dim=size, value_dim=size, pieces=heads
    )
    return (
        linear(f"{name}.q", hidden, hidden, layers, split=Split.ROWS, pieces=heads, bias=True)
        + linear(f"{name}.k", hidden, hidden, layers, split=Split.ROWS, pieces=heads, bias=key_bias)
        + linear(f"{name}.v", hidden, hidden, layers, split=Split.ROWS, pieces=heads, bias=True)
        + Parts(operators=(scores,), cache=(kept,) if reach is Reach.CAUSAL else ())
        + linear(f"{name}.o", hidden, hidden, layers, split=Split.COLUMNS, pieces=heads, bias=True)
    )


def cross(
    layers: Layers,
    *,
    hidden: int,
    heads: int,
    head_dim: int,
    source: int,
    keys: int,
    kv_heads: int | None = None,
    bias: bool = True,
    key_bias: bool = True,
    name: str = "cross",
) -> Parts:
    """Attention to an encoder's output: `keys` positions of `source` values, projected once a request."""
    held = kv_heads or heads
    scores = Attention(
        name=name,
        layers=layers,
        heads=heads,
        key_heads=held,
        key_dim=head_dim,
        value_dim=head_dim,
        reach=Reach.CROSS,
        span=keys,
    )
    kept = CacheGroup(
        name=name,
        kind=CacheKind.CROSS,
        layers=layers,
        heads=held,
        key_dim=head_dim,
        value_dim=head_dim,
        window=keys,
        pieces=held,
    )
    sides = linear(
        f"{name}.k", source, held * head_dim, layers, split=Split.KV_ROWS, pieces=held, bias=bias and key_bias
    ) + linear(f"{name}.v", source, held * head_dim, layers, split=Split.KV_ROWS, pieces=held, bias=bias)
    return (
        linear(f"{name}.q", hidden, heads * head_dim, layers, split=Split.ROWS, pieces=heads, bias=bias)
        + once(sides, keys)
        + Parts(operators=(scores,), cache=(kept,))
        + linear(f"{name}.o", heads * head_dim, hidden, layers, split=Split.COLUMNS, pieces=heads, bias=bias)
    )


def transposed(
    name: str,
    channels: int,
    filters: int,
    layers: Layers = (),
    *,
    kernel: int,
    rate: float,
    groups: int = 1,
    bias: bool = True,
) -> Parts:
    """An upsampling convolution; `rate` counts the positions that go in."""
    made = convolution(name, channels, filters, layers, kernel=kernel, rate=rate, groups=groups, bias=False)
    return made + vector(f"{name}.bias", filters, layers) if bias else made


def snake(name: str, channels: int, *, copies: int = 1, curves: int = 2) -> Parts:
    """A periodic activation (arXiv 2006.08195) with `curves` learnt values a channel: its frequency, its size."""
    return vector(name, channels * curves, copies=copies)


def smoothed(name: str, channels: int, *, rate: float, taps: int = 12) -> Parts:
    """Low-pass filters around an activation at twice the rate (BigVGAN); their taps are computed, not stored."""
    filters = Tensor(name=name, part=Part.LAYER, rows=channels, columns=taps)
    return Parts(operators=(MatMul(weight=filters, rate=2 * rate, convolution=True),))


def residual_convolutions(
    name: str, channels: int, *, kernels: Sequence[int], pairs: Sequence[int], rate: float, bias: bool = True
) -> Parts:
    """HiFi-GAN's residual blocks (arXiv 2010.05646): for each kernel, `pairs` times two convolutions."""
    made = Parts()
    for kernel, count in zip(kernels, pairs, strict=True):
        made += repeated(
            convolution(f"{name}.k{kernel}", channels, channels, kernel=kernel, rate=rate, bias=bias), 2 * count
        )
    return made
