"""Step-3.5 and 3.7 Flash: full layers and window layers with more heads, a gate for each head, experts; pictures.

In: a card of `step3p5` (text), or of `step3p7` (with `text_config` and `vision_config`, or flat and then text alone).
Out: `Architecture`. Shapes and defaults follow transformers' Step3p7ForConditionalGeneration; keys go by the names of
the published cards, too.
"""

from accord.models.card import SIZE_MAX, Card
from accord.models.families.decoders.dense import Frame, decoder, frame, lone, with_defaults
from accord.models.families.decoders.mixture import Mixture, mixture_parts
from accord.models.families.decoders.windows import Span, attention_name, by_kind
from accord.models.families.sight.seeing import Sight, composed
from accord.models.families.text import text_of, tying
from accord.models.parts.attention import grouped
from accord.models.parts.feedforward import ACTIVATIONS
from accord.models.parts.parts import NOTHING, Layers, Parts, convolution, linear, norm
from accord.models.parts.vision import NAME, Blocks, blocks, patches, positions
from accord.terms.architecture import Architecture
from accord.terms.work import Reach

FAMILY = "step"

_KINDS = ("full_attention", "sliding_attention")
_NESTED = {
    "hidden_size": 4096,
    "intermediate_size": 11264,
    "num_hidden_layers": 45,
    "num_attention_heads": 64,
    "vocab_size": 128815,
    "max_position_embeddings": 128000,
}
_STRIDES = 4  # two convolutions of stride 2, each of which doubles the channels


def build(card: Card, name: str) -> Architecture:
    """The architecture of Step Flash, with its vision tower where the card has one."""
    if "text_config" not in card:
        if "vision_config" in card:
            card.wrong("vision_config", problem="pictures without `text_config`", fix="add `text_config`")
        return _text(card, name)
    card.skip(
        "image_token_id", "image_token_len", "patch_token_len", "im_start_token", "im_end_token", "im_patch_token"
    )
    below = card.sub("text_config")
    text = text_of(below.given(model_type="step3p5"), tied=tying(card, below, default=False))
    sight = _sight(card, card.sub("vision_config"), text.hidden)
    remark = "a picture is one view; its crops come on top"
    return composed(card, name=name, family=FAMILY, sight=sight, text=text, remarks=(remark,))


def _text(card: Card, name: str) -> Architecture:
    card.skip(
        "partial_rotary_factors", "rope_theta", "use_rope_layers", "yarn_only_types", "swiglu_limits",
        "swiglu_limits_shared", "query_pre_attn_scalar", "max_seq_len", "norm_expert_weight", "need_fp32_gate",
        "moe_router_scaling_factor", "use_qk_norm", "zero_centered", "use_moe", "moe_every_n_layer", "moe_layer_offset",
        "mtp_layer_types", "mtp_mlp_layer_types", "att_impl_type", "use_mfa", "sink",
    )  # fmt: skip
    full = with_defaults(card, _NESTED)
    base = frame(full)
    attention = NOTHING
    for span in _spans(full, base.layers):
        attention += _attention(full, base, span)
    parts = decoder(full, base, attention, mixture_parts(base.hidden, _mixture(full, base)))
    return lone(full, name, base=base, family=FAMILY, parts=parts)


def _attention(card: Card, base: Frame, span: Span) -> Parts:
    heads = card.size("num_attention_heads")
    kv_heads = _named(card, ("num_key_value_heads", "num_attention_groups"), 8)
    if span.reach is Reach.WINDOW:
        other = card.sub("attention_other_setting") if "attention_other_setting" in card else None
        if other is not None:
            other.skip("attention_type", "head_dim", "true_head_dim", "num_attention_groups")
            heads = other.size("num_attention_heads", heads)
        heads = card.size("num_sliding_attention_heads", heads)
    card.skip("num_sliding_attention_heads", "attention_other_setting")
    card.divides("num_attention_heads", heads, kv_heads, by="num_key_value_heads")
    bias = card.flag("attention_bias", False)
    head_dim = card.size("head_dim", 128)
    return grouped(
        span.layers,
        hidden=base.hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        reach=span.reach,
        span=span.size,
        bias=bias,
        out_bias=bias,
        qk_norm=head_dim,
        head_gate=card.flag("use_head_wise_attn_gate", True),
        name=attention_name(span),
    )


