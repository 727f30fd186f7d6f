"""Text encoders of image and video pipelines: CLIP's, T5's and UMT5's, or a whole language model's hidden states.

In: a pipeline's nested `text_encoder` mapping. Out: `Encoder`. Shapes follow transformers' CLIPTextModel,
CLIPTextModelWithProjection, T5EncoderModel and UMT5EncoderModel; language models come from their own families.
"""

from dataclasses import dataclass

from accord.models.card import Card
from accord.models.families.table import FAMILIES
from accord.models.parts.attention import grouped
from accord.models.parts.feedforward import ACTIVATIONS, gated, plain
from accord.models.parts.parts import Parts, linear, norm, table, tokens
from accord.models.parts.vae import weights_only
from accord.terms.architecture import Unit
from accord.terms.tensors import Part, Split, Tensor
from accord.terms.work import MatMul, Per, Reach


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoder:
    """`hidden` values for each token, and `pooled` for the whole prompt, which has `tokens_max` tokens at most."""

    parts: Parts
    hidden: int
    pooled: int
    tokens_max: int | None = None


def encoder(card: Card) -> Encoder:
    """The encoder of one `text_encoder` mapping."""
    kind = card.word("model_type")
    if kind == "clip_text_model":
        return _clip(card)
    if kind in ("t5", "umt5"):
        return _t5(card, every_layer=kind == "umt5")
    return _language_model(card, kind)


def _clip(card: Card) -> Encoder:
    hidden, heads = card.size("hidden_size", 512), card.size("num_attention_heads", 8)
    layers = tuple(range(card.layers(default=12)))
    width, projected = card.size("intermediate_size", 2048), card.size("projection_dim", 512)
    longest = card.size("max_position_embeddings", 77)
    card.divides("hidden_size", hidden, heads, by="num_attention_heads")
    card.choice("hidden_act", ACTIVATIONS, "quick_gelu")
    parts = (
        tokens(card.size("vocab_size", 49408), hidden)
        + table("positions", longest, hidden)
        + norm("norm1", hidden, layers, bias=True)
        + grouped(
            layers,
            hidden=hidden,
            heads=heads,
            kv_heads=heads,
            head_dim=hidden // heads,
            reach=Reach.CAUSAL,
            bias=True,
            out_bias=True,
            cached=False,
        )
        + norm("norm2", hidden, layers, bias=True)
        + plain(layers, hidden=hidden, width=width, bias=True)
        + norm("norm", hidden, bias=True)
    )
    if card.words("architectures") != ("CLIPTextModelWithProjection",):
        return Encoder(parts=parts, hidden=hidden, pooled=hidden, tokens_max=longest)
    parts += linear("projection", hidden, projected, per=Per.SEQUENCE, quantizable=False)
    return Encoder(parts=parts, hidden=hidden, pooled=projected, tokens_max=longest)


def _t5(card: Card, *, every_layer: bool) -> Encoder:
    """T5 1.0 and 1.1 (arXiv 1910.10683), and UMT5, whose every layer has its own table of relative positions."""
    hidden, heads, head_dim = card.size("d_model", 512), card.size("num_heads"), card.size("d_kv", 64)
    layers = tuple(range(card.layers("num_layers")))
    forward = card.word("feed_forward_proj", "gated-gelu" if every_layer else "relu").removeprefix("gated-")
    if forward not in ACTIVATIONS:
        card.wrong("feed_forward_proj", problem="unknown", fix="write relu or gated-gelu")
    buckets = card.size("relative_attention_num_buckets", 32)
    card.skip("relative_attention_max_distance", "num_decoder_layers", "dense_act_fn", "is_gated_act", "n_positions")
    card.skip(
        "tie_word_embeddings",
        "output_past",
        "classifier_dropout",
        "dropout_rate",
        "scalable_attention",
        "scale_decoder_outputs",
    )
    positions = Tensor(
        name="attention.positions",
        part=Part.LAYER,
        rows=heads,
        columns=buckets,
        layers=layers if every_layer else layers[:1],
        split=Split.ROWS,
        pieces=heads,
    )
    width = card.size("d_ff", 1024 if every_layer else 2048)
    is_gated = card.word("feed_forward_proj", "gated-gelu" if every_layer else "relu").startswith("gated-")
    feed = gated if is_gated else plain
    parts = (
        tokens(card.size("vocab_size", 250112 if every_layer else 32128), hidden)
        + norm("norm1", hidden, layers)
        + grouped(layers, hidden=hidden, heads=heads, kv_heads=heads, head_dim=head_dim, reach=Reach.ALL, cached=False)
        + Parts(tensors=(positions,))
        + norm("norm2", hidden, layers)
        + feed(layers, hidden=hidden, width=width, bias=False)
        + norm("norm", hidden)
    )
    return Encoder(parts=parts, hidden=hidden, pooled=hidden)


def _language_model(card: Card, kind: str) -> Encoder:
    """All weights of a language model are loaded; one pass over the prompt is computed, without logits or a cache."""
    for family in FAMILIES:
        if kind in family.model_types:
            built = family.load()(card, kind)
            break
    else:
        card.wrong("model_type", problem="no such text encoder", fix="clip_text_model, t5, umt5 or a language model")
    decoder = next((item for item in built.needs if item.unit is Unit.TOKEN), None)
    if decoder is None:
        card.wrong("model_type", problem="reads no text", fix="clip_text_model, t5, umt5 or a language model")
    heads = tuple(item for item in decoder.operators if isinstance(item, MatMul) and item.per is Per.SEQUENCE)
    run = Parts(
        tensors=tuple(tensor for tensor in decoder.tensors if tensor.part is not Part.HEAD),
        operators=tuple(item for item in decoder.operators if item not in heads),
    )
    kept = {tensor.name for tensor in run.tensors}
    others = (
        tensor for item in built.needs for tensor in item.tensors if item is not decoder or tensor.name not in kept
    )
    hidden = heads[-1].weight.columns if heads else 0
    return Encoder(parts=run + weights_only(Parts(tensors=tuple(others))), hidden=hidden, pooled=hidden)
