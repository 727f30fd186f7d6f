"""MiniMax-M3: an indexer chooses blocks of keys in most layers; experts, and a vision tower in the composed release.

In: its cards, with or without the tower. Out: `Architecture` with the stage `decoder`, and `vision` before it. Shapes
follow transformers' MiniMaxM3VLForCausalLM and MiniMaxM3SparseForConditionalGeneration.
"""

from collections.abc import Mapping

from accord.models.card import Card, Json
from accord.models.families.decoders.dense import Frame, frame, lone
from accord.models.families.naming import expert_count
from accord.models.families.sight.seeing import Sight, composed
from accord.models.families.text import text_of
from accord.models.parts.attention import grouped
from accord.models.parts.feedforward import ACTIVATIONS, experts, gated
from accord.models.parts.parts import Layers, Parts, head, linear, norm, tokens
from accord.models.parts.vision import NAME, Blocks, blocks, patches, projector
from accord.terms.architecture import Architecture
from accord.terms.cache import CacheGroup, CacheKind
from accord.terms.tensors import Dtype, Split
from accord.terms.work import Attention, Reach

FAMILY = "minimax-m3"

_SPARSE = "minimax_m3_sparse"

# What a card that leaves a key out means: the defaults of transformers' MiniMaxM3VLTextConfig.
_DEFAULTS: Mapping[str, Json] = {
    "vocab_size": 200064, "hidden_size": 6144, "intermediate_size": 3072, "num_hidden_layers": 60,
    "num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 128, "max_position_embeddings": 524288,
    "num_experts_per_tok": 4, "num_local_experts": 128, "dense_intermediate_size": 12288,
    "shared_intermediate_size": 3072,
}  # fmt: skip


def build(card: Card, name: str) -> Architecture:
    """The architecture of the decoder alone, or of the composed model."""
    if card.word("model_type", "minimax_m3") == "minimax_m3_vl":
        return _composed(card, name)
    named = expert_count(card, "num_local_experts")
    own = named.given(**{key: value for key, value in _DEFAULTS.items() if not named.names(key)})
    base = frame(own)
    return lone(card, name, base=base, family=FAMILY, parts=_decoder(own, base))


def _decoder(card: Card, base: Frame) -> Parts:
    card.skip(
        "partial_rotary_factor", "qk_norm_type", "rotary_dim", "routed_scaling_factor", "scoring_func", "swiglu_alpha",
        "swiglu_limit", "use_gemma_norm", "use_routing_bias",
    )  # fmt: skip
    embedding = tokens(base.vocabulary, base.hidden)
    tied = embedding.tensors[0] if card.flag("tie_word_embeddings", False) else None
    return (
        embedding
        + norm("input_norm", base.hidden, base.layers)
        + norm("post_norm", base.hidden, base.layers)
        + _attention(card, base)
        + _feedforward(card, base)
        + norm("norm", base.hidden)
        + head(base.vocabulary, base.hidden, tied=tied)
    )


def _attention(card: Card, base: Frame) -> Parts:
    heads, kv_heads = card.size("num_attention_heads"), card.size("num_key_value_heads")
    card.divides("num_attention_heads", heads, kv_heads, by="num_key_value_heads")
    for key, wanted in (("attention_output_gate", False), ("use_qk_norm", True)):
        if card.flag(key, wanted) is not wanted:
            card.wrong(key, problem="no release has it so", fix=f"write {str(wanted).lower()}")
    head_dim = card.size("head_dim")
    below = card.sub("sparse_attention_config") if "sparse_attention_config" in card else Card({})
    sparse = _sparse_layers(card, below, base)
    chosen = _figure(card, below, "topk_blocks", 16) * _figure(card, below, "block_size", 128)
    parts = _indexer(card, below, sparse, hidden=base.hidden, kv_heads=kv_heads)
    full = tuple(layer for layer in base.layers if layer not in sparse)
    for layers, reach, span in ((full, Reach.CAUSAL, None), (sparse, Reach.CHOSEN, chosen)):
        parts += grouped(
            layers,
            hidden=base.hidden,
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            reach=reach,
            span=span,
            qk_norm=head_dim,
            name="attention" if reach is Reach.CAUSAL else "attention.sparse",
        )
    return parts


def _sparse_layers(card: Card, below: Card, base: Frame) -> Layers:
    count = len(base.layers)
    kinds = card.words("layer_types", known=("full_attention", _SPARSE), count=count)
    marks = below.sizes("sparse_attention_freq", most=1, count=count if "sparse_attention_freq" in below else None)
    silent = below.sizes("sparse_disable_index_value", most=1)
    if not below.flag("use_sparse_attention", True):
        below.wrong("use_sparse_attention", problem="no release has it so", fix="leave out sparse_attention_config")
    below.skip("sparse_score_type", "sparse_init_block", "sparse_local_block")
    card.skip("index_local_blocks")
    if not kinds:
        kinds = tuple(_SPARSE if mark else "full_attention" for mark in marks) or ("full_attention",) * count
    sparse = tuple(layer for layer in base.layers if kinds[layer] == _SPARSE)
    if silent and any(layer >= len(silent) or not silent[layer] for layer in sparse):
        fix = "write 1 for each sparse layer"
        below.wrong("sparse_disable_index_value", problem="values of an indexer aren't known here", fix=fix)
    return sparse


