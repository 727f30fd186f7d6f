"""LFM2: short gated convolutions in most layers, attention in the rest; LFM2-MoE has experts in all but the first.

In: their cards. Out: `Architecture` with one stage. Shapes follow transformers' Lfm2ForCausalLM and
Lfm2MoeForCausalLM.
"""

from accord.models.card import Card
from accord.models.families.decoders.dense import Frame, decoder, frame, lone
from accord.models.families.decoders.hybrids import FULL, of_kind, plain_attention
from accord.models.families.decoders.mixture import Mixture, mixture_parts
from accord.models.parts.parts import Parts
from accord.models.parts.recurrent import gated_convolution
from accord.terms.architecture import Architecture

FAMILY = "lfm2"

FACTOR_MAX = 64

_SHORT = "conv"


def build(card: Card, name: str) -> Architecture:
    """The architecture of one decoder."""
    own = card.given(
        tie_word_embeddings=card.flag("tie_embedding", card.flag("tie_word_embeddings", True)),
        num_attention_heads=card.size("num_attention_heads", 32),
        num_key_value_heads=card.size("num_key_value_heads", 8),
        max_position_embeddings=card.size("max_position_embeddings", 128_000),
    )
    base = frame(own)
    kinds = _kinds(card, base)
    full = of_kind(base.layers, kinds, FULL)
    bias, kernel = card.flag("conv_bias", False), card.size("conv_L_cache", 3)
    mixing = gated_convolution(of_kind(base.layers, kinds, _SHORT), hidden=base.hidden, kernel=kernel, bias=bias)
    mixing += plain_attention(own, full, hidden=base.hidden, head_dim=card.maybe("head_dim"), qk_norm=True)
    card.skip("conv_dim", "conv_dim_out", "conv_use_xavier_init", "block_dim", "block_mlp_init_scale", "block_norm_eps")
    card.skip("block_out_init_scale", "block_use_swiglu", "block_use_xavier_init", "num_heads", "use_pos_enc")
    return lone(card, name, base=base, family=FAMILY, parts=decoder(own, base, mixing, _feedforward(card, base)))


def _kinds(card: Card, base: Frame) -> tuple[str, ...]:
    if "layer_types" in card:
        card.skip("full_attn_idxs")
        return card.words("layer_types", known=(FULL, _SHORT), count=len(base.layers))
    full = card.sizes("full_attn_idxs") if "full_attn_idxs" in card else base.layers
    return tuple(FULL if layer in full else _SHORT for layer in base.layers)


def _feedforward(card: Card, base: Frame) -> Parts:
    if card.word("model_type", "lfm2") != "lfm2_moe":
        return mixture_parts(
            base.hidden, Mixture(sparse=(), count=0, chosen=0, width=0, dense=base.layers, dense_width=_adjusted(card))
        )
    first, count = card.size("num_dense_layers", 2, least=0), card.size("num_experts", 32)
    card.skip("norm_topk_prob", "routed_scaling_factor")
    mixture = Mixture(
        sparse=base.layers[first:],
        count=count,
        chosen=card.size("num_experts_per_tok", 4, most=count),
        width=card.size("moe_intermediate_size", 1792),
        dense=base.layers[:first],
        dense_width=card.size("intermediate_size"),
        correction=card.flag("use_expert_bias", True),
    )
    return mixture_parts(base.hidden, mixture)


def _adjusted(card: Card) -> int:
    """Two thirds of the width that the card says, times a factor, rounded up to whole blocks."""
    width = card.size("block_ff_dim", card.size("intermediate_size", card.maybe("block_ff_dim")))
    factor, multiple = card.number("block_ffn_dim_multiplier", 1.0), card.size("block_multiple_of", 256)
    if not 0 < factor <= FACTOR_MAX:
        card.wrong("block_ffn_dim_multiplier", problem="out of range", fix=f"write a factor up to {FACTOR_MAX}")
    if not card.flag("block_auto_adjust_ff_dim", True):
        return width
    return -(-int(factor * int(2 * width / 3)) // multiple) * multiple
