"""Mamba-2 and attention, layer by layer (Bamba, Granite 4) or side by side in each layer (Falcon-H1).

In: their cards. Out: `Architecture` with one stage. Shapes follow transformers' BambaForCausalLM,
GraniteMoeHybridForCausalLM and FalconH1ForCausalLM, whose cards have the same words for Mamba-2.
"""

from accord.models.card import Card
from accord.models.families.decoders.dense import Frame, decoder, frame, lone
from accord.models.families.decoders.hybrids import of_kind, plain_attention
from accord.models.parts.feedforward import experts, gated
from accord.models.parts.parts import Layers, Parts
from accord.models.parts.recurrent import mamba2
from accord.terms.architecture import Architecture

FAMILY = "mamba2-hybrid"

_KINDS = ("mamba", "attention", "linear_attention", "full_attention")


def build(card: Card, name: str) -> Architecture:
    """The architecture of one decoder."""
    kind = card.word("model_type", "bamba")
    base = frame(card)
    recurrent, full = _layers(card, base, kind)
    bias = card.flag("attention_bias", False)
    own = card if kind == "granitemoehybrid" else _with_kv_heads(card)
    mixing = _mamba(card, recurrent, hidden=base.hidden, kind=kind)
    mixing += plain_attention(own, full, hidden=base.hidden, head_dim=card.maybe("head_dim"), bias=bias)
    _skip(card)
    return lone(card, name, base=base, family=FAMILY, parts=decoder(card, base, mixing, _feedforward(card, base, kind)))


def _with_kv_heads(card: Card) -> Card:
    """Eight, unless the card says so; null means as many as heads."""
    return card if card.names("num_key_value_heads") else card.given(num_key_value_heads=8)


def _layers(card: Card, base: Frame, kind: str) -> tuple[Layers, Layers]:
    """Layers with Mamba-2, and layers with attention."""
    if kind == "falcon_h1":
        card.skip("layer_types", "attn_layer_indices")
        return base.layers, base.layers
    if kind == "granitemoehybrid":
        words = ("linear_attention",) * len(base.layers)
        for key in ("layer_types", "layers_block_type"):
            words = card.words(key, known=_KINDS, count=len(base.layers)) if key in card else words
        recurrent = (*of_kind(base.layers, words, "mamba"), *of_kind(base.layers, words, "linear_attention"))
        return tuple(sorted(recurrent)), tuple(layer for layer in base.layers if layer not in recurrent)
    full = card.sizes("attn_layer_indices", most=len(base.layers) - 1)
    return tuple(layer for layer in base.layers if layer not in full), tuple(sorted(set(full)))


def _mamba(card: Card, layers: Layers, *, hidden: int, kind: str) -> Parts:
    width = hidden * card.size("mamba_expand", 2)
    if kind == "falcon_h1":
        width = card.size("mamba_d_ssm", width if card.names("mamba_d_ssm") else 1024)
    heads, groups = card.size("mamba_n_heads", 128), card.size("mamba_n_groups", 1)
    if width % heads:
        card.wrong("mamba_n_heads", problem=f"doesn't divide the {width} channels", fix=f"write a divisor of {width}")
    card.divides("mamba_n_heads", heads, groups, by="mamba_n_groups")
    head_dim = width // heads
    if card.raw("mamba_d_head") not in (None, "auto", head_dim):
        card.wrong("mamba_d_head", problem=f"{width} channels of {heads} heads", fix=f"write {head_dim}")
    return mamba2(
        layers,
        hidden=hidden,
        heads=heads,
        head_dim=head_dim,
        groups=groups,
        state=card.size("mamba_d_state", 256),
        kernel=card.size("mamba_d_conv", 4),
        chunk=card.size("mamba_chunk_size", 256),
        bias=card.flag("mamba_proj_bias", False),
        conv_bias=card.flag("mamba_conv_bias", True),
        out_bias=card.flag("projectors_bias", False) if kind == "falcon_h1" else None,
        gated_norm=card.flag("mamba_rms_norm", False) if kind == "falcon_h1" else True,
    )


def _feedforward(card: Card, base: Frame, kind: str) -> Parts:
    """A gated block; Granite's stands beside its experts and has a width of its own."""
    if kind != "granitemoehybrid":
        width = card.size("intermediate_size")
        return gated(base.layers, hidden=base.hidden, width=width, bias=card.flag("mlp_bias", False))
    count = card.size("num_local_experts", 8, least=0)
    chosen = card.size("num_experts_per_tok", 2, least=0, most=max(count, 2))
    made = gated(base.layers, hidden=base.hidden, width=card.size("shared_intermediate_size", 1024), name="shared")
    width = card.size("intermediate_size") if count else 0
    card.skip("intermediate_size")
    return made + experts(base.layers, hidden=base.hidden, width=width, count=count, chosen=chosen)


def _skip(card: Card) -> None:
    """Factors, norms' order, sampling and training."""
    card.skip(
        "attention_in_multiplier", "attention_multiplier", "attention_out_multiplier", "embedding_multiplier",
        "key_multiplier", "lm_head_multiplier", "logits_scaling", "mamba_norm_before_gate", "mamba_use_mlp",
        "mlp_expansion_factor", "mlp_multipliers", "num_logits_to_keep", "partial_rotary_factor",
        "mamba_dt_rank", "position_embedding_type",
        "residual_multiplier", "ssm_in_multiplier", "ssm_multipliers", "ssm_out_multiplier",
        "time_step_limit", "time_step_floor", "time_step_max", "time_step_min", "use_mamba_kernels",
        "z_loss_coefficient", "attn_rotary_emb", "rope_type", "normalization_function", "init_method",
    )  # fmt: skip
