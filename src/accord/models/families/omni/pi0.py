"""pi0: pictures and words become a prefix of keys and values; an action expert denoises actions against it.

In: its card (transformers' form). Out: `Architecture` with the stages `vision`, `prefix` and `action`. Shapes follow
transformers' PI0ForConditionalGeneration (arXiv 2410.24164). One unit of `action` is one action of the chunk.
"""

from collections.abc import Mapping
from dataclasses import replace

from accord.models.card import Card, Json
from accord.models.families.sight.seeing import Sight, vision_edges, vision_stage
from accord.models.families.sight.towers import tower_of
from accord.models.families.text import Text, text_of
from accord.models.graphs import EdgeDraft, StageDraft, architecture, text_in
from accord.models.parts.pace import all_see_all, paced
from accord.models.parts.parts import Parts, linear
from accord.models.parts.vision import projector
from accord.terms.architecture import Architecture, Constraint, Rule, Unit
from accord.terms.cache import CacheGroup
from accord.terms.graph import DOOR, Batching, Capability, Payload
from accord.terms.work import Lookup, Per

FAMILY = "pi0"

# transformers' defaults where a card leaves a whole mapping out: PaliGemma 3B, and a Gemma of 300 million.
_VLM: Mapping[str, Json] = {
    "text_config": {"hidden_size": 2048, "num_hidden_layers": 18, "intermediate_size": 16384, "num_attention_heads": 8,
                    "num_key_value_heads": 1, "head_dim": 256, "vocab_size": 257152},
    "vision_config": {"hidden_size": 1152, "num_hidden_layers": 27, "intermediate_size": 4304, "patch_size": 14,
                      "image_size": 224, "num_attention_heads": 16, "vision_use_head": False},
    "projection_dim": 2048,
}  # fmt: skip
_EXPERT: Mapping[str, Json] = {
    "hidden_size": 1024, "num_hidden_layers": 18, "intermediate_size": 4096, "num_attention_heads": 8,
    "num_key_value_heads": 1, "head_dim": 256,
}  # fmt: skip

# How time is drawn in training, and the sines that it is written in.
_TIME = (
    "loss_reduction", "max_period", "min_period", "time_sampling_beta_alpha", "time_sampling_beta_beta",
    "time_sampling_offset", "time_sampling_scale",
)  # fmt: skip


def build(card: Card, name: str) -> Architecture:
    """The architecture of a pi0."""
    card.skip("tie_word_embeddings", *_TIME)
    full = card.given(
        vlm_config=card.raw("vlm_config") or dict(_VLM), dit_config=card.raw("dit_config") or dict(_EXPERT)
    )
    vlm = full.sub("vlm_config")
    vlm.skip("model_type", "image_token_id", "image_token_index", "vocab_size", "hidden_size", "tie_word_embeddings")
    vlm.sub("text_config").skip("num_image_tokens")
    below = vlm.sub("text_config").given(use_bidirectional_attention=False)
    prefix = text_of(below, kind="gemma", tied=True)
    sight = _sight(vlm, prefix)
    full.sub("dit_config").skip("is_causal")
    expert = full.sub("dit_config").given(use_bidirectional_attention=False, vocab_size=below.size("vocab_size"))
    chunk, width = card.size("chunk_size", 50), card.size("max_action_dim", 32)
    actor = text_of(expert, kind="gemma", tied=True)
    (group,) = prefix.parts.cache
    if actor.parts.cache != prefix.parts.cache:
        expert.wrong("num_hidden_layers", problem="keys unlike the prefix's", fix="use its layers, heads and head_dim")
    return architecture(
        card,
        name=name,
        family=FAMILY,
        stages=(
            vision_stage(sight),
            _prefix_stage(prefix),
            _action_stage(card, _actor(card, actor, chunk, width), group, chunk),
        ),
        edges=_edges(card, sight=sight, group=group, width=width, chunk=chunk),
        context_max=prefix.context_max,
        remarks=("the expert's embedding table is stored, but nothing reads it",),
    )


