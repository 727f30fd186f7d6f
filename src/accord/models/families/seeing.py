"""Puts a vision stage in front of a language model: the graph that all vision-language models share.

In: `Sight` and `Text`. Out: `Architecture` with the stages `vision` and `decoder`. Invariant: text alone goes to the
decoder without the vision stage.
"""

from dataclasses import dataclass, replace

from accord.models.card import Card
from accord.models.families.dense import decoder_stage
from accord.models.families.text import Text
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


def seeing(
    card: Card,
    *,
    name: str,
    family: str,
    sight: Sight,
    text: Text,
    constraints: tuple[Constraint, ...] = (),
    remarks: tuple[str, ...] = (),
) -> Architecture:
    """The whole: door -> vision -> decoder -> door, and door -> decoder for text. `constraints` are the decoder's."""
    return architecture(
        card,
        name=name,
        family=family,
        stages=(
            vision_stage(sight),
            replace(decoder_stage(text.card, text.parts), constraints=(*text.constraints, *constraints)),
        ),
        edges=(*vision_edges(sight), text_in("decoder"), text_out("decoder")),
        context_max=text.context_max,
        remarks=(*text.remarks, *remarks),
    )


def vision_stage(sight: Sight, *, name: str = "vision") -> StageDraft:
    """The stage that reads patches; pictures of one step are alike, so that they can be batched as they are."""
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


def vision_edges(sight: Sight, *, target: str = "decoder") -> tuple[EdgeDraft, EdgeDraft]:
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
