"""What a request asks of each stage.

In: an intent's workload, an `Architecture`. Out: `Demand`: for each stage the share of requests that use it and the
sizes of its work; the kinds of requests. Invariant: a size that the intent doesn't give is the model's usual one;
shares of kinds add up to 1; a stage that no kind uses isn't there.
"""

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from accord.plan.fleet.size import Size, sum_of
from accord.terms.architecture import Architecture, Needs, Rule, Unit
from accord.terms.cache import CacheKind
from accord.terms.graph import DOOR, Capability, Edge, Payload
from accord.terms.intent import Intent, Metric, Workload
from accord.terms.work import MatMul

AUDIO_FRAMES_PER_S = 100.0  # mel frames: hops of 10 ms, as Whisper has them
SPEECH_S_PER_TOKEN = 0.3  # 150 words a minute, 4 tokens for 3 words
SAMPLES_PER_S = 24_000.0  # of speech that models write
FIRST_CHUNK_FRAMES = 25.0  # vLLM-Omni's codec_chunk_frames: what its vocoder waits for
PICTURE_PIXELS = 1024.0 * 1024.0  # what a denoiser's usual latents are for
VIDEO_FRAMES_PER_S = 2.0  # Qwen-VL's sampling
TEXT, AUDIO, IMAGE, VIDEO = "text", "audio", "image", "video"


class Pace(StrEnum):
    """How a stage goes through a request."""

    WRITES = "writes"  # prefill, then one unit after the other
    PASSES = "passes"  # all its units at once, some number of times
    CHUNKS = "chunks"  # its units in chunks, as they come


@dataclass(frozen=True, slots=True, kw_only=True)
class StageDemand:
    """One stage. `share` of requests use it.

    `units` are read at once (the prompt, for a stage that writes), `context` units are there besides; `outputs` are
    written one by one, or come out of chunks. `steps` is how often everything is passed. `first_units` make up the
    first chunk.
    """

    stage: str
    pace: Pace
    share: float
    units: Size
    outputs: Size
    context: float = 0.0
    steps: int = 1
    first_units: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestKind:
    """Requests of one mix of inputs and outputs, and the stages that they pass."""

    share: float
    stages: frozenset[str]
    spoken: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """All stages in the graph's order. `writer` writes what the door reads token by token (None: nothing does).

    `audio_s` is the speech of an answer.
    """

    stages: tuple[StageDemand, ...]
    kinds: tuple[RequestKind, ...]
    writer: str | None
    audio_s: Size

    def of(self, stage: str) -> StageDemand:
        """The demand on one stage; KeyError if no request uses it."""
        for item in self.stages:
            if item.stage == stage:
                return item
        raise KeyError(stage)


def demand_of(architecture: Architecture, intent: Intent) -> Demand:
    """What the intent's requests ask of the model's stages."""
    graph, workload = architecture.graph, intent.workload
    writer = _writer(architecture)
    spoken = _spoken(architecture, writer)
    kinds = tuple(_kinds(architecture, intent, spoken))
    shares = {stage.name: sum(kind.share for kind in kinds if stage.name in kind.stages) for stage in graph.stages}
    sizes: dict[str, StageDemand] = {}
    for needs in architecture.needs:
        if shares[needs.stage] > 0:
            sizes[needs.stage] = _stage(architecture, needs, workload, writer=writer, before=sizes, shares=shares)
    return Demand(stages=tuple(sizes.values()), kinds=kinds, writer=writer, audio_s=_audio_s(workload, architecture))


def modality(architecture: Architecture, stage: str) -> str:
    """What kind of input an encoder reads from the door; text where it reads none of its own."""
    if Capability.ENCODE not in architecture.graph.stage(stage).capabilities:
        return TEXT
    for edge, flow in zip(architecture.graph.edges, architecture.flows, strict=True):
        if edge.source == DOOR and edge.target == stage and edge.payload in (Payload.FEATURES, Payload.PCM):
            return IMAGE if flow.unit is Unit.PATCH else AUDIO
    return TEXT


def _writer(architecture: Architecture) -> str | None:
    """The stage whose tokens stream to the door."""
    last = {edge.source: edge.payload for edge in architecture.graph.edges if edge.target == DOOR}
    for stage in architecture.graph.stages:
        if Capability.AR in stage.capabilities and last.get(stage.name) in (Payload.TOKENS, Payload.TEXT):
            return stage.name
    return None


