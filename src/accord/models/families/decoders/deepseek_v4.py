"""DeepSeek-V4: attention over a window and compressed entries, hyper-connections, experts routed by hash at first.

In: its cards, in either spelling. Out: `Architecture` with one stage. Shapes follow transformers'
DeepseekV4ForCausalLM.
"""

from collections.abc import Mapping

from accord.models.card import Card, Json
from accord.models.families.decoders.dense import Frame, frame, lone
from accord.models.families.naming import expert_count, one_name
from accord.models.parts.compressed import (
    Compression,
    Shared,
    compressed,
    compressed_indexer,
    hyper_connection,
    hyper_head,
    windowed,
)
from accord.models.parts.feedforward import experts, gated
from accord.models.parts.parts import Layers, Parts, head, norm, tokens, vector
from accord.terms.architecture import Architecture
from accord.terms.tensors import Dtype, Part, Tensor
from accord.terms.work import Lookup

FAMILY = "deepseek-v4"

_SLIDING = "sliding_attention"
_SPARSE = "compressed_sparse_attention"
_HEAVY = "heavily_compressed_attention"
_KINDS: Mapping[int, str] = {0: _SLIDING, 4: _SPARSE, 128: _HEAVY}

# What a card that leaves a key out means: the defaults of transformers' DeepseekV4Config.
_DEFAULTS: Mapping[str, Json] = {
    "vocab_size": 129280, "hidden_size": 4096, "moe_intermediate_size": 2048, "num_hidden_layers": 43,
    "num_attention_heads": 64, "num_key_value_heads": 1, "head_dim": 512, "q_lora_rank": 1024,
    "num_experts_per_tok": 6, "n_routed_experts": 256, "n_shared_experts": 1, "max_position_embeddings": 1048576,
    "hc_mult": 4, "sliding_window": 128, "o_groups": 8, "o_lora_rank": 1024, "index_n_heads": 64,
    "index_head_dim": 128, "index_topk": 512, "num_hash_layers": 3,
}  # fmt: skip


def build(card: Card, name: str) -> Architecture:
    """The architecture of a DeepSeek-V4."""
    if "text_config" in card:  # as DeepSeek-V4.1's cards have it; read as V4, all its sizes would be V4's defaults
        problem = "DeepSeek-V4.1's tables of n-grams (Engram) and its vision tower aren't known here"
        card.wrong("text_config", problem=problem, fix="read the inner mapping alone for the rest of the decoder")
    named = one_name(expert_count(card, "n_routed_experts"), {"intermediate_size": "moe_intermediate_size"})
    own = named.given(**{key: value for key, value in _DEFAULTS.items() if not named.names(key)})
    base = frame(own)
    own.skip(
        "compress_rope_theta", "hc_eps", "hc_sinkhorn_iters", "norm_topk_prob", "partial_rotary_factor",
        "qk_rope_head_dim", "routed_scaling_factor", "scoring_func", "swiglu_limit",
    )  # fmt: skip
    return lone(card, name, base=base, family=FAMILY, parts=_decoder(own, base))


def _decoder(card: Card, base: Frame) -> Parts:
    streams = card.size("hc_mult")
    embedding = tokens(base.vocabulary, base.hidden)
    tied = embedding.tensors[0] if card.flag("tie_word_embeddings", False) else None
    return (
        embedding
        + hyper_connection(base.layers, hidden=base.hidden, streams=streams, name="attention.hyper")
        + norm("input_norm", base.hidden, base.layers)
        + _attention(card, base)
        + hyper_connection(base.layers, hidden=base.hidden, streams=streams, name="experts.hyper")
        + norm("post_norm", base.hidden, base.layers)
        + _feedforward(card, base)
        + hyper_head(hidden=base.hidden, streams=streams)
        + norm("norm", base.hidden)
        + head(base.vocabulary, base.hidden, tied=tied)
    )


def _attention(card: Card, base: Frame) -> Parts:
    shape = _shape(card, base)
    sparse, heavy = _compressions(card)
    kinds = _layer_kinds(card, base)
    dense = tuple(layer for layer in base.layers if kinds[layer] == _HEAVY)
    indexed = tuple(layer for layer in base.layers if kinds[layer] == _SPARSE)
    indices = compressed_indexer(
        indexed, shape, sparse, heads=card.size("index_n_heads"), dim=card.size("index_head_dim")
    )
    return windowed(base.layers, shape) + indices + compressed(indexed, shape, sparse) + compressed(dense, shape, heavy)