def _spans(card: Card, layers: Layers) -> tuple[Span, ...]:
    """Published lists go on over the multi-token-prediction layers; what is beyond the layers is left out."""
    kinds = card.words("layer_types", known=_KINDS)[: len(layers)] or ("full_attention",) * len(layers)
    if len(kinds) < len(layers):
        card.wrong("layer_types", problem=f"{len(kinds)} items for {len(layers)} layers", fix="one for each layer")
    window = card.maybe("sliding_window")
    if window is None and "sliding_attention" in kinds:
        card.wrong("sliding_window", problem="no window, but `layer_types` has sliding layers", fix="write its size")
    return by_kind(layers, kinds, window=window)


def _mixture(card: Card, base: Frame) -> Mixture:
    for key in ("scoring_func", "moe_router_activation"):
        card.choice(key, ("sigmoid",), "sigmoid")
    sparse = _sparse(card, base.layers)
    shared = card.size("n_shared_experts", 1, least=0, most=1)
    count = _named(card, ("n_routed_experts", "moe_num_experts", "num_experts", "num_local_experts"), 288)
    return Mixture(
        sparse=sparse,
        count=count,
        chosen=_named(card, ("num_experts_per_tok", "moe_top_k"), 8, most=count),
        width=card.size("moe_intermediate_size", 1280),
        dense=tuple(layer for layer in base.layers if layer not in sparse),
        dense_width=card.size("intermediate_size"),
        shared=shared * _named(card, ("share_expert_dim", "share_expert_dims"), 1280),
        correction=card.flag("use_moe_router_bias", True),
    )


def _sparse(card: Card, layers: Layers) -> Layers:
    """Layers with experts: named one by one, else all but the first ones."""
    first = card.size("first_k_dense_replace", 3, least=0)
    kinds = card.words("mlp_layer_types", known=("dense", "sparse"))
    if kinds:
        return tuple(layer for layer, kind in zip(layers, kinds, strict=False) if kind == "sparse")
    if "moe_layers_enum" not in card:
        return layers[first:]
    listed = card.raw("moe_layers_enum")
    if not isinstance(listed, str):
        return tuple(layer for layer in layers if layer in card.sizes("moe_layers_enum"))
    words = [word.strip() for word in listed.split(",") if word.strip()]
    if not all(word.isdecimal() for word in words):
        card.wrong("moe_layers_enum", problem="not a list of layers", fix='write layers with commas, like "3,4,5"')
    return tuple(layer for layer in layers if layer in {int(word) for word in words})


def _sight(card: Card, vision: Card, hidden: int) -> Sight:
    vision.choice("hidden_act", ACTIVATIONS, "quick_gelu")
    vision.skip(
        "model_type", "layer_norm_eps", "intermediate_size", "max_position_embeddings", "ls_init_value",
        "layer_scale_init_value", "output_dim", "pool_type", "use_cls_token", "use_rope2d", "use_abs_posemb",
        "use_ln_pre", "use_ln_post",
    )  # fmt: skip
    image, patch = vision.size("image_size", 728), vision.size("patch_size", 14)
    vision.divides("image_size", image, patch * _STRIDES, by=f"patch_size * {_STRIDES}")
    values = vision.size("num_channels", 3) * patch * patch
    wide = _named(vision, ("width", "hidden_size"), 1536)
    picture = (image // patch) ** 2
    figures = Blocks(
        layers=tuple(range(_named(vision, ("layers", "num_hidden_layers"), 47))),
        hidden=wide,
        heads=_named(vision, ("heads", "num_attention_heads"), 16),
        width=int(wide * vision.number("mlp_ratio", 8960 / 1536)),
        picture=picture,
    )
    vision.divides("width", wide, figures.heads, by="heads")
    bias = card.flag("projector_bias", False)
    parts = (
        patches(wide, values=values)
        + positions(picture, wide)
        + norm(f"{NAME}.norm_before", wide, bias=True)
        + blocks(figures, scales=2)
        + convolution(f"{NAME}.downsample1", wide, 2 * wide, kernel=9, rate=1 / 4)
        + convolution(f"{NAME}.downsample2", 2 * wide, 4 * wide, kernel=9, rate=1 / 16)
        + linear(f"{NAME}.projector", 4 * wide, hidden, rate=1 / 16, bias=bias, quantizable=False)
    )
    return Sight(
        parts=parts, card=vision, values=values, token_values=hidden, picture=picture, tokens=picture // _STRIDES**2
    )


def _named(card: Card, keys: tuple[str, ...], default: int, *, most: int = SIZE_MAX) -> int:
    """A size under whichever of these names the card has it."""
    card.skip(*keys)
    for key in keys:
        if key in card:
            return card.size(key, most=most)
    return default
