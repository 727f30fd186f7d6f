"""Nemotron-H and Nemotron 3: layers that are either Mamba-2, or attention, or a feed-forward block, or experts.

In: their cards. Out: `Architecture` with one stage. Shapes follow transformers' NemotronHForCausalLM; the experts of
Nemotron 3 Super and Ultra work on a projection of the hidden state.
"""

from collections.abc import Mapping

from accord.models.card import Card, Json
from accord.models.families.decoders.dense import Frame, lone
from accord.models.families.decoders.hybrids import narrowed, of_kind, plain_attention, state_dtype
from accord.models.families.naming import one_name
from accord.models.parts.feedforward import ACTIVATIONS, experts, plain
from accord.models.parts.parts import Layers, Parts, head, norm, tokens
from accord.models.parts.recurrent import mamba2
from accord.terms.architecture import Architecture
from accord.terms.tensors import Dtype

FAMILY = "nemotron-h"

# The letters of `hybrid_override_pattern`, and the words of `layers_block_type` and `layer_types`.
_LETTERS: Mapping[str, str] = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
_WORDS: Mapping[str, str] = {
    "mamba": "mamba", "linear_attention": "mamba", "attention": "attention", "full_attention": "attention",
    "mlp": "mlp", "moe": "moe",
}  # fmt: skip

# What a card that leaves a key out means: transformers' defaults, save for the sizes that every card must say.
_DEFAULTS: Mapping[str, Json] = {
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 4096,
    "ssm_state_size": 128, "mamba_num_heads": 128, "mamba_head_dim": 64, "n_groups": 8, "conv_kernel": 4,
    "use_conv_bias": True, "chunk_size": 128, "n_routed_experts": 8, "num_experts_per_tok": 2,
    "moe_intermediate_size": 7688, "moe_shared_expert_intermediate_size": 7688,
}  # fmt: skip

# Older cards' names.
_ALIASES = {
    "attention_head_dim": "head_dim", "mamba_n_groups": "n_groups", "mamba_d_conv": "conv_kernel",
    "mamba_conv_bias": "use_conv_bias", "mamba_chunk_size": "chunk_size", "num_local_experts": "n_routed_experts",
}  # fmt: skip


def build(card: Card, name: str) -> Architecture:
    """The architecture of one decoder."""
    own = completed(card)
    kinds = layer_kinds(own)
    card.choice("mlp_hidden_act", ACTIVATIONS, "relu2")
    base = Frame(
        hidden=own.size("hidden_size"),
        layers=tuple(range(len(kinds))),
        vocabulary=own.size("vocab_size"),
        context_max=own.size("max_position_embeddings"),
    )
    _skip(own)
    return lone(card, name, base=base, family=FAMILY, parts=decoder(own, base, kinds))


def completed(card: Card) -> Card:
    """The card with one name for each figure, and with defaults for what it leaves out."""
    named = one_name(card, _ALIASES)
    return named.given(**{key: value for key, value in _DEFAULTS.items() if key not in named})


def layer_kinds(card: Card) -> tuple[str, ...]:
    """What each layer is: from the list, else from the pattern of letters."""
    for key in ("layers_block_type", "layer_types"):
        if key in card:
            card.skip("hybrid_override_pattern", "num_hidden_layers")
            return tuple(_WORDS[word] for word in card.words(key, known=tuple(_WORDS)))
    pattern = card.word("hybrid_override_pattern")
    if not pattern or set(pattern) - set(_LETTERS):
        card.wrong("hybrid_override_pattern", problem="holds other letters", fix=f"write {' '.join(_LETTERS)} only")
    if card.layers(default=len(pattern)) != len(pattern):
        fix = f"write {len(pattern)}, or a pattern of as many letters"
        card.wrong("num_hidden_layers", problem=f"the pattern has {len(pattern)} letters", fix=fix)
    return tuple(_LETTERS[letter] for letter in pattern)


def decoder(card: Card, base: Frame, kinds: tuple[str, ...]) -> Parts:
    """Embedding, one norm and one block a layer, last norm and logits."""
    embedding = tokens(base.vocabulary, base.hidden)
    tied = embedding.tensors[0] if card.flag("tie_word_embeddings", False) else None
    full = of_kind(base.layers, kinds, "attention")
    dense = of_kind(base.layers, kinds, "mlp")
    width = card.size("intermediate_size") if dense else 0
    card.skip("intermediate_size", "attention_bias")  # transformers and vLLM build attention without biases
    return (
        embedding
        + norm("norm", base.hidden, base.layers)
        + _mamba(card, of_kind(base.layers, kinds, "mamba"), hidden=base.hidden)
        + plain_attention(card, full, hidden=base.hidden, head_dim=card.size("head_dim"))
        + plain(dense, hidden=base.hidden, width=width, bias=card.flag("mlp_bias", False))
        + _experts(card, of_kind(base.layers, kinds, "moe"), hidden=base.hidden)
        + norm("last_norm", base.hidden)
        + head(base.vocabulary, base.hidden, tied=tied)
    )


def _mamba(card: Card, layers: Layers, *, hidden: int) -> Parts:
    heads, groups = card.size("mamba_num_heads"), card.size("n_groups")
    card.divides("mamba_num_heads", heads, groups, by="n_groups")
    return mamba2(
        layers,
        hidden=hidden,
        heads=heads,
        head_dim=card.size("mamba_head_dim"),
        groups=groups,
        state=card.size("ssm_state_size"),
        kernel=card.size("conv_kernel"),
        chunk=card.size("chunk_size"),
        bias=card.flag("use_bias", False),
        conv_bias=card.flag("use_conv_bias", True),
        state_dtype=state_dtype(card, "mamba_ssm_cache_dtype"),
    )


def _experts(card: Card, layers: Layers, *, hidden: int) -> Parts:
    """Experts without a gate's matrix, and a shared one that reads the whole hidden state."""
    count, bias = card.size("n_routed_experts"), card.flag("mlp_bias", False)
    chosen = card.size("num_experts_per_tok", most=count if layers else count + 1)
    width, shared = card.size("moe_intermediate_size"), card.size("moe_shared_expert_intermediate_size")
    card.divides("n_routed_experts", count, card.size("n_group", 1), by="n_group")
    latent = card.maybe("moe_latent_size")
    routed = experts(
        layers,
        hidden=latent or hidden,
        width=width,
        count=count,
        chosen=chosen,
        with_gate=False,
        correction=True,
        router_dtype=Dtype.F32,
        router_inputs=hidden,
    )
    if latent is not None:
        routed = narrowed(layers, routed, hidden=hidden, latent=latent, bias=bias)
    return routed + plain(layers, hidden=hidden, width=shared, bias=bias, name="shared")


def _skip(card: Card) -> None:
    """Steps' bounds, rotations that aren't used, what training and kernels need, and layers that aren't counted."""
    card.skip(
        "expand", "mamba_expand", "mamba_hidden_act", "mamba_proj_bias", "moe_shared_expert_overlap",
        "n_shared_experts", "norm_topk_prob", "topk_group", "routed_scaling_factor", "num_logits_to_keep",
        "partial_rotary_factor", "rescale_prenorm_residual", "residual_in_fp32", "sliding_window", "time_step_floor",
        "time_step_limit", "time_step_max", "time_step_min", "time_step_rank", "use_mamba_kernels",
        "mtp_hybrid_override_pattern", "mtp_layers_block_type",
    )  # fmt: skip
