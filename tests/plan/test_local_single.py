"""What is expected of one spoken question right after a start: sums that can be done by hand."""

from dataclasses import replace

import pytest

from accord.compile import compile_intent
from accord.edges.intent_file import intent_from_text
from accord.models import embedded
from accord.plan.local.question import Question
from accord.plan.local.single import Size, first_request
from accord.terms.estimate import Estimate, Source
from accord.terms.intent import Metric
from accord.terms.machine import Machine
from accord.terms.plan import Plan
from accord.terms.speed import Cost, Quantity, StageSpeed

# Seconds a unit, with one thread and with two.
COSTS = {
    "recognizer": ((Quantity.AUDIO_IN_S, 0.03),),
    "vision": ((Quantity.PICTURE, 0.1),),
    "language": ((Quantity.PROMPT_TOKEN, 0.001), (Quantity.OUTPUT_TOKEN, 0.01)),
    "acoustic": ((Quantity.AUDIO_OUT_S, 0.005),),
    "vocoder": ((Quantity.AUDIO_OUT_S, 0.002),),
}
FIRST_USE = {"recognizer": 0.02, "language": 0.03, "acoustic": 0.004, "vocoder": 0.006, "vision": 1.0}
SIZE = Size(audio_in_s=3.0, prompt_tokens=40, output_tokens=50)
INTENT = "accord: 1\nname: one\nmodel: embedded-omni\nworkload: {inputs: {audio: 1}, outputs: {text: 1, audio: 1}}\n"


def question(cores, threads):
    speeds = tuple(
        StageSpeed(
            stage=stage,
            threads=threads if stage == "language" else 1,
            costs=tuple(Cost(quantity=name, alone_s=each, shared_s=each) for name, each in costs),
            work=Estimate(value=1.0, unit="x", source=Source.MEASURED, uncertainty=0.0),
            first_use_s=FIRST_USE[stage],
        )
        for stage, costs in COSTS.items()
    )
    machine = Machine(cores=cores, memory_bytes=16 << 30)
    return Question(intent=intent_from_text(INTENT), model=embedded.model(), speeds=speeds, machine=machine)


def expected(cores, threads, size=SIZE):
    asked = question(cores, threads)
    plan = compile_intent(asked.intent, model=asked.model, speeds=asked.speeds, machine=asked.machine)
    assert isinstance(plan, Plan)
    return first_request(asked, plan, size)


def test_by_hand():
    # Heard in 90 ms, read in 40, one token in 10; first uses 20 and 30.
    found = expected(8, 1)
    assert found[Metric.TTFT] == pytest.approx(0.090 + 0.040 + 0.010 + 0.050)
    # Ten tokens make a clause, which sounds 3.3 s; first uses 4 and 6.
    first = 0.090 + 0.040 + 0.100 + 3.3 * 0.007 + 0.060
    assert found[Metric.FIRST_AUDIO] == pytest.approx(first)
    # The other forty tokens take longest; there are cores enough for the voice.
    assert found[Metric.LATENCY] == pytest.approx(first + 0.400)


def test_a_voice_without_a_core_of_its_own_holds_the_writer_up():
    wide, narrow = expected(8, 2), expected(2, 2)
    assert narrow[Metric.FIRST_AUDIO] == pytest.approx(wide[Metric.FIRST_AUDIO])
    voice = 40 * 0.33 * 0.007
    assert narrow[Metric.LATENCY] == pytest.approx(wide[Metric.LATENCY] + voice)


@pytest.mark.parametrize("change", [{"audio_in_s": 6.0}, {"prompt_tokens": 80}, {"output_tokens": 90}])
def test_more_never_takes_less(change):
    less, more = expected(2, 2), expected(2, 2, replace(SIZE, **change))
    assert all(more[metric] >= less[metric] for metric in less)
    assert more[Metric.LATENCY] > less[Metric.LATENCY]
