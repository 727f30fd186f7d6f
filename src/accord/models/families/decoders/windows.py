"""Which layers see all tokens, which a window, which their chunk.

In: a card's words about windows, a rule of its model type. Out: `Span`s. Invariant: each layer is in exactly one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from accord.models.card import Card
from accord.models.parts.parts import Layers
from accord.terms.work import Reach

_FULL, _SLIDING, _CHUNKED = "full_attention", "sliding_attention", "chunked_attention"
_REACHES = {_FULL: Reach.CAUSAL, _SLIDING: Reach.WINDOW, _CHUNKED: Reach.CHUNK}
_NAMES = {Reach.CAUSAL: "attention", Reach.WINDOW: "attention.window", Reach.CHUNK: "attention.chunk"}


class Sliding(StrEnum):
    """How a model type says which layers slide."""

    NEVER = "never"
    ALL = "all"  # every layer, where a window is set
    SWITCHED = "switched"  # every layer, where `use_sliding_window` says so
    LATER = "later"  # where `use_sliding_window` says so: `layer_types`, else layers from `max_window_layers` on
    EARLIER = "earlier"  # likewise, else every other layer before `max_window_layers`
    TYPED = "typed"  # `layer_types`, else every layer
    ALTERNATE = "alternate"  # `layer_types`, else every other layer from the first on


_LISTED = (Sliding.LATER, Sliding.EARLIER, Sliding.TYPED, Sliding.ALTERNATE)
_SWITCHED = (Sliding.LATER, Sliding.EARLIER, Sliding.SWITCHED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Layers that see the same; `size` is None where that is everything."""

    reach: Reach
    size: int | None
    layers: Layers


def spans(card: Card, layers: Layers, rule: Sliding, *, window: int | None = None) -> tuple[Span, ...]:
    """The spans of a card. `window` is what an absent `sliding_window` means."""
    kinds: Sequence[str] = ()
    if rule in _LISTED:
        kinds = card.words("layer_types", known=(_FULL, _SLIDING), count=len(layers) if "layer_types" in card else None)
    size = _window(card, rule, window)
    if size is not None:
        return by_kind(layers, kinds or _default(card, rule, layers), window=size)
    if _SLIDING in kinds:
        card.wrong("sliding_window", problem="no window, but `layer_types` has sliding layers", fix="write its size")
    return by_kind(layers, [_FULL] * len(layers))


def by_kind(
    layers: Layers, kinds: Sequence[str], *, window: int | None = None, chunk: int | None = None
) -> tuple[Span, ...]:
    """One span for each word in `kinds` (one word a layer)."""
    sizes = {_FULL: None, _SLIDING: window, _CHUNKED: chunk}
    return tuple(
        Span(
            reach=reach,
            size=sizes[kind],
            layers=tuple(layer for layer, own in zip(layers, kinds, strict=True) if own == kind),
        )
        for kind, reach in _REACHES.items()
        if kind in kinds
    )


def attention_name(span: Span) -> str:
    """The name of a span's attention: `attention`, `attention.window`, `attention.chunk`."""
    return _NAMES[span.reach]


def _window(card: Card, rule: Sliding, window: int | None) -> int | None:
    if rule is Sliding.NEVER:
        return None
    card.skip("max_window_layers", "sliding_window")
    if rule in _SWITCHED and not card.flag("use_sliding_window", False):
        return None  # then transformers saves a window of 0
    return card.maybe("sliding_window") or window


def _default(card: Card, rule: Sliding, layers: Layers) -> list[str]:
    match rule:
        case Sliding.LATER:
            first = card.size("max_window_layers", 28, least=0)
            slides = [layer >= first for layer in layers]
        case Sliding.EARLIER:
            last = card.size("max_window_layers", 28, least=0)
            slides = [layer % 2 == 0 and layer < last for layer in layers]
        case Sliding.ALTERNATE:
            slides = [layer % 2 == 0 for layer in layers]
        case _:
            slides = [True for _ in layers]
    return [_SLIDING if slide else _FULL for slide in slides]
