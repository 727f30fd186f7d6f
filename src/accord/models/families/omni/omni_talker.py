"""The talkers of the omni models: from the thinker's hidden states to codec codes.

In: a `talker_config`. Out: `Talker`. Shapes follow transformers' Qwen2_5OmniTalkerForConditionalGeneration and
Qwen3OmniMoeTalkerForConditionalGeneration. Qwen3's code predictor runs within each decode step of the talker.
"""

from dataclasses import dataclass

from accord.models.card import Card
from accord.models.families.decoders.mixture import Mixture, mixture_parts
from accord.models.families.naming import expert_count
from accord.models.graphs import StageDraft
from accord.models.parts.attention import grouped
from accord.models.parts.feedforward import ACTIVATIONS, gated
from accord.models.parts.pace import idle, paced
from accord.models.parts.parts import Layers, Parts, head, linear, norm, tokens
from accord.terms.architecture import Constraint, Rule, Unit
from accord.terms.graph import Batching, Capability
from accord.terms.tensors import Part, Split, Tensor
from accord.terms.work import Lookup, Phase, Reach


@dataclass(frozen=True, slots=True, kw_only=True)
class Talker:
    """A talker that gives `groups` codes a step, and takes `width` values for each token of the thinker's."""

    parts: Parts
    card: Card
    groups: int
    width: int
    constraints: tuple[Constraint, ...] = ()


def talker_stage(talker: Talker) -> StageDraft:
    """The stage; its unit is a position, which is one codec frame once the prompt is read."""
    return StageDraft(
        name="talker",
        capabilities=(Capability.AR,),
        batching=Batching.CONTINUOUS,
        unit=Unit.TOKEN,
        parts=talker.parts,
        card=talker.card,
        constraints=talker.constraints,
    )


def qwen2_5_talker(card: Card) -> Talker:
    """A dense decoder of one codebook, behind a projection of the thinker's width."""
    hidden, width = card.size("hidden_size", 3584), card.size("embedding_size", 3584)
    layers, vocabulary = tuple(range(card.layers(default=28))), card.size("vocab_size", 8448)
    # Special tokens and the positions of clips; sliding windows are switched off in all published ones.
    card.skip("model_type", "position_id_per_seconds", "seconds_per_chunk", "spatial_merge_size", *_TOKENS)
    card.skip("sliding_window", "max_window_layers", "max_position_embeddings", "layer_types")
    if card.flag("use_sliding_window", False):
        card.wrong("use_sliding_window", problem="not supported here", fix="set it to false")
    parts = (
        tokens(vocabulary, width)
        + linear("thinker_to_talker", width, hidden, bias=True)
        + stack(card, layers, hidden=hidden, heads=(28, 4), head_dim=128, bias=True, out_bias=False, normed=False)
        + gated(layers, hidden=hidden, width=card.size("intermediate_size", 18944))
        + norm("norm", hidden)
        + head(vocabulary, hidden, name="codec_head")
    )
    return Talker(parts=parts, card=card, groups=1, width=width)


def qwen3_talker(card: Card) -> Talker:
    """A mixture of experts for the first code of a frame, a small decoder for the others."""
    card.skip(
        "model_type", "position_id_per_seconds", "spatial_merge_size", "speaker_id", "accept_hidden_layer", *_TOKENS
    )
    card.skip("output_router_logits", "seconds_per_chunk")
    groups, width = card.size("num_code_groups", 32, least=2), card.size("thinker_hidden_size", 2048)
    text = card.sub("text_config")
    hidden, inner = text.size("hidden_size", 1024), text.size("intermediate_size", 2048)
    # A position takes one of two projections: of a text token's embedding, or of what was seen or heard.
    bridge = _bridge("text_projection", width, inner, hidden) + idle(_bridge("hidden_projection", width, inner, hidden))
    predictor = card.sub("code_predictor_config")
    own = predictor.size("num_code_groups", 32, least=2)
    if own != groups:
        predictor.wrong("num_code_groups", problem=f"not the talker's {groups}", fix=f"write {groups}")
    frame = code_predictor(predictor, groups, first=text.layers(default=20))
    parts = bridge + _mixture(text, hidden) + paced(frame, groups, phase=Phase.DECODE)
    words = f"the code predictor takes {groups - 1} steps for each frame, over at most {groups} positions of its own"
    return Talker(
        parts=parts,
        card=card,
        groups=groups,
        width=width,
        constraints=(Constraint(rule=Rule.LOCKSTEP, figure=groups - 1, words=words),),
    )


