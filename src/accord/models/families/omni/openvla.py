"""OpenVLA: two vision towers, a projector, and a Llama 2 that writes an action as tokens.

In: its card. Out: `Architecture` with the stages `vision` and `action`. Shapes follow arXiv 2406.09246 and the model's
own code; the card only names its parts, so their figures stand here. Both towers read the same picture.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from accord.models.card import Card, Json
from accord.models.families.sight.seeing import Sight, vision_edges, vision_stage
from accord.models.families.text import Text, text_of
from accord.models.graphs import EdgeDraft, StageDraft, architecture, text_in
from accord.models.parts.pace import idle, renamed
from accord.models.parts.parts import NOTHING, Parts, norm, vector
from accord.models.parts.vision import NAME, Blocks, blocks, patches, pooling, positions, projector
from accord.terms.architecture import Architecture, Constraint, Rule, Unit
from accord.terms.graph import DOOR, Batching, Capability, Payload

FAMILY = "openvla"
JOINTS = 7  # three of position, three of rotation, one of the gripper


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tower:
    """One of timm's towers. `registers`: positions that aren't patches. `scales`, `pools`: DINOv2's, SigLIP's."""

    layers: int
    hidden: int
    heads: int
    width: int
    registers: int = 0
    scales: int = 0
    pools: bool = False


# Model pages and sources of timm, both with patches of 14 pixels.
_TOWERS: Mapping[str, _Tower] = {
    "vit_large_patch14_reg4_dinov2.lvd142m": _Tower(
        layers=24, hidden=1024, heads=16, width=4096, registers=4, scales=2
    ),
    "vit_so400m_patch14_siglip_224": _Tower(layers=27, hidden=1152, heads=16, width=4304, pools=True),
}
_PATCH = 14
_FUSED = ("vit_large_patch14_reg4_dinov2.lvd142m", "vit_so400m_patch14_siglip_224")

# What meta-llama/Llama-2-7b-hf says where the nested mapping is silent.
_LLAMA2: Mapping[str, Json] = {
    "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 32, "vocab_size": 32064, "max_position_embeddings": 4096,
}  # fmt: skip


def build(card: Card, name: str) -> Architecture:
    """The architecture of an OpenVLA."""
    card.skip("norm_stats", "output_projector_states", "image_resize_strategy", "image_sizes", "llm_max_length")
    card.skip("timm_override_act_layers", "use_fused_vision_backbone", "pad_to_multiple_of", "n_action_bins")
    card.choice("vision_backbone_id", ("dinosiglip-vit-so-224px",), "dinosiglip-vit-so-224px")
    card.choice("llm_backbone_id", ("llama2-7b-pure",), "llama2-7b-pure")
    card.choice("hf_llm_id", ("meta-llama/Llama-2-7b-hf",), "meta-llama/Llama-2-7b-hf")
    card.choice("arch_specifier", ("no-align+fused-gelu-mlp",), "no-align+fused-gelu-mlp")
    named = card.words("timm_model_ids", known=tuple(_TOWERS)) or _FUSED
    below = card.sub("text_config")
    text = text_of(below.given(**{key: size for key, size in _LLAMA2.items() if key not in below}), kind="llama")
    sight = _sight(card, named, text.hidden)
    return architecture(
        card,
        name=name,
        family=FAMILY,
        stages=(vision_stage(sight), _action_stage(text)),
        edges=(
            *vision_edges(sight, target="action"),
            text_in("action"),
            EdgeDraft(source="action", target=DOOR, payload=Payload.ACTIONS, unit=Unit.ACTION, unit_bytes=4 * JOINTS),
        ),
        context_max=text.context_max,
        remarks=("the towers' last blocks run as in timm, though only the outputs of those before them are used",),
    )


def _action_stage(text: Text) -> StageDraft:
    words = f"an answer is one action: {JOINTS} tokens, each one of 256 bins"
    return StageDraft(
        name="action",
        capabilities=(Capability.AR, Capability.ACT),
        batching=Batching.CONTINUOUS,
        unit=Unit.TOKEN,
        parts=text.parts,
        card=text.card,
        constraints=(Constraint(rule=Rule.ANSWER, figure=JOINTS, words=words),),
        example_units=286,  # 256 patches, and some 30 tokens of prompt
    )


def _sight(card: Card, named: tuple[str, ...], out: int) -> Sight:
    picture = (224 // _PATCH) ** 2
    parts, wide = NOTHING, 0
    for index, name in enumerate(named):
        tower = _TOWERS[name]
        parts += renamed(_tower(tower, picture), NAME, f"{NAME}.{index}")
        wide += tower.hidden
    parts += projector(wide, 4 * wide, out, out, rate=1.0)
    values = 3 * _PATCH**2 * len(named)
    return Sight(parts=parts, card=card, values=values, token_values=out, picture=picture, tokens=picture)


def _tower(tower: _Tower, picture: int) -> Parts:
    extra = tower.registers + 1 if tower.registers else 0
    figures = Blocks(
        layers=tuple(range(tower.layers)),
        hidden=tower.hidden,
        heads=tower.heads,
        width=tower.width,
        picture=picture,
        extra=extra,
    )
    parts = patches(tower.hidden, values=3 * _PATCH**2, bias=True) + positions(picture, tower.hidden)
    if extra:
        parts += vector(f"{NAME}.class", tower.hidden) + vector(f"{NAME}.registers", tower.registers * tower.hidden)
    parts += blocks(figures, scales=tower.scales) + norm(f"{NAME}.norm_after", tower.hidden, bias=True)
    return parts + idle(pooling(figures)) if tower.pools else parts
