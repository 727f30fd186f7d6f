"""Mixtures of experts with grouped-query attention: Mixtral, Qwen2-MoE, Qwen3-MoE, GLM-4.5, MiniMax-M2.

In: their cards. Out: `Architecture` with one stage. Shapes and defaults follow transformers' classes of these names.
"""

from collections.abc import Callable, Mapping

from accord.models.card import Card
from accord.models.families.decoders.dense import (
    Frame,
    Traits,
    attention,
    decoder,
    frame,
    heads_of,
    lone,
    with_defaults,
)
from accord.models.families.decoders.mixture import Mixture, check_groups, mixture_parts
from accord.models.families.decoders.windows import Sliding
from accord.models.families.naming import expert_count
from accord.models.parts.attention import grouped
from accord.models.parts.parts import Layers, Parts
from accord.terms.architecture import Architecture
from accord.terms.tensors import Dtype

FAMILY = "moe"

_TRAITS: Mapping[str, Traits] = {
    "mixtral": Traits(bias_key="", kv_heads=8, sliding=Sliding.ALL),
    "qwen2_moe": Traits(
        bias=True, bias_key="qkv_bias", out_bias=False, kv_heads=16, sliding=Sliding.EARLIER, window=4096
    ),
    "qwen3_moe": Traits(qk_norm=True, kv_heads=4, sliding=Sliding.SWITCHED, window=4096),
    "glm4_moe": Traits(out_bias=False, kv_heads=8),
    "minimax_m2": Traits(bias_key="", kv_heads=8, head_dim=128),
}
_COUNTS: Mapping[str, str] = {
    "mixtral": "num_local_experts", "qwen2_moe": "num_experts", "qwen3_moe": "num_experts",
    "glm4_moe": "n_routed_experts", "minimax_m2": "num_local_experts",
}  # fmt: skip
_NESTED: Mapping[str, Mapping[str, int]] = {
    "qwen3_moe": {"hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 24, "num_attention_heads": 32,
                  "vocab_size": 151936, "max_position_embeddings": 32768},
}  # fmt: skip


def build(card: Card, name: str) -> Architecture:
    """The architecture of one of these mixtures."""
    kind = card.word("model_type") if card.word("model_type") in _TRAITS else "mixtral"
    full = expert_count(with_defaults(card, _NESTED.get(kind, {})), _COUNTS[kind])
    base = frame(full)
    seen = _minimax_attention(full, base) if kind == "minimax_m2" else attention(full, base, _traits(full, kind))
    mlp = mixture_parts(base.hidden, _MIXTURES[kind](full, base))
    return lone(card, name, base=base, family=FAMILY, parts=decoder(full, base, seen, mlp))


def _traits(card: Card, kind: str) -> Traits:
    traits = _TRAITS[kind]
    if kind == "glm4_moe" and card.flag("use_qk_norm", False):
        return Traits(out_bias=False, kv_heads=traits.kv_heads, qk_norm=True)
    return traits


def _mixtral(card: Card, base: Frame) -> Mixture:
    count = card.size("num_local_experts", 8)
    return Mixture(
        sparse=base.layers,
        count=count,
        chosen=card.size("num_experts_per_tok", 2, most=count),
        width=card.size("intermediate_size"),
    )


def _qwen(card: Card, base: Frame, *, experts: int, chosen: int, shared: int) -> Mixture:
    card.skip("norm_topk_prob")
    count = card.size("num_experts", experts, least=0)
    step = card.size("decoder_sparse_step", 1)
    dense = card.sizes("mlp_only_layers")
    sparse = tuple(layer for layer in base.layers if layer not in dense and (layer + 1) % step == 0) if count else ()
    rest = others(base, sparse)
    return Mixture(
        sparse=sparse,
        count=count,
        chosen=card.size("num_experts_per_tok", chosen, most=max(1, count)),
        width=card.size("moe_intermediate_size", 1408 if shared else 768),
        dense=rest,
        dense_width=card.size("intermediate_size", None if rest else 6144),
        shared=shared,
        shared_gate=bool(shared),
    )


def _qwen2(card: Card, base: Frame) -> Mixture:
    return _qwen(card, base, experts=60, chosen=4, shared=card.size("shared_expert_intermediate_size", 5632))


def _qwen3(card: Card, base: Frame) -> Mixture:
    return _qwen(card, base, experts=128, chosen=8, shared=0)


def _glm(card: Card, base: Frame) -> Mixture:
    card.skip("norm_topk_prob", "routed_scaling_factor", "partial_rotary_factor")
    first = card.size("first_k_dense_replace", 1, least=0)
    width = card.size("moe_intermediate_size", 1408)
    mixture = Mixture(
        sparse=base.layers[first:],
        count=card.size("n_routed_experts", 128),
        chosen=card.size("num_experts_per_tok", 8),
        width=width,
        dense=base.layers[:first],
        dense_width=card.size("intermediate_size"),
        shared=card.size("n_shared_experts", 1, least=0) * width,
        correction=True,
        router_dtype=Dtype.F32,
    )
    check_groups(card, count_key="n_routed_experts", mixture=mixture)
    return mixture


def _minimax(card: Card, base: Frame) -> Mixture:
    card.choice("scoring_func", ("sigmoid",), "sigmoid")
    if card.size("shared_intermediate_size", 0, least=0):
        card.wrong("shared_intermediate_size", problem="MiniMax-M2 has no shared expert", fix="write 0")
    count = card.size("num_local_experts", 256)
    return Mixture(
        sparse=base.layers,
        count=count,
        chosen=card.size("num_experts_per_tok", 8, most=count),
        width=card.size("intermediate_size"),
        correction=card.flag("use_routing_bias", True),
        router_dtype=Dtype.F32,
    )


def _minimax_attention(card: Card, base: Frame) -> Parts:
    card.skip("rotary_dim", "partial_rotary_factor")
    card.choice("qk_norm_type", ("per_layer",), "per_layer")
    if 0 in card.sizes("attn_type_list", most=1):
        card.wrong("attn_type_list", problem="linear attention in MiniMax-M2", fix="write 1 for each layer")
    heads = heads_of(card, base, _TRAITS["minimax_m2"])
    return grouped(
        base.layers,
        hidden=base.hidden,
        heads=heads.heads,
        kv_heads=heads.kv_heads,
        head_dim=heads.head_dim,
        qk_norm_wide=card.flag("use_qk_norm", True),
    )


def others(base: Frame, layers: Layers) -> Layers:
    """All layers but these."""
    return tuple(layer for layer in base.layers if layer not in layers)


_MIXTURES: Mapping[str, Callable[[Card, Frame], Mixture]] = {
    "mixtral": _mixtral,
    "qwen2_moe": _qwen2,
    "qwen3_moe": _qwen3,
    "glm4_moe": _glm,
    "minimax_m2": _minimax,
}
