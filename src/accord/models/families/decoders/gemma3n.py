"""Gemma 3n's decoder: several residual streams (AltUp), a low-rank branch (Laurel), per-layer embeddings, and last
layers that read the cache of earlier ones.

In: its `text_config`. Out: `Architecture` with one stage. Shapes and defaults follow transformers' Gemma3nForCausalLM.
"""

from collections.abc import Mapping
from dataclasses import replace

from accord.models.card import Card
from accord.models.families.decoders.dense import Frame, lone, with_defaults
from accord.models.families.decoders.gemma import decoder, frame, heads_of, layer_kinds
from accord.models.families.decoders.gemma4 import SKIPPED, per_layer_embeddings, shared_layers, split
from accord.models.families.decoders.windows import attention_name, by_kind
from accord.models.parts.attention import grouped
from accord.models.parts.feedforward import gated
from accord.models.parts.parts import NOTHING, Layers, Parts, linear, norm, vector
from accord.terms.architecture import Architecture
from accord.terms.tensors import Split

FAMILY = "gemma3n"

_NESTED: Mapping[str, int] = {
    "hidden_size": 2048, "intermediate_size": 16384, "num_hidden_layers": 35, "vocab_size": 262400,
}  # fmt: skip


def build(card: Card, name: str) -> Architecture:
    """The architecture of the decoder alone."""
    full = with_defaults(card, _NESTED)
    base = frame(full, context=32768)
    full.skip("final_logit_softcapping", "activation_sparsity_pattern", "altup_coef_clip", "altup_correct_scale")
    inputs = full.size("altup_num_inputs", 4)
    if full.size("altup_active_idx", 0, least=0) >= inputs:
        full.wrong("altup_active_idx", problem=f"there are {inputs} inputs, counted from 0", fix="write 0")
    small = full.size("hidden_size_per_layer_input", 256)
    parts = (
        decoder(full, base, _attention(full, base), _feedforward(full, base))
        + altup(base, inputs=inputs)
        + laurel(base, rank=full.size("laurel_rank", 64))
        + per_layer_embeddings(base, small=small, rows=full.size("vocab_size_per_layer_input", 262144))
    )
    made = lone(card, name, base=base, family=FAMILY, parts=parts)
    return replace(made, remarks=(*made.remarks, SKIPPED)) if full.size("num_kv_shared_layers", 15, least=0) else made


def altup(base: Frame, *, inputs: int) -> Parts:
    """Alternating updates: `inputs` residual streams, of which one goes through the layer and the others are predicted.

    The router runs before and after the layer. Predictions weigh all streams in each channel, which is counted as
    further uses of the matrix that gives the weights.
    """
    hidden, layers = base.hidden, base.layers
    made = NOTHING
    if inputs > 1:
        for name in ("altup.in", "altup.out"):
            made += linear(name, hidden, hidden, copies=inputs - 1, split=Split.ROWS, pieces=hidden)
    return (
        made
        + vector("altup.scale", hidden, layers)
        + norm("altup.router_norm", hidden, layers)
        + linear("altup.router", hidden, inputs, layers, rate=2.0, quantizable=False)
        + linear("altup.predict", inputs, inputs**2, layers, rate=1.0 + hidden / inputs, quantizable=False)
        + linear("altup.correct", inputs, inputs, layers, quantizable=False)
    )


def laurel(base: Frame, *, rank: int) -> Parts:
    """A learned residual of low rank beside attention."""
    return (
        linear("laurel.down", base.hidden, rank, base.layers, split=Split.ROWS, pieces=rank)
        + linear("laurel.up", rank, base.hidden, base.layers, split=Split.COLUMNS, pieces=rank)
        + norm("laurel.norm", base.hidden, base.layers)
    )


def _attention(card: Card, base: Frame) -> Parts:
    kinds = layer_kinds(card, base.layers, every=5)
    shared = shared_layers(card, base.layers, kinds, default=15)
    heads = heads_of(card, heads=8, kv_heads=2, qk_norm=True)
    made = NOTHING
    for span in by_kind(base.layers, kinds, window=card.size("sliding_window", 512)):
        for layers, is_shared in split(span, shared):
            made += grouped(
                layers,
                hidden=base.hidden,
                heads=heads.heads,
                kv_heads=heads.kv_heads,
                head_dim=heads.head_dim,
                reach=span.reach,
                span=span.size,
                bias=heads.bias,
                out_bias=heads.out_bias,
                qk_norm=heads.qk_norm,
                shared=is_shared,
                name=attention_name(span) + (".shared" if is_shared else ""),
            )
    return made


def _feedforward(card: Card, base: Frame) -> Parts:
    """One width for all layers, or a list with one for each."""
    if not isinstance(card.raw("intermediate_size"), list):
        return gated(base.layers, hidden=base.hidden, width=card.size("intermediate_size"))
    widths = card.sizes("intermediate_size", least=1, count=len(base.layers))
    made = NOTHING
    for number, width in enumerate(sorted(set(widths))):
        layers: Layers = tuple(layer for layer, own in zip(base.layers, widths, strict=True) if own == width)
        made += gated(layers, hidden=base.hidden, width=width, name=f"mlp.{number}" if number else "mlp")
    return made
