"""Diffusion pipelines for pictures, clips and worlds: text encoders, a denoiser run step by step, a VAE's decoder.

In: a pipeline's card: `_class_name`, and the `config.json` of each component under its name. Out: `Architecture`.
What a request may choose (`height`, `width`, `num_frames`, `num_inference_steps`, `guidance_scale`) has the pipeline's
defaults unless the card says otherwise; the rates of a VAE that compresses time hold for that many frames.
"""

from dataclasses import dataclass
from math import isqrt

from accord.models.card import Card
from accord.models.families.diffusion.denoisers import denoiser
from accord.models.families.diffusion.schedules import Schedule, schedule
from accord.models.families.diffusion.text_encoders import Encoder, encoder
from accord.models.families.diffusion.usual import USUAL, Usual
from accord.models.families.diffusion.vaes import Compression, compression, decoder
from accord.models.graphs import EdgeDraft, StageDraft, architecture, text_in
from accord.models.parts.diffusion import Denoiser
from accord.models.parts.vae import Clip
from accord.terms.architecture import Architecture, Constraint, Rule, Unit
from accord.terms.errors import BadInput
from accord.terms.graph import DOOR, Batching, Capability, Payload

FAMILY = "diffusion"

_ENCODERS = ("text_encoder", "text_encoder_2", "text_encoder_3")
_VALUE_BYTES = 2  # latents and hidden states travel in bf16
_PIXEL_BYTES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """The usual request: how many positions the denoiser has, and what the VAE decodes."""

    positions: int
    prompt: int
    clip: Clip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pipeline:
    """All components, read."""

    usual: Usual
    encoders: tuple[tuple[str, Card, Encoder], ...]
    denoisers: tuple[tuple[str, Card, Denoiser], ...]
    vae: Card
    scale: Compression
    request: _Request
    schedule: Schedule
    guided: str | None
    remarks: tuple[str, ...]


def build(card: Card, name: str) -> Architecture:
    """The architecture of one pipeline."""
    pipeline = _read(card)
    vae = StageDraft(
        name="vae",
        capabilities=(Capability.VOCODE,),
        batching=Batching.PLAIN,
        unit=Unit.LATENT,
        parts=decoder(pipeline.vae, pipeline.request.clip),
        card=pipeline.vae,
        example_units=pipeline.request.positions,
    )
    return architecture(
        card,
        name=name,
        family=FAMILY,
        stages=(*_encoder_stages(pipeline), *_denoiser_stages(pipeline), vae),
        edges=_edges(pipeline),
        remarks=_remarks(pipeline),
    )


def _read(card: Card) -> _Pipeline:
    kind = card.word("_class_name")
    card.skip("_diffusers_version", "scheduler", "tokenizer", "tokenizer_2", "tokenizer_3", "text_tokenizer")
    card.skip("safety_checker", "feature_extractor", "force_zeros_for_empty_prompt", "is_distilled", "model_type")
    card.skip("enable_safety_checker", "default_use_system_prompt", "use_native_flow_schedule")
    for key in ("image_encoder", "controlnet"):
        if _has(card, key):
            card.wrong(key, problem="not supported here", fix="leave it out: pictures and clips from text are known")
    usual = USUAL.get(kind, Usual())
    denoisers, vae = _denoisers(card), card.sub("vae")
    scale = compression(vae)
    encoders = tuple((key, card.sub(key)) for key in _ENCODERS if _has(card, key))
    steps = card.size("num_inference_steps", usual.steps, most=10_000)
    return _Pipeline(
        usual=usual,
        encoders=tuple((key, below, encoder(below)) for key, below in encoders),
        denoisers=denoisers,
        vae=vae,
        scale=scale,
        request=_request(card, usual, denoisers[0][2], scale),
        schedule=schedule(card, steps=steps, stages=len(denoisers)),
        guided=usual.guided if card.number("guidance_scale", 2.0) > 1 else None,
        remarks=("the sound tokenizer isn't counted",) if _has(card, "sound_tokenizer") else (),
    )


def _denoisers(card: Card) -> tuple[tuple[str, Card, Denoiser], ...]:
    per_position = card.flag("expand_timesteps", False)
    below = [("denoiser", card.sub("transformer"))]
    if _has(card, "transformer_2"):
        below.append(("denoiser_2", card.sub("transformer_2")))
    return tuple((stage, sub, denoiser(sub, per_position=per_position)) for stage, sub in below)


