"""MiniMax-Text-01 and MiniMax-M1: lightning attention in seven of eight layers, softmax attention in the rest.

In: their cards. Out: `Architecture` with one stage. Shapes follow transformers' MiniMaxForCausalLM.
"""

from accord.models.card import Card
from accord.models.families.decoders.dense import Frame, decoder, frame, lone
from accord.models.families.decoders.hybrids import FULL, RECURRENT, mixers, plain_attention
from accord.models.families.decoders.mixture import Mixture, mixture_parts
from accord.models.families.naming import expert_count
from accord.models.parts.parts import Layers
from accord.models.parts.recurrent import lightning
from accord.terms.architecture import Architecture

FAMILY = "minimax-text"


def build(card: Card, name: str) -> Architecture:
    """The architecture of one decoder."""
    base = frame(card)
    recurrent, full = _layers(card, base)
    heads = card.size("num_attention_heads", 32)
    own = expert_count(card, "num_local_experts").given(
        num_attention_heads=heads, num_key_value_heads=card.size("num_key_value_heads", 8)
    )
    if "head_dim" not in card:
        card.divides("hidden_size", base.hidden, heads, by="num_attention_heads")
    head_dim = card.size("head_dim", base.hidden // heads)
    mixing = lightning(
        recurrent, hidden=base.hidden, heads=heads, head_dim=head_dim, chunk=card.size("block_size", 256)
    ) + plain_attention(own, full, hidden=base.hidden, head_dim=head_dim)
    count = own.size("num_local_experts", 8)
    mixture = Mixture(
        sparse=base.layers,
        count=count,
        chosen=card.size("num_experts_per_tok", 2, most=count),
        width=card.size("intermediate_size"),
    )
    _skip(card)
    return lone(
        card, name, base=base, family=FAMILY, parts=decoder(card, base, mixing, mixture_parts(base.hidden, mixture))
    )


def _layers(card: Card, base: Frame) -> tuple[Layers, Layers]:
    """As `layer_types` or the original card's `attn_type_list` (1: softmax attention) says; else every second."""
    default = tuple(RECURRENT if layer % 2 else FULL for layer in base.layers)
    if "attn_type_list" in card:
        kinds = card.sizes("attn_type_list", most=1, count=len(base.layers))
        default = tuple(FULL if kind else RECURRENT for kind in kinds)
    return mixers(card, base, default=default)


def _skip(card: Card) -> None:
    """Factors of the residual branches, and what the original card repeats."""
    if card.raw("shared_intermediate_size") not in (None, 0, [0]):
        card.wrong("shared_intermediate_size", problem="these models have no shared expert", fix="write 0")
    card.skip("rotary_dim", "postnorm", "shared_moe_mode", "sliding_window")
    for branch in ("full_attn", "linear_attn", "mlp"):
        card.skip(f"{branch}_alpha_factor", f"{branch}_beta_factor")
    for branch in ("full_attention", "linear_attention", "mlp"):
        card.skip(f"layernorm_{branch}_alpha", f"layernorm_{branch}_beta")