def _sight(vlm: Card, prefix: Text) -> Sight:
    card = vlm.sub("vision_config")
    card.skip("vocab_size", "projection_dim", "projector_hidden_act", "num_image_tokens")
    tower = tower_of(card, kind="siglip_vision_model")
    out = vlm.size("projection_dim", 2048)
    if out != prefix.hidden:
        vlm.wrong("projection_dim", problem=f"the decoder's width is {prefix.hidden}", fix=f"write {prefix.hidden}")
    return Sight(
        parts=tower.parts + projector(tower.hidden, out, rate=1.0),
        card=card,
        values=tower.values,
        token_values=out,
        picture=tower.blocks.picture,
        tokens=tower.blocks.picture,
    )


def _prefix_stage(prefix: Text) -> StageDraft:
    """A prefix is read once, and what it leaves is the action stage's to keep."""
    return StageDraft(
        name="prefix",
        capabilities=(Capability.ENCODE,),
        batching=Batching.PLAIN,
        unit=Unit.TOKEN,
        parts=replace(all_see_all(prefix.parts), cache=()),
        card=prefix.card,
        constraints=(Constraint(rule=Rule.WHOLE_SPANS, figure=0, words="all tokens see each other"),),
        example_units=816,  # three pictures of 256 patches, and 48 tokens
    )


def _action_stage(card: Card, parts: Parts, group: CacheGroup, chunk: int) -> StageDraft:
    steps = card.size("num_inference_steps", 10)
    return StageDraft(
        name="action",
        capabilities=(Capability.ACT, Capability.DENOISE),
        batching=Batching.STEP,
        unit=Unit.ACTION,
        parts=replace(parts, cache=(replace(group, name="prefix"),)),
        card=card,
        constraints=(
            Constraint(rule=Rule.STEPS, figure=steps, words=f"{steps} steps of flow matching, over all actions"),
            Constraint(rule=Rule.UNITS_MULTIPLE, figure=chunk, words=f"a chunk has {chunk} actions"),
        ),
        example_units=chunk,
        example_context=816,
    )


def _actor(card: Card, actor: Text, chunk: int, width: int) -> Parts:
    """The expert's layers, over a position for each action and one for the robot's state."""
    layers = paced(all_see_all(actor.parts), (chunk + 1) / chunk)
    unread = tuple(item for item in layers.operators if not isinstance(item, Lookup))
    hidden = actor.hidden
    return (
        linear("state", card.size("max_state_dim", 32), hidden, bias=True, per=Per.SEQUENCE, quantizable=False)
        + linear("action_in", width, hidden, bias=True, quantizable=False)
        + linear("action_time.1", 2 * hidden, hidden, bias=True, quantizable=False)
        + linear("action_time.2", hidden, hidden, bias=True, quantizable=False)
        + replace(layers, operators=unread)
        + linear("action_out", hidden, width, bias=True, quantizable=False)
    )


def _edges(card: Card, *, sight: Sight, group: CacheGroup, width: int, chunk: int) -> tuple[EdgeDraft, ...]:
    kept = len(group.layers) * group.entry_values
    return (
        *vision_edges(sight, target="prefix"),
        text_in("prefix"),
        EdgeDraft(
            source="prefix",
            target="action",
            payload=Payload.HIDDEN,
            unit=Unit.TOKEN,
            unit_bytes=2 * kept,
            required=True,
        ),
        EdgeDraft(
            source=DOOR,
            target="action",
            payload=Payload.FEATURES,
            unit=Unit.FRAME,
            unit_bytes=4 * card.size("max_state_dim", 32),
            required=True,
        ),
        EdgeDraft(
            source="action",
            target=DOOR,
            payload=Payload.ACTIONS,
            unit=Unit.ACTION,
            unit_bytes=4 * width,
            chunk_units=chunk,
        ),
    )