def _shape(card: Card, base: Frame) -> Shared:
    if card.size("num_key_value_heads") != 1:
        card.wrong("num_key_value_heads", problem="keys and values are one head here", fix="write 1")
    if card.flag("attention_bias", False):
        card.wrong("attention_bias", problem="no biases are known here", fix="write false")
    heads, groups = card.size("num_attention_heads"), card.size("o_groups")
    card.divides("num_attention_heads", heads, groups, by="o_groups")
    return Shared(
        hidden=base.hidden,
        heads=heads,
        dim=card.size("head_dim"),
        query_rank=card.size("q_lora_rank"),
        groups=groups,
        output_rank=card.size("o_lora_rank"),
        window=card.size("sliding_window"),
    )


def _compressions(card: Card) -> tuple[Compression, Compression]:
    """How sparse and how heavily compressed layers make their entries."""
    rates = card.sub("compress_rates") if "compress_rates" in card else card.given()
    sparse = card.size("compress_rate_csa", rates.size(_SPARSE, 4))
    heavy = card.size("compress_rate_hca", rates.size(_HEAVY, 128))
    return (
        Compression(name="sparse", ratio=sparse, overlap=True, chosen=card.size("index_topk")),
        Compression(name="heavy", ratio=heavy, overlap=False),
    )


def _layer_kinds(card: Card, base: Frame) -> tuple[str, ...]:
    """`layer_types`, or `compress_ratios` (which go on to the extra layers), or heavy and sparse in turn."""
    count = len(base.layers)
    kinds = card.words("layer_types", known=tuple(_KINDS.values()), count=count)
    ratios = card.sizes("compress_ratios")
    if not set(ratios) <= set(_KINDS):
        card.wrong("compress_ratios", problem="a ratio that no layer has", fix="write 0, 4 or 128 for each layer")
    if ratios and len(ratios) < count:
        card.wrong("compress_ratios", problem=f"{len(ratios)} items", fix=f"write at least {count}, one a layer")
    if kinds:
        return kinds
    if ratios:
        return tuple(_KINDS[ratio] for ratio in ratios[:count])
    return tuple(_SPARSE if layer >= 2 and layer % 2 else _HEAVY for layer in base.layers)


def _feedforward(card: Card, base: Frame) -> Parts:
    """Experts in all layers; in the first ones a table by token id chooses them."""
    hashed, scored = _routing(card, base)
    count, chosen = card.size("n_routed_experts"), card.size("num_experts_per_tok")
    if chosen > count:
        card.wrong("num_experts_per_tok", problem=f"more than n_routed_experts = {count}", fix=f"write {count} at most")
    width = card.size("moe_intermediate_size")
    shared = width * card.size("n_shared_experts", least=0)
    # Ids of experts, in four bytes each.
    ids = Tensor(
        name="experts.hash",
        part=Part.ROUTER,
        rows=base.vocabulary,
        columns=chosen,
        layers=hashed,
        buffer=True,
        dtype=Dtype.F32,
    )
    table = Parts(tensors=(ids,), operators=(Lookup(weight=ids),)) if hashed else Parts()
    corrected = card.choice("topk_method", ("noaux_tc",), "noaux_tc") == "noaux_tc" and scored
    correction = vector("experts.correction", count, scored, part=Part.ROUTER, dtype=Dtype.F32, buffer=True)
    return (
        table
        + (correction if corrected else Parts())
        + experts(base.layers, hidden=base.hidden, width=width, count=count, chosen=chosen)
        + gated(base.layers, hidden=base.hidden, width=shared, bias=card.flag("mlp_bias", False), name="shared")
    )


def _routing(card: Card, base: Frame) -> tuple[Layers, Layers]:
    """Layers routed by hash, and those routed by score."""
    first = card.size("num_hash_layers", least=0)
    kinds = card.words("mlp_layer_types", known=("hash_moe", "moe"), count=len(base.layers))
    if not kinds:
        kinds = tuple("hash_moe" if layer < first else "moe" for layer in base.layers)
    hashed = tuple(layer for layer in base.layers if kinds[layer] == "hash_moe")
    return hashed, tuple(layer for layer in base.layers if kinds[layer] == "moe")
