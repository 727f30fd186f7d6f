"""Kimi-Linear: Kimi Delta Attention in most layers, latent attention without positions in the rest, experts in all but
the first. Kimi-K3's decoder is one, too, with experts of a narrower width and residuals that attend over depth.

In: their cards. Out: `Architecture` with one stage, or `Parts` for a composed model. Shapes follow transformers'
KimiLinearForCausalLM; those of Kimi-K3 its technical report (arXiv 2607.24653) and the tensors of its checkpoint.
"""

from collections.abc import Mapping

from accord.models.card import Card, Json
from accord.models.families.decoders.dense import Frame, frame, lone
from accord.models.families.decoders.dense import decoder as stack
from accord.models.families.decoders.hybrids import FULL, RECURRENT, mixers, narrowed, of_kind
from accord.models.families.naming import one_name
from accord.models.parts.feedforward import experts, gated
from accord.models.parts.latent import Latent, latent_attention
from accord.models.parts.parts import Layers, Parts, norm, vector
from accord.models.parts.recurrent import kimi_delta
from accord.terms.architecture import Architecture
from accord.terms.tensors import Dtype

FAMILY = "kimi-linear"

# What a card that leaves a key out means: transformers' defaults, save for the sizes that every card must say.
_DEFAULTS: Mapping[str, Json] = {
    "num_attention_heads": 32, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128,
    "moe_intermediate_size": 1024, "num_experts": 256, "num_experts_per_token": 8, "num_shared_experts": 1,
    "first_k_dense_replace": 1, "linear_head_dim": 128, "linear_num_heads": 32, "linear_conv_kernel_dim": 4,
    "max_position_embeddings": 1048576,
}  # fmt: skip

# Names in transformers of what the published cards call otherwise.
_ALIASES = {
    "num_local_experts": "num_experts", "num_experts_per_tok": "num_experts_per_token",
    "n_shared_experts": "num_shared_experts", "n_group": "num_expert_group",
    "model_max_length": "max_position_embeddings",
}  # fmt: skip


def build(card: Card, name: str) -> Architecture:
    """The architecture of one decoder."""
    own = completed(card)
    base = frame(own)
    return lone(card, name, base=base, family=FAMILY, parts=decoder(own, base))


def completed(card: Card) -> Card:
    """The card with one name for each figure, and with defaults for what it leaves out."""
    named = one_name(card, _ALIASES)
    return named.given(**{key: value for key, value in _DEFAULTS.items() if key not in named})


def decoder(card: Card, base: Frame) -> Parts:
    """Embedding, layers, last norm and logits of a card that `completed` has seen."""
    below = card.sub("linear_attn_config") if "linear_attn_config" in card else Card({})
    recurrent, full = _layers(card, below, base)
    mixing = _delta(card, below, recurrent, hidden=base.hidden) + latent_attention(
        full, _latent(card), hidden=base.hidden
    )
    made = stack(card, base, mixing, _feedforward(card, base))
    return made + _depth(base) if card.size("attn_res_block_size", 0, least=0) else made


def _layers(card: Card, below: Card, base: Frame) -> tuple[Layers, Layers]:
    default = tuple(RECURRENT if not layer or layer % 4 else FULL for layer in base.layers)
    if "layer_types" in card or "kda_layers" not in below or "full_attn_layers" not in below:
        below.skip("kda_layers", "full_attn_layers")
        return mixers(card, base, default=default)
    count = len(base.layers)
    recurrent = below.sizes("kda_layers", least=1, most=count)
    full = below.sizes("full_attn_layers", least=1, most=count)
    if sorted((*recurrent, *full)) != list(range(1, count + 1)):
        fix = f"name each of the layers 1 to {count} in one of the two lists"
        below.wrong("kda_layers", problem="doesn't complement full_attn_layers", fix=fix)
    return tuple(sorted(layer - 1 for layer in recurrent)), tuple(sorted(layer - 1 for layer in full))


def _delta(card: Card, below: Card, layers: Layers, *, hidden: int) -> Parts:
    below.skip("gate_lower_bound")
    heads = below.size("num_heads", card.size("linear_num_heads"))
    return kimi_delta(
        layers,
        hidden=hidden,
        heads=heads,
        head_dim=below.size("head_dim", card.size("linear_head_dim")),
        kernel=below.size("short_conv_kernel_size", card.size("linear_conv_kernel_dim")),
        full_gate=below.flag("use_full_rank_gate", False),
    )


def _latent(card: Card) -> Latent:
    card.skip("head_dim", "qk_head_dim", "num_key_value_heads", "mla_use_nope")
    return Latent(
        heads=card.size("num_attention_heads"),
        query_rank=card.maybe("q_lora_rank"),
        rank=card.size("kv_lora_rank"),
        nope=card.size("qk_nope_head_dim"),
        rope=card.size("qk_rope_head_dim"),
        value=card.size("v_head_dim"),
        bias=card.flag("attention_bias", False),
        gate=card.flag("mla_use_output_gate", False),
    )


def _feedforward(card: Card, base: Frame) -> Parts:
    """Dense layers first, then experts with shared ones beside them."""
    kinds = _mlp_kinds(card, base)
    dense, sparse = of_kind(base.layers, kinds, "dense"), of_kind(base.layers, kinds, "sparse")
    count, width = card.size("num_experts"), card.size("moe_intermediate_size")
    card.divides("num_experts", count, card.size("num_expert_group", 1), by="num_expert_group")
    card.skip(
        "topk_group", "moe_renormalize", "norm_topk_prob", "routed_scaling_factor", "use_grouped_topk",
        "moe_router_activation_func", "activation_situ_beta", "activation_situ_linear_beta", "topk_method",
    )  # fmt: skip
    latent = card.size("routed_expert_hidden_size", base.hidden)
    routed = experts(
        sparse,
        hidden=latent,
        width=width,
        count=count,
        chosen=card.size("num_experts_per_token", most=count),
        correction=True,
        router_dtype=Dtype.F32,
        router_inputs=base.hidden,
    )
    if latent != base.hidden:
        routed = narrowed(
            sparse, routed, hidden=base.hidden, latent=latent, normed=card.flag("latent_moe_use_norm", False)
        )
    return (
        gated(dense, hidden=base.hidden, width=card.size("intermediate_size"))
        + routed
        + gated(sparse, hidden=base.hidden, width=width * card.size("num_shared_experts", least=0), name="shared")
    )


def _mlp_kinds(card: Card, base: Frame) -> tuple[str, ...]:
    first, every = card.size("first_k_dense_replace", least=0), card.size("moe_layer_freq", 1)
    if "mlp_layer_types" in card:
        return card.words("mlp_layer_types", known=("dense", "sparse"), count=len(base.layers))
    return tuple("dense" if layer < first or layer % every else "sparse" for layer in base.layers)


def _depth(base: Frame) -> Parts:
    """Residuals that attend over the outputs of earlier blocks of layers: a query and a norm for each sum.

    Their FLOPs, one product of vectors for each block of layers, aren't counted.
    """
    made = Parts()
    for name in ("attention", "mlp"):
        made += norm(f"depth.{name}.norm", base.hidden, base.layers) + vector(
            f"depth.{name}.query", base.hidden, base.layers
        )
    return made + norm("depth.norm", base.hidden) + vector("depth.query", base.hidden)
