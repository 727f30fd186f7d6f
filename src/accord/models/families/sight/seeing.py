"""Puts encoders in front of a language model: the graph that all models share that see or hear, and answer in text.

In: `Sight`, `Sound` and `Text`. Out: `Architecture` with the stages `vision`, `audio` and `decoder`. Invariant:
text alone goes to the decoder without the others.
"""

from dataclasses import dataclass, replace

from accord.models.card import Card
from accord.models.families.decoders.dense import decoder_stage
from accord.models.families.omni.omni_sound import Sound, sound_edges, sound_stage
from accord.models.families.text import DECODER, Text
from accord.models.graphs import EdgeDraft, StageDraft, architecture, text_in, text_out
from accord.models.parts.parts import Parts
from accord.terms.architecture import Architecture, Constraint, Rule, Unit
from accord.terms.graph import DOOR, Batching, Capability, Payload

VALUE_BYTES = 2  # bf16, for pixels that are scaled and for hidden states


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """A vision stage with its projector. `group` patches become one token, or `picture` patches `tokens`.

    `values` is how many values a patch has; `token_values` how many a token has on its way to the decoder.
    """

    parts: Parts
    card: Card
    values: int
    token_values: int
    picture: int | None = None
    tokens: int | None = None
    group: int = 1

    @property
    def multiple(self) -> Constraint:
        """How patches become tokens."""
        if self.picture is not None:
            words = f"a picture or tile has {self.picture} patches, which become {self.tokens} tokens"
            return Constraint(rule=Rule.UNITS_MULTIPLE, figure=self.picture, words=words)
        words = f"{self.group} patches become one token"
        return Constraint(rule=Rule.UNITS_MULTIPLE, figure=self.group, words=words)


def composed(
    card: Card,
    *,
    name: str,
    family: str,
    text: Text,
    sight: Sight | None = None,
    sound: Sound | None = None,
    constraints: tuple[Constraint, ...] = (),
    remarks: tuple[str, ...] = (),
) -> Architecture:
    """Encoders in front of a decoder; what has no encoder goes there from the door. `constraints` are the decoder's."""
    stages: tuple[StageDraft, ...] = ()
    edges: tuple[EdgeDraft, ...] = ()
    if sight is not None:
        stages, edges = (*stages, vision_stage(sight)), (*edges, *vision_edges(sight))
    if sound is not None:
        stages, edges = (*stages, sound_stage(sound)), (*edges, *sound_edges(sound, target=DECODER))
    decoder = replace(decoder_stage(text.card, text.parts), constraints=(*text.constraints, *constraints))
    return architecture(
        card,
        name=name,
        family=family,
        stages=(*stages, decoder),
        edges=(*edges, text_in(DECODER), text_out(DECODER)),
        context_max=text.context_max,
        remarks=(*text.remarks, *remarks),
    )


def vision_stage(sight: Sight, *, name: str = "vision") -> StageDraft:
    """The stage that reads patches; pictures of one step are alike, so that they can be batched as they are.

    New units are one picture's patches. Frames of a clip don't see each other: they are a batch of pictures.
    """
    return StageDraft(
        name=name,
        capabilities=(Capability.ENCODE,),
        batching=Batching.PLAIN,
        unit=Unit.PATCH,
        parts=sight.parts,
        card=sight.card,
        constraints=(sight.multiple,),
        example_units=sight.picture or 1024 // sight.group * sight.group,
    )


def vision_edges(sight: Sight, *, target: str = DECODER) -> tuple[EdgeDraft, EdgeDraft]:
    """Scaled patches in, embeddings that take the place of tokens out."""
    return (
        EdgeDraft(
            source=DOOR,
            target="vision",
            payload=Payload.FEATURES,
            unit=Unit.PATCH,
            unit_bytes=sight.values * VALUE_BYTES,
        ),
        EdgeDraft(
            source="vision",
            target=target,
            payload=Payload.HIDDEN,
            unit=Unit.TOKEN,
            unit_bytes=sight.token_values * VALUE_BYTES,
        ),
    )


def whole_spans(tokens: int) -> Constraint:
    """For decoders in which the tokens of one picture see each other, before and after."""
    words = "tokens of one picture attend to each other, so they go into one prefill chunk"
    return Constraint(rule=Rule.WHOLE_SPANS, figure=tokens, words=words)
