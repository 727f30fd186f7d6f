"""Kimi-K2.5, K2.6, K2.7 and K3: a vision tower in front of a decoder of another family.

In: their composed cards. Out: `Architecture` with the stages `vision` and `decoder`. K2.5's shapes follow
transformers' Kimi_K25ForConditionalGeneration; those of K3's tower and projector follow vLLM's.
"""

from accord.models.card import Card
from accord.models.families.sight.seeing import Sight, composed
from accord.models.families.text import text_of
from accord.models.parts.feedforward import ACTIVATIONS
from accord.models.parts.parts import Parts, norm
from accord.models.parts.vision import NAME, Blocks, blocks, patches, positions, projector
from accord.terms.architecture import Architecture

FAMILY = "kimi"


def build(card: Card, name: str) -> Architecture:
    """The composed model."""
    k3 = card.word("model_type", "kimi_k25") == "kimi_k3"
    card.skip(
        "ignore_index", "image_placeholder", "image_token_id", "media_placeholder_token_id", "use_unified_vision_chunk",
        "video_placeholder", "video_token_id", "vision_end_token_id", "vision_start_token_id",
        "projection_layer_norm_eps",
    )  # fmt: skip
    tied = card.flag("tie_word_embeddings", not k3)
    text = text_of(card.sub("text_config"), kind="kimi_linear" if k3 else "deepseek_v3", tied=tied)
    vision = card.sub("vision_config") if "vision_config" in card else Card({})
    return composed(card, name=name, family=FAMILY, sight=_sight(card, vision, hidden=text.hidden, k3=k3), text=text)


def _sight(root: Card, card: Card, *, hidden: int, k3: bool) -> Sight:
    card.skip("model_type", "pos_emb_interpolation_mode", "projector_ln_eps", "projector_hidden_act")
    card.choice("merge_type", ("sd2_tpool",), "sd2_tpool")
    card.choice("pos_emb_type", ("divided_fixed",), "divided_fixed")
    card.choice("video_attn_type", ("spatial_temporal",), "spatial_temporal")
    card.choice("mlp_type", ("mlp2",), "mlp2")
    for key in ("activation_func", "hidden_act"):
        card.choice(key, ACTIVATIONS, "gelu_pytorch_tanh")
    card.skip("init_pos_emb_time", "pos_emb_time", "text_hidden_size")
    made = _blocks(card, k3=k3)
    rms = card.choice("norm_type", ("layernorm", "rmsnorm"), "rmsnorm" if k3 else "layernorm") == "rmsnorm"
    attention_bias, linear_bias = card.flag("attn_bias", not k3), card.flag("linear_bias", not k3)
    values = 3 * card.size("patch_size", 14) ** 2
    rows, columns = _square(card)
    group = rows * columns
    parts = (
        patches(made.hidden, values=values, bias=card.flag("patch_embed_proj_bias", not k3))
        + positions(_either(card, "pos_emb_height", 64) * _either(card, "pos_emb_width", 64), made.hidden)
        + blocks(made, qkv_bias=attention_bias, out_bias=attention_bias, mlp_bias=linear_bias, norm_bias=not rms)
        + norm(f"{NAME}.norm_after", made.hidden, bias=not rms)
        + _projector(root, card, made, group=group, hidden=hidden, k3=k3)
    )
    return Sight(parts=parts, card=card, values=values, token_values=hidden, group=group)


def _blocks(card: Card, *, k3: bool) -> Blocks:
    wide = _named(card, "hidden_size", 1024 if k3 else 1152)
    heads = _named(card, "num_attention_heads", 12 if k3 else 16)
    inner = card.size("qkv_hidden_size", 1536 if k3 else wide)
    if inner % heads:
        key = "vt_num_attention_heads" if "vt_num_attention_heads" in card else "num_attention_heads"
        card.wrong(key, problem=f"doesn't divide the width {inner}", fix=f"write a divisor of {inner}")
    return Blocks(
        layers=tuple(range(_named(card, "num_hidden_layers", 27))),
        hidden=wide,
        heads=heads,
        width=_named(card, "intermediate_size", 4096 if k3 else 4304),
        head_dim=inner // heads,
    )


def _projector(root: Card, card: Card, made: Blocks, *, group: int, hidden: int, k3: bool) -> Parts:
    """A square of patches becomes one token; K2.5 normalises before, K3 after."""
    kind = card.choice("mm_projector_type", ("patchmerger", "patchmergerv2"), "patchmergerv2" if k3 else "patchmerger")
    wide = made.hidden * group
    if card.size("mm_hidden_size", made.hidden) != made.hidden:
        card.wrong("mm_hidden_size", problem=f"the tower gives {made.hidden}", fix=f"write {made.hidden}")
    if root.size("projection_hidden_size", made.hidden) != made.hidden:
        root.wrong("projection_hidden_size", problem=f"the tower gives {made.hidden}", fix=f"write {made.hidden}")
    if kind == "patchmerger":
        return projector(wide, wide, hidden, rate=1 / group, normed=made.hidden)
    return projector(wide, wide, hidden, rate=1 / group, bias=False) + norm(f"{NAME}.projector.norm_after", hidden)


def _square(card: Card) -> tuple[int, int]:
    if "merge_kernel_size" not in card:
        return 2, 2
    rows, columns = card.sizes("merge_kernel_size", least=1, count=2)
    return rows, columns


def _named(card: Card, key: str, default: int) -> int:
    """A figure under Moonshot's name or under transformers'; depth has the bound of layers."""
    most = {"most": 4096} if key == "num_hidden_layers" else {}
    return card.size(f"vt_{key}", card.size(key, default, **most), **most)


def _either(card: Card, key: str, default: int) -> int:
    return card.size(f"init_{key}", card.size(key, default))