def _spoken(architecture: Architecture, writer: str | None) -> frozenset[str]:
    """Stages that only make speech of what another stage writes."""
    if writer is None:
        return frozenset()
    after, edges = {writer}, architecture.graph.edges
    for _ in architecture.graph.stages:
        after |= {edge.target for edge in edges if edge.source in after and edge.target != DOOR}
    return frozenset(after - {writer})


def _kinds(architecture: Architecture, intent: Intent, spoken: frozenset[str]) -> Iterator[RequestKind]:
    inputs, outputs = dict(intent.workload.inputs), dict(intent.workload.outputs)
    asked = any(item.metric in (Metric.FIRST_AUDIO, Metric.RTF) for item in intent.objectives)
    speech = outputs.get(AUDIO, float(asked and not outputs)) if spoken else 0.0
    by_input = {
        stage.name: own
        for stage in architecture.graph.stages
        if (own := modality(architecture, stage.name)) != TEXT and not _always(architecture, stage.name)
    }
    seen = min(1.0, inputs.get(IMAGE, 0.0) + inputs.get(VIDEO, 0.0))
    rates = {AUDIO: inputs.get(AUDIO, 0.0), IMAGE: seen}
    present = sorted(set(by_input.values()))
    for flags in itertools.product((False, True), repeat=len(present) + 1):
        has, talks = dict(zip(present, flags[1:], strict=True)), flags[0]
        share = speech if talks else 1.0 - speech
        for name, there in has.items():
            share *= rates[name] if there else 1.0 - rates[name]
        if share > 1e-12:
            passed = {
                stage.name
                for stage in architecture.graph.stages
                if has.get(by_input.get(stage.name, ""), True) and (talks or stage.name not in spoken)
            }
            yield RequestKind(share=share, stages=frozenset(passed), spoken=talks)


def _always(architecture: Architecture, stage: str) -> bool:
    """Whether every request passes an encoder: others can't begin without it, or what it sees drives a robot."""
    needed = any(edge.required and stage in (edge.source, edge.target) for edge in architecture.graph.edges)
    return needed or any(Capability.ACT in item.capabilities for item in architecture.graph.stages)


def _stage(
    architecture: Architecture,
    needs: Needs,
    workload: Workload,
    *,
    writer: str | None,
    before: Mapping[str, StageDemand],
    shares: Mapping[str, float],
) -> StageDemand:
    stage, own = architecture.graph.stage(needs.stage), modality(architecture, needs.stage)
    steps = _steps(needs)
    if Capability.AR in stage.capabilities and needs.cache:
        return _writing(architecture, needs, workload, writer=writer, before=before, shares=shares)
    units, none = Size(mean=float(needs.example_units)), Size(mean=0.0)
    pace, first = Pace.PASSES, 0.0
    if own == AUDIO:
        units = units if workload.input_audio_s is None else Size.of(workload.input_audio_s) * AUDIO_FRAMES_PER_S
    elif own == IMAGE:
        units = _patches(architecture, needs, workload) or units
    elif Capability.VOCODE in stage.capabilities and needs.unit is Unit.FRAME:
        units = _frames(architecture, needs, workload)
        pace, first = Pace.CHUNKS, min(FIRST_CHUNK_FRAMES, units.mean)
    elif needs.unit is Unit.LATENT and workload.output_image is not None:
        units = units * (workload.output_image.width * workload.output_image.height / PICTURE_PIXELS)
    return StageDemand(
        stage=needs.stage,
        pace=pace,
        share=shares[needs.stage],
        units=units,
        outputs=units if pace is Pace.CHUNKS else none,
        context=float(needs.example_context),
        steps=steps,
        first_units=first,
    )


def _writing(
    architecture: Architecture,
    needs: Needs,
    workload: Workload,
    *,
    writer: str | None,
    before: Mapping[str, StageDemand],
    shares: Mapping[str, float],
) -> StageDemand:
    text = Size(mean=float(needs.example_units)) if workload.input_tokens is None else Size.of(workload.input_tokens)
    if needs.stage == writer or writer is None:
        crossed = any(group.kind is CacheKind.CROSS for group in needs.cache)  # what was heard isn't in the prompt
        parts = [(1.0, text), *_seen_directly(architecture, needs, workload)]
        for edge in architecture.graph.edges:
            if edge.target == needs.stage and edge.source in before and not crossed:
                ratio = _tokens_a_unit(architecture.of(edge.source))
                share = before[edge.source].share / max(shares[needs.stage], 1e-12)
                parts.append((min(1.0, share), before[edge.source].units * ratio))
        units = sum_of(parts)
    else:
        units = before[writer].units if writer in before else text
    outputs = _outputs(architecture, needs, workload, writer=writer)
    return StageDemand(stage=needs.stage, pace=Pace.WRITES, share=shares[needs.stage], units=units, outputs=outputs)