def code_predictor(card: Card, groups: int, *, first: int) -> Parts:
    """One pass over the positions of a frame: the talker's hidden state, and all codes but the last.

    Each position is one application; a codebook has its own embedding and its own head, used once a frame. Its layers
    are counted from `first` on, behind the talker's.
    """
    hidden, vocabulary = card.size("hidden_size", 1024), card.size("vocab_size", 2048)
    layers = tuple(range(first, first + card.layers(default=5)))
    card.skip("model_type", "max_position_embeddings", "sliding_window", "max_window_layers")
    card.words("layer_types", known=("full_attention",))
    books = Tensor(name="predictor.embed", part=Part.EMBEDDING, rows=vocabulary, columns=hidden, copies=groups - 1)
    heads = linear("predictor.head", hidden, vocabulary, copies=groups - 1, part=Part.HEAD, quantizable=False)
    return (
        Parts(tensors=(books,), operators=(Lookup(weight=books),))
        + stack(
            card,
            layers,
            hidden=hidden,
            heads=(16, 8),
            head_dim=card.size("head_dim", 128),
            bias=card.flag("attention_bias", False),
            out_bias=card.flag("attention_bias", False),
            normed=True,
            frame=groups,
            prefix="predictor.",
        )
        + gated(layers, hidden=hidden, width=card.size("intermediate_size", 3072), name="predictor.mlp")
        + norm("predictor.norm", hidden)
        + paced(heads, 1 / groups)
    )


def stack(
    card: Card,
    layers: Layers,
    *,
    hidden: int,
    heads: tuple[int, int],
    head_dim: int,
    bias: bool,
    out_bias: bool,
    normed: bool,
    frame: int | None = None,
    prefix: str = "",
) -> Parts:
    """Norms and attention of a decoder's layers; within each frame of `frame` positions where that is given."""
    card.choice("hidden_act", ACTIVATIONS, "silu")
    count = card.size("num_attention_heads", heads[0])
    held = card.size("num_key_value_heads", heads[1])
    card.divides("num_attention_heads", count, held, by="num_key_value_heads")
    return (
        norm(f"{prefix}input_norm", hidden, layers)
        + norm(f"{prefix}post_norm", hidden, layers)
        + grouped(
            layers,
            hidden=hidden,
            heads=count,
            kv_heads=held,
            head_dim=card.size("head_dim", head_dim),
            reach=Reach.CAUSAL if frame is None else Reach.CHUNK,
            span=frame,
            bias=bias,
            out_bias=out_bias,
            qk_norm=card.size("head_dim", head_dim) if normed else 0,
            cached=frame is None,
            name=f"{prefix}attention",
        )
    )


def _mixture(card: Card, hidden: int) -> Parts:
    layers, vocabulary = tuple(range(card.layers(default=20))), card.size("vocab_size", 3072)
    # All layers are mixtures, whatever these say (transformers overrides them).
    card.skip("decoder_sparse_step", "mlp_only_layers", "norm_topk_prob", "model_type", "max_position_embeddings")
    card.skip("sliding_window")
    own = expert_count(card, "num_experts")
    count = own.size("num_experts", 128)
    mixture = Mixture(
        sparse=layers,
        count=count,
        chosen=card.size("num_experts_per_tok", 8, most=count),
        width=card.size("moe_intermediate_size", 384),
        shared=card.size("shared_expert_intermediate_size"),
        shared_gate=True,
    )
    return (
        tokens(vocabulary, hidden, name="codec_embedding")
        + stack(
            card,
            layers,
            hidden=hidden,
            heads=(16, 2),
            head_dim=card.size("head_dim", hidden // card.size("num_attention_heads", 16)),
            bias=card.flag("attention_bias", False),
            out_bias=card.flag("attention_bias", False),
            normed=True,
        )
        + mixture_parts(hidden, mixture)
        + norm("norm", hidden)
        + head(vocabulary, hidden, name="codec_head")
    )


def _bridge(name: str, width: int, inner: int, hidden: int) -> Parts:
    return linear(f"{name}.up", width, inner, split=Split.ROWS, pieces=inner, bias=True) + linear(
        f"{name}.down", inner, hidden, split=Split.COLUMNS, pieces=inner, bias=True
    )


_TOKENS = (
    "audio_end_token_id", "audio_start_token_id", "audio_token_id", "audio_token_index", "codec_bos_id",
    "codec_eos_token_id", "codec_nothink_id", "codec_pad_id", "codec_think_bos_id", "codec_think_eos_id",
    "image_token_id", "image_token_index", "tts_codec_end_token_id", "tts_codec_mask_token_id",
    "tts_codec_pad_token_id", "tts_codec_start_token_id", "tts_text_end_token_id", "tts_text_pad_token_id",
    "tts_text_start_token_id", "video_token_id", "video_token_index", "vision_end_token_id",
    "vision_start_token_id",
)  # fmt: skip
