"""Fuyu and Persimmon: a decoder that reads pixels itself; patches go through one matrix and need no tower.

In: their cards. Out: `Architecture` with one stage, which takes tokens and patches from the door. Shapes follow
transformers' FuyuForCausalLM and PersimmonForCausalLM.
"""

from accord.models.card import Card
from accord.models.families.decoders.dense import Frame, decoder_stage
from accord.models.families.sight.seeing import VALUE_BYTES
from accord.models.graphs import EdgeDraft, architecture, text_in, text_out
from accord.models.parts.attention import grouped
from accord.models.parts.feedforward import ACTIVATIONS, plain
from accord.models.parts.parts import Parts, head, linear, norm, tokens
from accord.models.parts.vision import NAME
from accord.terms.architecture import Architecture, Unit
from accord.terms.graph import DOOR, Payload
from accord.terms.work import Phase

FAMILY = "fuyu"


def build(card: Card, name: str) -> Architecture:
    """Persimmon alone, or with the matrix that turns patches into tokens' embeddings."""
    text = card.sub("text_config") if "text_config" in card else card
    base = _frame(text)
    parts = _decoder(text, base, tied=card.flag("tie_word_embeddings", False))
    edges: tuple[EdgeDraft, ...] = (text_in("decoder"), text_out("decoder"))
    remarks: tuple[str, ...] = ()
    if card.word("model_type") == "fuyu":
        card.skip("image_token_id", "image_size")
        values = card.size("patch_size", 30) ** 2 * card.size("num_channels", 3)
        parts = _patches(values, base.hidden) + parts
        edges = (_pixels(values), *edges)
        remarks = ("the matrix for patches is counted for all tokens of a prompt, as if it were all pictures",)
    return architecture(
        card,
        name=name,
        family=FAMILY,
        stages=(decoder_stage(text, parts),),
        edges=edges,
        context_max=base.context_max,
        remarks=remarks,
    )


def _frame(card: Card) -> Frame:
    card.skip("image_size", "model_type", "partial_rotary_factor")
    card.choice("hidden_act", ACTIVATIONS, "relu2")
    return Frame(
        hidden=card.size("hidden_size"),
        layers=tuple(range(card.layers())),
        vocabulary=card.size("vocab_size"),
        context_max=card.size("max_position_embeddings", 16384),
    )


def _decoder(card: Card, base: Frame, *, tied: bool) -> Parts:
    hidden, layers = base.hidden, base.layers
    heads = card.size("num_attention_heads", 64)
    card.divides("hidden_size", hidden, heads, by="num_attention_heads")
    head_dim = hidden // heads
    embedding = tokens(base.vocabulary, hidden)
    made = embedding
    for name in ("input_norm", "post_norm"):
        made += norm(name, hidden, layers, bias=True)
    made += grouped(layers, hidden=hidden, heads=heads, kv_heads=heads, head_dim=head_dim, bias=True, out_bias=True)
    if card.flag("qk_layernorm", True):
        for name in ("attention.q_norm", "attention.k_norm"):
            made += norm(name, head_dim, layers, bias=True)
    return (
        made
        + plain(layers, hidden=hidden, width=card.size("intermediate_size"))
        + norm("norm", hidden, bias=True)
        + head(base.vocabulary, hidden, tied=embedding.tensors[0] if tied else None)
    )


def _patches(values: int, hidden: int) -> Parts:
    return linear(f"{NAME}.patches", values, hidden, bias=True, phase=Phase.PREFILL, quantizable=False)


def _pixels(values: int) -> EdgeDraft:
    return EdgeDraft(
        source=DOOR, target="decoder", payload=Payload.FEATURES, unit=Unit.PATCH, unit_bytes=values * VALUE_BYTES
    )
