"""What a planner is asked, and what a request of it amounts to.

In: intent, model, speeds, machine. Out: `Question`, and the kinds of requests with their shares and
amounts of work. Invariant: the shares of the kinds add up to 1.
Sizes given by two percentiles are taken as log-normal, the usual fit for prompt and answer lengths.
"""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import NormalDist

from accord.terms.intent import Intent, Metric, Spread
from accord.terms.machine import Machine
from accord.terms.speed import Model, Quantity, StageSpeed

_Z99 = NormalDist().inv_cdf(0.99)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Can this intent be met on this machine, and how?"""

    intent: Intent
    model: Model
    speeds: tuple[StageSpeed, ...]
    machine: Machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Requests of one mix of inputs and outputs; `share` of all requests are of this kind."""

    audio_in: bool
    image_in: bool
    audio_out: bool
    share: float


def kinds(intent: Intent, *, speaking: bool = False) -> tuple[Kind, ...]:
    """The kinds of requests that occur. `speaking`: only those that want speech, their shares made whole."""
    audio, image = (share_in(intent, name) for name in ("audio", "image"))
    speech = 1.0 if speaking else share_out(intent, "audio")
    found = []
    for with_audio, with_image, spoken in itertools.product((False, True), repeat=3):
        share = _part(audio, with_audio) * _part(image, with_image) * _part(speech, spoken)
        if share > 0:
            found.append(Kind(audio_in=with_audio, image_in=with_image, audio_out=spoken, share=share))
    return tuple(found)


def share_in(intent: Intent, kind: str) -> float:
    """Which share of requests brings this kind of input; text alone if the intent doesn't say."""
    return dict(intent.workload.inputs).get(kind, 0.0)


def share_out(intent: Intent, kind: str) -> float:
    """Which share of requests wants this kind of output; text alone if the intent doesn't say."""
    return dict(intent.workload.outputs).get(kind, 0.0)


def explicit(question: Question) -> Question:
    """With the outputs written out: where the intent is silent, objectives about audio imply speech.

    Without this, leaving out an objective would change what is asked for.
    """
    intent = question.intent
    if intent.workload.outputs:
        return question
    spoken = any(item.metric in {Metric.FIRST_AUDIO, Metric.RTF} for item in intent.objectives)
    workload = replace(intent.workload, outputs=(("text", 1.0), ("audio", float(spoken))))
    return replace(question, intent=replace(intent, workload=workload))


def amounts(question: Question, kind: Kind, *, percentile: float) -> Mapping[Quantity, float]:
    """How much work one request of this kind is, its token counts taken at `percentile`."""
    workload, shape = question.intent.workload, question.model.shape
    output = _at(workload.output_tokens, shape.output_tokens, percentile)
    return {
        Quantity.AUDIO_IN_S: shape.audio_in_s * kind.audio_in,
        Quantity.PICTURE: shape.pictures * kind.image_in,
        Quantity.PROMPT_TOKEN: _at(workload.input_tokens, shape.prompt_tokens, percentile),
        Quantity.OUTPUT_TOKEN: output,
        Quantity.AUDIO_OUT_S: output * shape.speech_s_per_token * kind.audio_out,
    }


def mean_amounts(question: Question) -> Mapping[Quantity, float]:
    """How much work the mean request is, over all kinds."""
    workload, shape, intent = question.intent.workload, question.model.shape, question.intent
    output = _mean(workload.output_tokens, shape.output_tokens)
    return {
        Quantity.AUDIO_IN_S: shape.audio_in_s * share_in(intent, "audio"),
        Quantity.PICTURE: shape.pictures * share_in(intent, "image"),
        Quantity.PROMPT_TOKEN: _mean(workload.input_tokens, shape.prompt_tokens),
        Quantity.OUTPUT_TOKEN: output,
        Quantity.AUDIO_OUT_S: output * shape.speech_s_per_token * share_out(intent, "audio"),
    }


def _part(share: float, present: bool) -> float:
    return share if present else 1.0 - share


def _at(spread: Spread | None, usual: float, percentile: float) -> float:
    if spread is None:
        return usual
    sigma = math.log(spread.p99 / spread.p50) / _Z99
    return spread.p50 * math.exp(sigma * NormalDist().inv_cdf(percentile / 100))


def _mean(spread: Spread | None, usual: float) -> float:
    if spread is None:
        return usual
    sigma = math.log(spread.p99 / spread.p50) / _Z99
    return spread.p50 * math.exp(sigma * sigma / 2)