def _request(card: Card, usual: Usual, first: Denoiser, scale: Compression) -> _Request:
    """How large the usual picture or clip is, in positions of the latent and of the denoiser."""
    side = isqrt(first.values // scale.channels)
    if first.values != scale.channels * side**2 or not side:
        raise BadInput(
            field="vae",
            value=f"{scale.channels} channels",
            problem=f"the denoiser writes {first.values} values a position, which is no square of the latent's",
            fix="use the VAE that the transformer was trained with",
        )
    step = scale.space if first.pads else scale.space * side
    height, width = card.size("height", usual.height), card.size("width", usual.width)
    for key, pixels in (("height", height), ("width", width)):
        card.divides(key, pixels, step, by="the pixels of one position")
    high, wide = height // scale.space, width // scale.space
    frames = 1 + (card.size("num_frames", usual.frames) - 1) // scale.time
    positions = frames * -(-high // side) * -(-wide // side)
    plane = high * wide if frames > 1 else None
    clip = Clip(area=frames * high * wide / positions, frames=frames, plane=plane)
    return _Request(positions=positions, prompt=usual.prompt, clip=clip)


def _has(card: Card, key: str) -> bool:
    """Whether a pipeline has this component: an index names those that it could have, but hasn't, with nulls."""
    value = card.raw(key)
    return not (value is None or (isinstance(value, list | tuple) and all(item is None for item in value)))


def _encoder_stages(pipeline: _Pipeline) -> tuple[StageDraft, ...]:
    return tuple(
        StageDraft(
            name=key,
            capabilities=(Capability.ENCODE,),
            batching=Batching.PLAIN,
            unit=Unit.TOKEN,
            parts=item.parts,
            card=below,
            example_units=min(pipeline.usual.encoded, item.tokens_max or pipeline.usual.encoded),
        )
        for key, below, item in pipeline.encoders
    )


def _denoiser_stages(pipeline: _Pipeline) -> tuple[StageDraft, ...]:
    guided = () if pipeline.guided is None else (_passes(pipeline.guided),)
    return tuple(
        StageDraft(
            name=stage,
            capabilities=(Capability.DENOISE,),
            batching=Batching.STEP,
            unit=Unit.LATENT,
            parts=item.parts,
            card=below,
            constraints=(Constraint(rule=Rule.STEPS, figure=steps, words=words), *guided),
            example_units=pipeline.request.positions,
            example_context=pipeline.request.prompt,
        )
        for (stage, below, item), (steps, words) in zip(pipeline.denoisers, pipeline.schedule.stages, strict=True)
    )


def _passes(words: str) -> Constraint:
    return Constraint(rule=Rule.PASSES, figure=2, words=words)


def _edges(pipeline: _Pipeline) -> tuple[EdgeDraft, ...]:
    stages = [stage for stage, _, _ in pipeline.denoisers]
    edges = [text_in(key) for key, _, _ in pipeline.encoders] or [text_in(stage) for stage in stages]
    for key, _, item in pipeline.encoders:
        edges += (_hidden(key, item, stage, pooled=key in pipeline.usual.pooled) for stage in stages)
    for (stage, _, made), target in zip(pipeline.denoisers, (*stages[1:], "vae"), strict=True):
        edges.append(_latent(stage, target, made))
    pixels = EdgeDraft(source="vae", target=DOOR, payload=Payload.PIXELS, unit=Unit.PIXEL, unit_bytes=_PIXEL_BYTES)
    return (*edges, pixels)


def _latent(source: str, target: str, made: Denoiser) -> EdgeDraft:
    return EdgeDraft(
        source=source,
        target=target,
        payload=Payload.LATENT,
        unit=Unit.LATENT,
        unit_bytes=made.values * _VALUE_BYTES,
        required=True,
    )


def _hidden(key: str, item: Encoder, stage: str, *, pooled: bool) -> EdgeDraft:
    """What the denoiser is told of the prompt: hidden states of each token, or one vector for the picture."""
    return EdgeDraft(
        source=key,
        target=stage,
        payload=Payload.HIDDEN,
        unit=Unit.IMAGE if pooled else Unit.TOKEN,
        unit_bytes=(item.pooled if pooled else item.hidden) * _VALUE_BYTES,
        required=True,
    )


def _remarks(pipeline: _Pipeline) -> tuple[str, ...]:
    clip = pipeline.request.clip
    remarks = ["the VAE's encoder is counted in weights, not in work"]
    if pipeline.scale.time > 1 and clip.frames > 1:
        remarks.append(f"the VAE's work is that of clips of {1 + (clip.frames - 1) * pipeline.scale.time} frames")
    return (*remarks, *pipeline.remarks)
