"""Dense decoders with grouped-query attention: Llama 2 and 3, Mistral, Ministral, Qwen2, Qwen3, MiMo.

In: their cards. Out: `Architecture` with one stage. Shapes and defaults follow transformers' LlamaForCausalLM and its
kin; what sets a model type apart is one row of `_TRAITS`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from accord.models.card import Card
from accord.models.families.decoders.windows import Sliding, Span, attention_name, spans
from accord.models.graphs import StageDraft, architecture, text_in, text_out
from accord.models.parts.attention import grouped
from accord.models.parts.feedforward import ACTIVATIONS, gated
from accord.models.parts.parts import Layers, Parts, head, norm, tokens
from accord.terms.architecture import Architecture, Unit
from accord.terms.graph import Batching, Capability

FAMILY = "dense"


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The figures that every decoder's card has."""

    hidden: int
    layers: Layers
    vocabulary: int
    context_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What sets a model type apart from Llama.

    `bias`: whether queries, keys and values have one by default, and `bias_key` says so in a card. `out_bias`: the
    output's matrix follows suit. `kv_heads` and `head_dim` stand in where a card leaves them out.
    """

    bias: bool = False
    bias_key: str = "attention_bias"
    out_bias: bool = True
    qk_norm: bool = False
    kv_heads: int | None = None
    head_dim: int | None = None
    sliding: Sliding = Sliding.NEVER
    window: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Heads:
    """One kind of grouped-query attention."""

    heads: int
    kv_heads: int
    head_dim: int
    bias: bool = False
    out_bias: bool = False
    qk_norm: int = 0


_LATER = Sliding.LATER
_TRAITS: Mapping[str, Traits] = {
    "llama": Traits(),
    "mistral": Traits(bias_key="", kv_heads=8, sliding=Sliding.ALL, window=4096),
    "ministral": Traits(bias_key="", kv_heads=8, sliding=Sliding.TYPED, window=4096),
    "ministral3": Traits(bias_key="", kv_heads=8, head_dim=128, sliding=Sliding.ALL),
    "qwen2": Traits(bias=True, bias_key="", out_bias=False, kv_heads=32, sliding=_LATER, window=4096),
    "qwen3": Traits(qk_norm=True, kv_heads=32, head_dim=128, sliding=_LATER, window=4096),
    "mimo": Traits(bias=True, out_bias=False, kv_heads=32, sliding=_LATER, window=4096),
}
MODEL_TYPES = tuple(_TRAITS)

# What a nested card that leaves sizes out means (transformers' defaults). A card that stands alone must say them: a
# misspelt key must not become a model of another size.
_NESTED: Mapping[str, Mapping[str, int]] = {
    "llama": {"hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32,
              "vocab_size": 32000, "max_position_embeddings": 2048},
    "mistral": {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
                "vocab_size": 32000},
    "ministral3": {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 34, "num_attention_heads": 32,
                   "vocab_size": 131072, "max_position_embeddings": 262144},
    "qwen2": {"hidden_size": 4096, "intermediate_size": 22016, "num_hidden_layers": 32, "num_attention_heads": 32,
              "vocab_size": 151936, "max_position_embeddings": 32768},
    "qwen3": {"hidden_size": 4096, "intermediate_size": 22016, "num_hidden_layers": 32, "num_attention_heads": 32,
              "vocab_size": 151936, "max_position_embeddings": 32768},
}  # fmt: skip


def build(card: Card, name: str) -> Architecture:
    """The architecture of a dense decoder."""
    full = with_defaults(card, _NESTED.get(card.word("model_type"), {}))
    base = frame(full)
    width = full.size("intermediate_size")
    mlp = gated(base.layers, hidden=base.hidden, width=width, bias=full.flag("mlp_bias", False))
    traits = _TRAITS.get(card.word("model_type"), Traits())
    return lone(card, name, base=base, family=FAMILY, parts=decoder(full, base, attention(full, base, traits), mlp))


def frame(card: Card) -> Frame:
    """Reads what all decoders share; a composed card's outer mapping has none of it, and defaults must not step in."""
    if "text_config" in card:
        fix = "read the inner mapping alone, or the card as a composed model"
        card.wrong("text_config", problem="this family reads a decoder alone", fix=fix)
    card.choice("hidden_act", ACTIVATIONS, "silu")
    return Frame(
        hidden=card.size("hidden_size"),
        layers=tuple(range(card.layers())),
        vocabulary=card.size("vocab_size"),
        context_max=card.size("max_position_embeddings", 131072),
    )


