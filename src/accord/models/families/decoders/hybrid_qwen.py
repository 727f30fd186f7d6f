"""Qwen's hybrids of gated delta net and gated attention: Qwen3-Next, Qwen3.5 and Qwen3.6, dense and with experts.

In: their cards. Out: `Architecture` with one stage. Shapes follow transformers' Qwen3NextForCausalLM,
Qwen3_5ForCausalLM and Qwen3_5MoeForCausalLM; families/sight/hybrid_qwen_vl.py puts a vision tower in front.
"""

from collections.abc import Mapping

from accord.models.card import Card, Json
from accord.models.families.decoders.dense import Frame, decoder, frame, lone
from accord.models.families.decoders.hybrids import FULL, RECURRENT, mixers, state_dtype
from accord.models.families.decoders.mixture import Mixture, mixture_parts
from accord.models.parts.attention import grouped
from accord.models.parts.parts import Layers, Parts
from accord.models.parts.recurrent import gated_delta
from accord.terms.architecture import Architecture

FAMILY = "qwen-hybrid"

_SHARED: Mapping[str, Json] = {
    "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256, "max_position_embeddings": 32768,
    "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_num_key_heads": 16,
    "linear_num_value_heads": 32, "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512,
}  # fmt: skip

# What a card that leaves a key out means: transformers' defaults, save for the sizes that every card must say.
_DEFAULTS: Mapping[str, Mapping[str, Json]] = {
    "qwen3_next": {**_SHARED, "num_experts_per_tok": 10},
    "qwen3_5_text": {**_SHARED, "num_key_value_heads": 4, "num_experts": 0},
    "qwen3_5_moe_text": {**_SHARED, "num_experts_per_tok": 8},
}
MODEL_TYPES = tuple(_DEFAULTS)


def build(card: Card, name: str) -> Architecture:
    """The architecture of one hybrid decoder."""
    defaults = _DEFAULTS.get(card.word("model_type", "qwen3_next"), _DEFAULTS["qwen3_next"])
    own = card.given(**{key: value for key, value in defaults.items() if key not in card})
    base = frame(own)
    every = own.size("full_attention_interval", 4)
    default = tuple(RECURRENT if (layer + 1) % every else FULL for layer in base.layers)
    recurrent, full = mixers(own, base, default=default)
    mixing = delta(own, recurrent, hidden=base.hidden) + attention(own, full, hidden=base.hidden)
    parts = decoder(own, base, mixing, mixture_parts(base.hidden, mixture(own, base)))
    return lone(card, name, base=base, family=FAMILY, parts=parts, remarks=remarks(own))


def delta(card: Card, layers: Layers, *, hidden: int) -> Parts:
    """The gated delta net's layers."""
    heads, key_heads = card.size("linear_num_value_heads"), card.size("linear_num_key_heads")
    card.divides("linear_num_value_heads", heads, key_heads, by="linear_num_key_heads")
    return gated_delta(
        layers,
        hidden=hidden,
        key_heads=key_heads,
        heads=heads,
        key_dim=card.size("linear_key_head_dim"),
        value_dim=card.size("linear_value_head_dim"),
        kernel=card.size("linear_conv_kernel_dim"),
        state_dtype=state_dtype(card, "mamba_ssm_dtype"),
    )


def attention(card: Card, layers: Layers, *, hidden: int) -> Parts:
    """Attention whose output is gated by a second half of the queries."""
    heads, kv_heads = card.size("num_attention_heads"), card.size("num_key_value_heads")
    card.divides("num_attention_heads", heads, kv_heads, by="num_key_value_heads")
    head_dim = card.size("head_dim")
    bias = card.flag("attention_bias", False)
    card.skip("partial_rotary_factor", "output_gate_type")
    return grouped(
        layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        bias=bias,
        out_bias=bias,
        qk_norm=head_dim,
        gate=card.flag("attn_output_gate", True),
    )


def mixture(card: Card, base: Frame) -> Mixture:
    """A gated block in each layer, or experts with a shared one whose share each token chooses."""
    count = card.size("num_experts", least=0)
    every = card.size("decoder_sparse_step", 1)
    plain = card.sizes("mlp_only_layers")
    sparse = tuple(layer for layer in base.layers if count and layer not in plain and (layer + 1) % every == 0)
    dense = tuple(layer for layer in base.layers if layer not in sparse)
    chosen = card.size("num_experts_per_tok", 0, least=0)
    if sparse and not 1 <= chosen <= count:
        card.wrong("num_experts_per_tok", problem="out of range", fix=f"write a whole number from 1 to {count}")
    card.skip("intermediate_size", "norm_topk_prob")
    return Mixture(
        sparse=sparse,
        count=count,
        chosen=chosen,
        width=card.size("moe_intermediate_size"),
        dense=dense,
        dense_width=card.size("intermediate_size") if dense else 0,
        shared=card.size("shared_expert_intermediate_size"),
        shared_gate=True,
    )


def remarks(card: Card) -> tuple[str, ...]:
    """What is counted by a choice of ours."""
    if "mamba_ssm_dtype" in card:
        return ()
    state = "recurrent states are counted in float32, as transformers and SGLang keep them"
    return (f"{state}; vLLM keeps them in bfloat16 unless it is told otherwise",)
