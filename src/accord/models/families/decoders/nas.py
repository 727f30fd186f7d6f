"""Nemotron models found by architecture search (DeciLM): Llama blocks, each with heads and widths of its own, or none.

In: a card of `nemotron-nas`. Out: `Architecture` with one stage. Figures of a block follow the DeciLM code published
with the models (arXiv 2411.19146 describes the search).
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from accord.models.card import Card
from accord.models.families.decoders.dense import Frame, frame, lone
from accord.models.parts.attention import grouped
from accord.models.parts.feedforward import gated
from accord.models.parts.parts import Layers, Parts, head, linear, norm, tokens
from accord.terms.architecture import Architecture
from accord.terms.work import Reach

FAMILY = "nas"

_ROUND = 256  # widths are rounded up to a multiple of this
_UNSUPPORTED = ("num_sink_tokens", "sparsify", "unshifted_sink", "use_prefill_window_in_sink_attention")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixer:
    """A block's attention; `linear` is one matrix in its place."""

    kv_heads: int = 0
    window: int | None = None
    linear: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Width:
    """A block's feed-forward part; `linear` is one matrix in its place."""

    width: int = 0
    linear: bool = False


def build(card: Card, name: str) -> Architecture:
    """The architecture of one model."""
    card.skip("intermediate_size", "num_key_value_heads")
    base = frame(card)
    heads = card.size("num_attention_heads")
    if "head_dim" not in card:
        card.divides("hidden_size", base.hidden, heads, by="num_attention_heads")
    head_dim = card.size("head_dim", base.hidden // heads)
    mixers: dict[Mixer, list[int]] = defaultdict(list)
    widths: dict[Width, list[int]] = defaultdict(list)
    if not card.names("block_configs"):
        card.wrong("block_configs", problem="required", fix="add a list with the blocks' settings")
    for layer, block in enumerate(card.subs("block_configs", count=len(base.layers))):
        mixer, width = _mixer(block.sub("attention"), heads), _width(block.sub("ffn"), base.hidden)
        if mixer is not None:
            mixers[mixer].append(layer)
        if width is not None:
            widths[width].append(layer)
    bias, mlp_bias = card.flag("attention_bias", False), card.flag("mlp_bias", False)
    parts = _ends_first(base, _all(mixers.values()), _all(widths.values()))
    for mixer, layers in mixers.items():
        parts += _attention(mixer, tuple(layers), base, heads=heads, head_dim=head_dim, bias=bias)
    for width, layers in widths.items():
        parts += _feedforward(width, tuple(layers), base, bias=mlp_bias)
    tied = parts.tensors[0] if card.flag("tie_word_embeddings", False) else None
    parts += norm("norm", base.hidden) + head(base.vocabulary, base.hidden, tied=tied)
    return lone(card, name, base=base, family=FAMILY, parts=parts)


def _all(groups: Iterable[list[int]]) -> Layers:
    return tuple(sorted(chain.from_iterable(groups)))


def _ends_first(base: Frame, mixed: Layers, fed: Layers) -> Parts:
    """Embedding and norms: a block without a part has no norm before it, either."""
    made = tokens(base.vocabulary, base.hidden)
    if mixed:
        made += norm("input_norm", base.hidden, mixed)
    return made + norm("post_norm", base.hidden, fed) if fed else made


def _mixer(card: Card, heads: int) -> Mixer | None:
    for key in _UNSUPPORTED:
        if card.raw(key):
            card.wrong(key, problem="not supported", fix="write null, or describe the model as another family")
    group, window = card.maybe("n_heads_in_group"), card.maybe("window_length")
    alone = card.flag("replace_with_linear", False)
    if card.flag("no_op", False):
        return None
    if alone:
        return Mixer(linear=True)
    if group is None or heads % group:
        card.wrong("n_heads_in_group", problem=f"doesn't divide {heads} heads", fix="write a divisor of them")
    return Mixer(kv_heads=heads // group, window=window)


def _width(card: Card, hidden: int) -> Width | None:
    if card.raw("sparsify"):
        card.wrong("sparsify", problem="not supported", fix="write null, or describe the model as another family")
    alone = card.flag("replace_with_linear", False)
    given = card.maybe("intermediate_size")
    multiple = card.number("ffn_mult", 0.0)
    if card.flag("no_op", False):
        return None
    if alone:
        return Width(linear=True)
    if given is None and not 0 < multiple < 1024:
        card.wrong("ffn_mult", problem="out of range", fix="write a number above 0, below 1024")
    return Width(width=given or -(-int(2 * multiple * hidden / 3) // _ROUND) * _ROUND)


def _attention(mixer: Mixer, layers: Layers, base: Frame, *, heads: int, head_dim: int, bias: bool) -> Parts:
    if mixer.linear:
        return linear("attention.linear", base.hidden, base.hidden, layers, bias=bias)
    name = f"attention.{mixer.kv_heads}" + (f".window{mixer.window}" if mixer.window else "")
    return grouped(
        layers,
        hidden=base.hidden,
        heads=heads,
        kv_heads=mixer.kv_heads,
        head_dim=head_dim,
        reach=Reach.WINDOW if mixer.window else Reach.CAUSAL,
        span=mixer.window,
        bias=bias,
        out_bias=bias,
        name=name,
    )


def _feedforward(width: Width, layers: Layers, base: Frame, *, bias: bool) -> Parts:
    if width.linear:
        return linear("mlp.linear", base.hidden, base.hidden, layers, bias=bias)
    return gated(layers, hidden=base.hidden, width=width.width, bias=bias, name=f"mlp.{width.width}")