def lone(
    card: Card, name: str, *, base: Frame, family: str, parts: Parts, remarks: tuple[str, ...] = ()
) -> Architecture:
    """A language model on its own: tokens in, tokens out. Layers that predict further tokens aren't counted."""
    return architecture(
        card,
        name=name,
        family=family,
        stages=(decoder_stage(card, parts),),
        edges=(text_in("decoder"), text_out("decoder")),
        context_max=base.context_max,
        remarks=(*multi_token(card), *remarks),
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


def decoder(card: Card, base: Frame, attention: Parts, mlp: Parts) -> Parts:
    """Embedding, layers with a norm before attention and one before the feed-forward block, last norm and logits."""
    embedding = tokens(base.vocabulary, base.hidden)
    norms = norm("input_norm", base.hidden, base.layers) + norm("post_norm", base.hidden, base.layers)
    tied = embedding.tensors[0] if card.flag("tie_word_embeddings", False) else None
    return (
        embedding + norms + attention + mlp + norm("norm", base.hidden) + head(base.vocabulary, base.hidden, tied=tied)
    )


def attention(card: Card, base: Frame, traits: Traits) -> Parts:
    """All layers' attention, by what they see."""
    window = traits.window if not card.names("sliding_window") else None
    return attend(base, heads_of(card, base, traits), spans(card, base.layers, traits.sliding, window=window))


def heads_of(card: Card, base: Frame, traits: Traits) -> Heads:
    """Heads, their size, biases and scales."""
    heads = card.size("num_attention_heads")
    kv_heads = card.size("num_key_value_heads", traits.kv_heads or heads)
    card.divides("num_attention_heads", heads, kv_heads, by="num_key_value_heads")
    if "head_dim" not in card and traits.head_dim is None:
        card.divides("hidden_size", base.hidden, heads, by="num_attention_heads")
    head_dim = card.size("head_dim", traits.head_dim or base.hidden // heads)
    bias = card.flag(traits.bias_key, traits.bias) if traits.bias_key else traits.bias
    if traits.qk_norm and not card.flag("use_qk_norm", True):
        card.wrong("use_qk_norm", problem="this model type always has a scale", fix="write true, or leave it out")
    return Heads(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        bias=bias,
        out_bias=bias and traits.out_bias,
        qk_norm=head_dim if traits.qk_norm else 0,
    )


def attend(base: Frame, heads: Heads, seen: tuple[Span, ...], *, sinks: bool = False) -> Parts:
    """Attention with the same heads in all layers, one group for each span."""
    parts = Parts()
    for span in seen:
        parts += grouped(
            span.layers,
            hidden=base.hidden,
            heads=heads.heads,
            kv_heads=heads.kv_heads,
            head_dim=heads.head_dim,
            reach=span.reach,
            span=span.size,
            bias=heads.bias,
            out_bias=heads.out_bias,
            qk_norm=heads.qk_norm,
            sinks=sinks,
            name=attention_name(span),
        )
    return parts


def with_defaults(card: Card, sizes: Mapping[str, int]) -> Card:
    """A nested card with the sizes that it leaves out; a card that stands alone stays as it is."""
    if not card.nested:
        return card
    return card.given(**{key: size for key, size in sizes.items() if key not in card})


def multi_token(card: Card) -> tuple[str, ...]:
    """A remark on the layers that only speculative decoding runs, by whichever key a card counts them."""
    card.skip("use_mtp", "mtp_transformer_layers", "mtp_use_dedicated_embeddings")
    keys = ("num_nextn_predict_layers", "num_mtp_modules", "num_mtp_layers", "mtp_num_hidden_layers")
    count = max(card.size(key, 0, least=0) for key in keys)
    words = "layer isn't" if count == 1 else "layers aren't"
    return (f"{count} multi-token-prediction {words} counted",) if count else ()
