"""What decoders of mixed layers share: which layers recur and which attend, how states are kept.

In: their cards. Out: layers by kind, dtypes, `Parts`. Invariant: each layer is of one kind.
"""

from accord.models.card import Card
from accord.models.families.decoders.dense import Frame
from accord.models.parts.attention import grouped
from accord.models.parts.parts import Layers, Parts, linear, norm
from accord.terms.tensors import Dtype

RECURRENT, FULL = "linear_attention", "full_attention"

_DTYPES = {"float32": Dtype.F32, "float16": Dtype.F16, "bfloat16": Dtype.BF16}


def mixers(card: Card, base: Frame, *, default: tuple[str, ...]) -> tuple[Layers, Layers]:
    """Layers that recur and layers that attend: as `layer_types` lists them, else by `default`."""
    kinds = default
    if "layer_types" in card:
        kinds = card.words("layer_types", known=(RECURRENT, FULL), count=len(base.layers))
    return of_kind(base.layers, kinds, RECURRENT), of_kind(base.layers, kinds, FULL)


def of_kind(layers: Layers, kinds: tuple[str, ...], kind: str) -> Layers:
    """The layers of one kind."""
    return tuple(layer for layer in layers if kinds[layer] == kind)


def plain_attention(
    card: Card, layers: Layers, *, hidden: int, head_dim: int | None = None, bias: bool = False, qk_norm: bool = False
) -> Parts:
    """Grouped-query attention over all tokens, as the card says its heads."""
    heads = card.size("num_attention_heads")
    kv_heads = card.size("num_key_value_heads", heads)
    card.divides("num_attention_heads", heads, kv_heads, by="num_key_value_heads")
    if head_dim is None:
        card.divides("hidden_size", hidden, heads, by="num_attention_heads")
    width = head_dim or hidden // heads
    return grouped(
        layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=width,
        bias=bias,
        out_bias=bias,
        qk_norm=width if qk_norm else 0,
    )


def narrowed(
    layers: Layers, inner: Parts, *, hidden: int, latent: int, bias: bool = False, normed: bool = False
) -> Parts:
    """Experts that work on a projection of the hidden state; every rank projects there and back."""
    if not layers:
        return inner
    made = linear("experts.narrow", hidden, latent, layers, bias=bias) + inner
    if normed:
        made += norm("experts.norm", latent, layers)
    return made + linear("experts.widen", latent, hidden, layers, bias=bias)


def state_dtype(card: Card, key: str, default: Dtype = Dtype.F32) -> Dtype:
    """The dtype of the recurrent state, where a card says it."""
    return _DTYPES[card.choice(key, tuple(_DTYPES))] if key in card else default