def _seen_directly(architecture: Architecture, needs: Needs, workload: Workload) -> Iterator[tuple[float, Size]]:
    """Patches that a decoder reads without an encoder, with the share of requests that bring pictures."""
    for edge, flow in zip(architecture.graph.edges, architecture.flows, strict=True):
        if edge.source == DOOR and edge.target == needs.stage and flow.unit is Unit.PATCH:
            inputs = dict(workload.inputs)
            usual = Size(mean=PICTURE_PIXELS / _patch_side(architecture, needs) ** 2)
            seen = min(1.0, inputs.get(IMAGE, 0.0) + inputs.get(VIDEO, 0.0))
            yield seen, _patches(architecture, needs, workload) or usual


def _outputs(architecture: Architecture, needs: Needs, workload: Workload, *, writer: str | None) -> Size:
    for rule in needs.constraints:
        if rule.rule is Rule.ANSWER:
            return Size(mean=float(rule.figure))
    if writer is not None and needs.stage != writer:
        return _frames(architecture, needs, workload)
    if workload.output_tokens is None:
        return Size(mean=256.0)
    return Size.of(workload.output_tokens)


def _frames(architecture: Architecture, needs: Needs, workload: Workload) -> Size:
    """Codec frames, or frames of a spectrum, of an answer."""
    samples = max((_samples_a_frame(architecture, item) for item in architecture.needs), default=0.0)
    if samples < 2:
        return Size(mean=float(needs.example_units))
    return _audio_s(workload, architecture) * (SAMPLES_PER_S / samples)


def _samples_a_frame(architecture: Architecture, needs: Needs) -> float:
    """What a vocoder makes of a frame: by the chunks that go in and out, or by how often its last layers run."""
    if needs.unit is not Unit.FRAME or Capability.VOCODE not in architecture.graph.stage(needs.stage).capabilities:
        return 0.0
    rows = tuple(zip(architecture.graph.edges, architecture.flows, strict=True))
    came = next((flow.chunk_units for edge, flow in rows if edge.target == needs.stage), None)
    went = next((flow.chunk_units for edge, flow in rows if edge.source == needs.stage), None)
    if came and went:
        return went / came
    return max((item.rate for item in needs.operators if isinstance(item, MatMul)), default=0.0)


def _audio_s(workload: Workload, architecture: Architecture) -> Size:
    text = workload.output_tokens if _writer(architecture) is not None else workload.input_tokens
    return (Size(mean=256.0) if text is None else Size.of(text)) * SPEECH_S_PER_TOKEN


def _patches(architecture: Architecture, needs: Needs, workload: Workload) -> Size | None:
    size, clip = workload.input_image, workload.input_video_s
    shares = dict(workload.inputs)
    if size is None:
        return None
    side = _patch_side(architecture, needs)
    still = Size(mean=max(1.0, size.width * size.height / side**2))
    if clip is None or not shares.get(VIDEO):
        return still
    moving = Size.of(clip) * (VIDEO_FRAMES_PER_S * still.mean)
    whole = max(1e-12, shares.get(IMAGE, 0.0) + shares[VIDEO])
    return sum_of([(shares.get(IMAGE, 0.0) / whole, still), (shares[VIDEO] / whole, moving)])


def _patch_side(architecture: Architecture, needs: Needs) -> float:
    """Pixels along a patch: its payload has three colours of two bytes each, of one frame or of two."""
    for edge, flow in zip(architecture.graph.edges, architecture.flows, strict=True):
        if edge.source == DOOR and edge.target == needs.stage and flow.unit is Unit.PATCH:
            for frames in (1, 2):
                side = math.isqrt(max(0, flow.unit_bytes // (6 * frames)))
                if side and side * side * 6 * frames == flow.unit_bytes:
                    return float(side)
    return 14.0


def _tokens_a_unit(needs: Needs) -> float:
    """How many tokens an encoder makes of one of its units: how often its last projection is applied."""
    rates = [item.rate for item in needs.operators if isinstance(item, MatMul)]
    return min(1.0, rates[-1]) if rates else 1.0


def _steps(needs: Needs) -> int:
    steps = 1
    for item in needs.constraints:
        if item.rule in (Rule.STEPS, Rule.PASSES):
            steps *= item.figure
    return steps


def edges_between(architecture: Architecture, stages: frozenset[str]) -> tuple[Edge, ...]:
    """Edges of the graph whose ends all take part."""
    return tuple(edge for edge in architecture.graph.edges if edge.source in stages and edge.target in stages)
