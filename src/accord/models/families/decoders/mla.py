"""Decoders with multi-head latent attention: DeepSeek-V2, V3 and R1, Kimi-K2, GLM-4.7-Flash, Mistral 4.

In: their cards. Out: `Architecture` with one stage. Shapes follow transformers' DeepseekV2ForCausalLM,
DeepseekV3ForCausalLM and their kin; Kimi-K2 is DeepSeek-V3 with other figures.
"""

from collections.abc import Mapping

from accord.models.card import Card, Json
from accord.models.families.decoders.dense import Frame, frame, lone
from accord.models.families.naming import expert_count
from accord.models.parts.feedforward import experts, gated
from accord.models.parts.latent import Latent, latent_attention
from accord.models.parts.parts import Layers, Parts, head, norm, tokens
from accord.terms.architecture import Architecture

FAMILY = "mla"

_V3: Mapping[str, Json] = {
    "vocab_size": 129280, "hidden_size": 7168, "intermediate_size": 18432, "moe_intermediate_size": 2048,
    "num_hidden_layers": 61, "num_attention_heads": 128, "n_shared_experts": 1, "n_routed_experts": 256,
    "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_rope_head_dim": 64, "v_head_dim": 128, "qk_nope_head_dim": 128,
    "n_group": 8, "topk_group": 4, "num_experts_per_tok": 8, "first_k_dense_replace": 3,
    "max_position_embeddings": 4096, "topk_method": "noaux_tc",
}  # fmt: skip

# What a card that leaves a key out means: the defaults of transformers' configuration classes.
DEFAULTS: Mapping[str, Mapping[str, Json]] = {
    "deepseek_v2": {
        "vocab_size": 102400, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
        "num_attention_heads": 32, "max_position_embeddings": 2048, "first_k_dense_replace": 0, "kv_lora_rank": 512,
        "q_lora_rank": 1536, "n_routed_experts": 64, "n_shared_experts": 2, "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64, "v_head_dim": 128, "moe_intermediate_size": 1407, "topk_method": "greedy",
    },
    "deepseek_v3": _V3,
    "kimi_k2": _V3,
    "deepseek_v32": {
        **_V3, "max_position_embeddings": 163840, "index_topk": 2048, "index_head_dim": 128, "index_n_heads": 64,
    },
    "glm_moe_dsa": {
        **_V3, "vocab_size": 154880, "hidden_size": 6144, "intermediate_size": 12288, "num_hidden_layers": 78,
        "num_attention_heads": 64, "q_lora_rank": 2048, "v_head_dim": 256, "qk_nope_head_dim": 192, "n_group": 1,
        "topk_group": 1, "max_position_embeddings": 202752, "index_topk": 2048, "index_head_dim": 128,
        "index_n_heads": 32,
    },
    "glm4_moe_lite": {
        **_V3, "vocab_size": 154880, "hidden_size": 2048, "intermediate_size": 10240, "moe_intermediate_size": 1536,
        "num_hidden_layers": 47, "num_attention_heads": 20, "n_routed_experts": 64, "q_lora_rank": 768,
        "v_head_dim": 256, "qk_nope_head_dim": 192, "n_group": 1, "topk_group": 1, "num_experts_per_tok": 4,
        "max_position_embeddings": 202752, "first_k_dense_replace": 1,
    },
    "mistral4": {
        **_V3, "vocab_size": 131072, "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36,
        "num_attention_heads": 32, "n_routed_experts": 128, "kv_lora_rank": 256, "q_lora_rank": 1024,
        "qk_nope_head_dim": 64, "n_group": 1, "topk_group": 1, "num_experts_per_tok": 4,
        "max_position_embeddings": 1048576, "first_k_dense_replace": 0, "topk_method": "greedy",
    },
}  # fmt: skip

_ROUTING = ("noaux_tc", "greedy", "group_limited_greedy")


