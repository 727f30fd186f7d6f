"""Dense decoders with grouped-query attention: Llama 2 and 3, Qwen2, Qwen3, Mistral, MiMo.

In: their cards. Out: `Architecture` with one stage. Shapes follow transformers' LlamaForCausalLM and its kin.
"""

from dataclasses import dataclass

from accord.models.card import Card
from accord.models.graphs import StageDraft, architecture, text_in, text_out
from accord.models.parts.attention import grouped
from accord.models.parts.feedforward import ACTIVATIONS, gated
from accord.models.parts.parts import Layers, Parts, head, norm, tokens
from accord.terms.architecture import Architecture, Unit
from accord.terms.graph import Batching, Capability
from accord.terms.work import Reach

FAMILY = "dense"


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The figures that every decoder's card has."""

    hidden: int
    layers: Layers
    vocabulary: int
    context_max: int


def frame(card: Card) -> Frame:
    """Reads what all decoders share."""
    card.choice("hidden_act", ACTIVATIONS, "silu")
    return Frame(
        hidden=card.size("hidden_size"),
        layers=tuple(range(card.layers())),
        vocabulary=card.size("vocab_size"),
        context_max=card.size("max_position_embeddings", 131072),
    )


def build(card: Card, name: str) -> Architecture:
    """The architecture of a dense decoder."""
    base = frame(card)
    return architecture(
        card,
        name=name,
        family=FAMILY,
        stages=(decoder_stage(card, decoder(card, base)),),
        edges=(text_in("decoder"), text_out("decoder")),
        context_max=base.context_max,
    )


def decoder_stage(card: Card, parts: Parts, *, name: str = "decoder") -> StageDraft:
    """The stage of a language model that reads and writes tokens."""
    return StageDraft(
        name=name,
        capabilities=(Capability.AR,),
        batching=Batching.CONTINUOUS,
        unit=Unit.TOKEN,
        parts=parts,
        card=card,
    )


def decoder(card: Card, base: Frame) -> Parts:
    """Embedding, layers, last norm and logits."""
    embedding = tokens(base.vocabulary, base.hidden)
    mlp = gated(
        base.layers, hidden=base.hidden, width=card.size("intermediate_size"), bias=card.flag("mlp_bias", False)
    )
    norms = norm("input_norm", base.hidden, base.layers) + norm("post_norm", base.hidden, base.layers)
    tied = embedding.tensors[0] if card.flag("tie_word_embeddings", False) else None
    return (
        embedding
        + norms
        + attention(card, base)
        + mlp
        + norm("norm", base.hidden)
        + head(base.vocabulary, base.hidden, tied=tied)
    )


def attention(card: Card, base: Frame) -> Parts:
    """All layers' attention; Qwen2 and Mistral may slide a window over some."""
    kind = card.word("model_type")
    heads = card.size("num_attention_heads")
    kv_heads = card.size("num_key_value_heads", heads)
    card.divides("num_attention_heads", heads, kv_heads, by="num_key_value_heads")
    if "head_dim" not in card:
        card.divides("hidden_size", base.hidden, heads, by="num_attention_heads")
    head_dim = card.size("head_dim", base.hidden // heads)
    bias = card.flag("attention_bias", kind in ("qwen2", "mimo"))
    parts = Parts()
    for reach, span, layers in reaches(card, base):
        parts += grouped(
            layers,
            hidden=base.hidden,
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            reach=reach,
            span=span,
            bias=bias,
            out_bias=bias and kind in ("llama", "qwen3"),
            qk_norm=head_dim if kind == "qwen3" else 0,
            name="attention" if reach is Reach.CAUSAL else "attention.window",
        )
    return parts


def reaches(card: Card, base: Frame) -> tuple[tuple[Reach, int | None, Layers], ...]:
    """Which layers see everything and which a window."""
    window = card.maybe("sliding_window")
    kinds = card.words("layer_types", known=("full_attention", "sliding_attention"), count=len(base.layers))
    sliding = card.flag("use_sliding_window", card.word("model_type") == "mistral")
    first = card.size("max_window_layers", 0, least=0)
    if window is None or not sliding:
        return ((Reach.CAUSAL, None, base.layers),)
    if not kinds:
        kinds = tuple("sliding_attention" if layer >= first else "full_attention" for layer in base.layers)
    full = tuple(layer for layer in base.layers if kinds[layer] == "full_attention")
    windowed = tuple(layer for layer in base.layers if kinds[layer] == "sliding_attention")
    return ((Reach.CAUSAL, None, full), (Reach.WINDOW, window, windowed))