def _figure(card: Card, below: Card, name: str, default: int) -> int:
    """One figure of the indexer, in either spelling; the nested one goes first."""
    return below.size(_NESTED[name], card.size(f"index_{name}", default))


_NESTED: Mapping[str, str] = {
    "n_heads": "sparse_num_index_heads",
    "head_dim": "sparse_index_dim",
    "block_size": "sparse_block_size",
    "topk_blocks": "sparse_topk_blocks",
}


def _indexer(card: Card, below: Card, layers: Layers, *, hidden: int, kv_heads: int) -> Parts:
    """Small keys, of which every query scores all; one choice of blocks for each head, which goes with the KV head."""
    heads, dim = _figure(card, below, "n_heads", 4), _figure(card, below, "head_dim", 128)
    if layers and heads != kv_heads:
        card.wrong("num_key_value_heads", problem=f"the indexer has {heads} heads", fix=f"write {heads}")
    if not layers:
        return Parts()
    scores = Attention(
        name="indexer", layers=layers, heads=heads, key_heads=1, key_dim=dim, value_dim=0, reach=Reach.CAUSAL
    )
    keys = CacheGroup(name="indexer", kind=CacheKind.INDEX, layers=layers, key_dim=dim)
    return (
        linear("indexer.q", hidden, heads * dim, layers, split=Split.KV_ROWS, pieces=heads)
        + linear("indexer.k", hidden, dim, layers)
        + norm("indexer.q_norm", dim, layers)
        + norm("indexer.k_norm", dim, layers)
        + Parts(operators=(scores,), cache=(keys,))
    )


def _feedforward(card: Card, base: Frame) -> Parts:
    count, width = card.size("num_local_experts"), card.size("intermediate_size")
    if card.size("moe_intermediate_size", width) != width:
        card.wrong("moe_intermediate_size", problem=f"not intermediate_size = {width}", fix=f"write {width}")
    shared = card.size("shared_intermediate_size", least=0) * card.size("n_shared_experts", 1, least=0)
    dense, sparse = _expert_layers(card, base)
    return (
        gated(dense, hidden=base.hidden, width=card.size("dense_intermediate_size"))
        + experts(
            sparse,
            hidden=base.hidden,
            width=width,
            count=count,
            chosen=card.size("num_experts_per_tok", most=count),
            correction=True,
            router_dtype=Dtype.F32,
        )
        + gated(sparse, hidden=base.hidden, width=shared, name="shared")
    )


def _expert_layers(card: Card, base: Frame) -> tuple[Layers, Layers]:
    """Layers with a dense feed-forward block, and those with experts."""
    count = len(base.layers)
    card.skip("first_k_dense_replace")
    kinds = card.words("mlp_layer_types", known=("dense", "sparse"), count=count)
    marks = card.sizes("moe_layer_freq", most=1, count=count if "moe_layer_freq" in card else None)
    if not kinds:
        kinds = tuple("sparse" if mark else "dense" for mark in marks) or ("sparse",) * count
    dense = tuple(layer for layer in base.layers if kinds[layer] == "dense")
    return dense, tuple(layer for layer in base.layers if kinds[layer] == "sparse")


def _composed(card: Card, name: str) -> Architecture:
    card.skip(
        "image_grid_pinpoints", "image_seq_length", "image_token_index", "img_token_compression_config",
        "merged_hidden_size", "multimodal_projector_bias", "num_reward_heads", "process_image_mode",
        "projector_hidden_act", "video_token_index", "vision_feature_layer", "vision_feature_select_strategy",
    )  # fmt: skip
    below = card.sub("text_config") if "text_config" in card else Card({})
    tied = card.flag("tie_word_embeddings", False) or below.flag("tie_word_embeddings", False)
    text = text_of(below, kind="minimax_m3_vl_text", tied=tied)
    vision = card.sub("vision_config") if "vision_config" in card else Card({})
    sight = _sight(vision, width=card.size("projector_hidden_size", 6144), hidden=text.hidden)
    return composed(card, name=name, family=FAMILY, sight=sight, text=text)


def _sight(card: Card, *, width: int, hidden: int) -> Sight:
    """The tower, a projector of each patch, and one that merges a square of them."""
    card.choice("hidden_act", ACTIVATIONS, "gelu")
    card.skip(
        "image_size", "model_type", "position_embedding_type", "projection_dim", "rope_mode",
        "vision_segment_max_frames", "vocab_size",
    )  # fmt: skip
    wide, heads = card.size("hidden_size", 1280), card.size("num_attention_heads", 16)
    card.divides("hidden_size", wide, heads, by="num_attention_heads")
    merge = card.sub("img_token_compression_config") if "img_token_compression_config" in card else card
    merge.skip("image_token_compression_method")
    group = merge.size("spatial_merge_size", card.size("spatial_merge_size", 2)) ** 2
    frames = merge.size("temporal_patch_size", card.size("temporal_patch_size", 2))
    values = card.size("num_channels", 3) * frames * card.size("patch_size", 14) ** 2
    made = Blocks(
        layers=tuple(range(card.layers(default=32))),
        hidden=wide,
        heads=heads,
        width=card.size("intermediate_size", 5120),
    )
    parts = (
        patches(wide, values=values)
        + norm(f"{NAME}.norm_before", wide, bias=True)
        + blocks(made)
        + projector(wide, width, hidden, rate=1.0)
        + projector(group * hidden, width, hidden, rate=1 / group, name="merger")
    )
    return Sight(parts=parts, card=card, values=values, token_values=hidden, group=group)