def build(card: Card, name: str) -> Architecture:
    """The architecture of a decoder with latent attention in all layers."""
    own = completed(card)
    base = frame(own)
    attention = latent_attention(base.layers, latent_shape(own), hidden=base.hidden)
    return lone(card, name, base=base, family=FAMILY, parts=decoder(own, base, attention))


def completed(card: Card) -> Card:
    """The card with the defaults of its `model_type`."""
    kind = card.word("model_type", "deepseek_v3")
    defaults, named = DEFAULTS.get(kind, _V3), expert_count(card, "n_routed_experts")
    return named.given(**{key: value for key, value in defaults.items() if not named.names(key)})


def decoder(card: Card, base: Frame, attention: Parts) -> Parts:
    """Embedding, layers with this attention, last norm and logits."""
    embedding = tokens(base.vocabulary, base.hidden)
    tied = embedding.tensors[0] if card.flag("tie_word_embeddings", False) else None
    return (
        embedding
        + norm("input_norm", base.hidden, base.layers)
        + norm("post_norm", base.hidden, base.layers)
        + attention
        + feedforward(card, base)
        + norm("norm", base.hidden)
        + head(base.vocabulary, base.hidden, tied=tied)
    )


def latent_shape(card: Card) -> Latent:
    """Reads MLA's figures."""
    heads = card.size("num_attention_heads")
    if card.size("num_key_value_heads", heads) != heads:
        card.wrong("num_key_value_heads", problem=f"not num_attention_heads = {heads}", fix=f"write {heads}")
    card.skip("qk_head_dim", "head_dim")  # follow from the others
    return Latent(
        heads=heads,
        query_rank=card.maybe("q_lora_rank"),
        rank=card.size("kv_lora_rank"),
        nope=card.size("qk_nope_head_dim"),
        rope=card.size("qk_rope_head_dim"),
        value=card.size("v_head_dim"),
        bias=card.flag("attention_bias", False),
    )


def feedforward(card: Card, base: Frame) -> Parts:
    """Dense layers first, then experts with shared ones beside them."""
    dense, sparse = _split(card, base)
    bias = card.flag("mlp_bias", False)
    if bias and card.word("model_type") != "deepseek_v2":
        card.wrong("mlp_bias", problem="only DeepSeek-V2's blocks may have biases", fix="write false")
    parts = gated(dense, hidden=base.hidden, width=card.size("intermediate_size"), bias=bias)
    if not sparse:
        return parts
    count = card.size("n_routed_experts")
    width = card.size("moe_intermediate_size")
    check_routing(card, count=count)
    return (
        parts
        + experts(
            sparse,
            hidden=base.hidden,
            width=width,
            count=count,
            chosen=card.size("num_experts_per_tok", most=count),
            correction=card.choice("topk_method", _ROUTING) == "noaux_tc",
        )
        + gated(sparse, hidden=base.hidden, width=width * card.size("n_shared_experts", 0, least=0), name="shared")
    )


def check_routing(card: Card, *, count: int) -> None:
    """Groups of experts limit which nodes a token goes to; they change neither shapes nor FLOPs."""
    groups = card.size("n_group", 1)
    card.divides("n_routed_experts", count, groups, by="n_group")
    card.size("topk_group", 1, most=groups)
    card.skip("norm_topk_prob", "routed_scaling_factor", "scoring_func", "moe_router_dtype")


def _split(card: Card, base: Frame) -> tuple[Layers, Layers]:
    """Layers with a dense feed-forward block, and those with experts."""
    first = card.size("first_k_dense_replace", 0, least=0)
    every = card.size("moe_layer_freq", 1)
    kinds = card.words("mlp_layer_types", known=("dense", "sparse"), count=len(base.layers))
    if not kinds:
        kinds = tuple("sparse" if layer >= first and layer % every == 0 else "dense" for layer in base.layers)
    dense = tuple(layer for layer in base.layers if kinds[layer] == "dense")
    return dense, tuple(layer for layer in base.layers if kinds[layer] == "sparse")
