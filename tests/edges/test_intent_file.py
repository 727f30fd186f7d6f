"""Intents as people write them: what is read, what is refused and in which words."""

import contextlib
import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.edges.intent_file import intent_from_mapping, intent_from_text, load_intent
from accord.edges.yaml_tree import Limits, read_text
from accord.terms.errors import AccordError, BadInput, BrokenEdge
from accord.terms.intent import (
    Agents,
    Allow,
    Budget,
    Metric,
    Objective,
    PictureSize,
    Preprocess,
    Sandbox,
    Serving,
    Spread,
    Video,
    Wakes,
    Workload,
)
from accord.terms.tensors import Dtype, Quantization

HEAD = "accord: 1\nname: a\nmodel: m\n"
FULL = """
accord: 1
name: voice-assistant
model: qwen3-omni-30b-a3b
workload:
  rate_rps: 12
  input_tokens:  {p50: 900, p99: 6000}
  output_tokens: {p50: 180, p99: 900}
  inputs: {text: 1.0, audio: 60%, image: 0.2}
  outputs: {text: 1.0, audio: 0.6}
objectives:
  ttft_p99: 150ms
  tpot_p99: 40ms
  first_audio_p99: 600ms
  latency_p99.9: 4s
  rtf_p95: 0.5
  attainment: 99.5%
budget: {per_request: $0.03}
fleet: fleet.yaml
serving: {host: 0.0.0.0, port: 9000, api_key: $KEY, deterministic: true}
"""


def test_the_design_s_document_is_read():
    intent = intent_from_text(FULL, environ={"KEY": "secret"})
    assert (intent.name, intent.model, intent.fleet) == ("voice-assistant", "qwen3-omni-30b-a3b", "fleet.yaml")
    assert intent.workload.rate_rps == 12
    assert intent.workload.input_tokens == Spread(p50=900, p99=6000)
    assert intent.workload.inputs == (("text", 1.0), ("audio", 0.6), ("image", 0.2))
    assert intent.objectives == (
        Objective(metric=Metric.TTFT, percentile=99, bound=0.15),
        Objective(metric=Metric.TPOT, percentile=99, bound=0.04),
        Objective(metric=Metric.FIRST_AUDIO, percentile=99, bound=0.6),
        Objective(metric=Metric.LATENCY, percentile=99.9, bound=4.0),
        Objective(metric=Metric.RTF, percentile=95, bound=0.5),
    )
    assert intent.attainment == 0.995
    assert intent.budget == Budget(cost_usd_per_request_max=0.03)
    assert intent.serving == Serving(host="0.0.0.0", port=9000, api_key="secret", deterministic=True)


def test_a_short_document_has_defaults():
    intent = intent_from_text(HEAD)
    assert (intent.fleet, intent.objectives, intent.serving) == ("local", (), Serving())


def test_a_mapping_is_read_like_text():
    value = {"accord": 1, "name": "a", "model": "m", "objectives": {"ttft_p50": "300ms"}}
    assert intent_from_mapping(value) == intent_from_text(HEAD + "objectives: {ttft_p50: 300ms}")


@pytest.mark.parametrize(
    ("tail", "field", "says"),
    [
        ("objectivs: {ttft_p99: 1s}", "objectivs", "(line 4); did you mean objectives?"),
        ("objectives:\n  ttf_p99: 1s", "objectives.ttf_p99", "(line 5); did you mean ttft_p99?"),
        ("objectives: {ttft: 1s}", "objectives.ttft", "did you mean ttft_p"),
        ("objectives: {ttft_p0: 1s}", "objectives.ttft_p0", "p99"),
        ("objectives: {ttft_p99: 150}", "objectives.ttft_p99", "150ms"),
        ("objectives: {ttft_p99: -150ms}", "objectives.ttft_p99", "negative (line 4)"),
        ("objectives: {ttft_p99: .nan}", "objectives.ttft_p99", "figure with a unit"),
        ("objectives: {ttft_p99: 0ms}", "objectives.ttft_p99", "raise it"),
        ("objectives: {ttft_p99: [1s]}", "objectives.ttft_p99", "a list of 1"),
        ("objectives: {rtf_p50: 1s}", "objectives.rtf_p50", "plain number"),
        ("objectives: {rtf_p50: .inf}", "objectives.rtf_p50", "plain number"),
        ("objectives: {ttft_p99: 1s, ttft_p99.0: 2s}", "objectives.ttft_p99.0", "twice"),
        ("objectives: [ttft]", "objectives", "not a mapping (line 4)"),
        ("name: b", "name", "written twice, in lines 2 and 4"),
        ("workload: {inputs: {audio: 2}}", "workload.inputs.audio", "from 0 to 1"),
        ("workload: {inputs: {audoi: 1}}", "workload.inputs.audoi", "did you mean audio?"),
        ("workload: {rate_rps: -1}", "workload.rate_rps", "0 or more"),
        ("workload: {rate_rps: .nan}", "workload.rate_rps", "0 or more"),
        ("workload: {rate_rps: 1" + "0" * 400 + "}", "workload.rate_rps", "0 or more"),
        ("workload: {rate_rps: 1" + "0" * 5000 + "}", "workload.rate_rps", "quotes"),
        ("workload: {rate_rps: true}", "workload.rate_rps", "plain number"),
        ("workload: {rate_rps: 0}", "workload.rate_rps", "above 0"),
        ("workload: {rate_rps: 1, trace: x}", "workload", "keep one"),
        ("workload: {input_tokens: {p50: 9, p99: 3}}", "workload.input_tokens", "p50 <= p99"),
        ("workload: {input_tokens: {p50: 9}}", "workload.input_tokens.p99", "required"),
        ("budget: {per_request: 0.03}", "budget.per_request", "$0.03"),
        ("budget: {per_day: $3}", "budget.per_day", "did you mean per_"),
        ("serving: {port: 70000}", "serving.port", "65535"),
        ("serving: {port: 80.5}", "serving.port", "whole number"),
        ("serving: {port: '80'}", "serving.port", "number"),
        ("serving: {deterministic: 1}", "serving.deterministic", "true or false"),
        ("serving: {api_key: $NOT_SET}", "serving.api_key", "export NOT_SET"),
        ("workload: {inputs: {text: 0, audio: 0}}", "workload.inputs", "nothing is asked (line 4)"),
        ("workload: {outputs: {smell: 1}}", "workload.outputs.smell", "known here: text, audio, image"),
        ("workload: {rate_rps: 12/s}", "workload.rate_rps", "plain number"),
        ("workload: {input_audio: {p50: 4, p99: 20}}", "workload.input_audio.p50", "figure with a unit"),
        ("workload: {input_audio: 0s}", "workload.input_audio.p50", "lasts no time"),
        ("workload: {input_image: 448}", "workload.input_image", "such as 448x448"),
        ("workload: {input_image: 0x448}", "workload.input_image", "such as 448x448"),
        ("workload: {output_image: {width: 3}}", "workload.output_image", "a mapping of 1"),
        ("workload: {input_tokens: 0}", "workload.input_tokens.p50", "less than one (line 4)"),
        ("budget: {per_hour: $0}", "budget.per_hour", "nothing is free (line 4)"),
        ("budget: {per_hour: 3 EUR}", "budget.per_hour", "US dollars"),
        ("budget: {per_hour: $-3}", "budget.per_hour", "negative"),
        ("allow: {quantization: [fp8, int3]}", "allow.quantization", "did you mean int"),
        ("allow: {cache: int8}", "allow.cache", "known here: f32, f16, bf16, fp8"),
        ("allow: {cashe: fp8}", "allow.cashe", "did you mean cache?"),
        ("agents: {}", "agents.concurrent", "required"),
        ("agents: {concurrent: 0}", "agents.concurrent", "none (line 4)"),
        ("agents: {concurent: 200}", "agents.concurent", "did you mean concurrent?"),
        ("agents: {concurrent: 1, sandbox: {language: cobol}}", "agents.sandbox.language", "javascript"),
        (
            "agents: {concurrent: 1, sandbox: {language: javascript, cpu: 1, wall: 3s}}",
            "agents.sandbox.memory",
            "required",
        ),
        ("agents: {concurrent: 1, preprocess: {audio: 16}}", "agents.preprocess.audio", "16kHz"),
        ("agents: {concurrent: 1, preprocess: {video: some}}", "agents.preprocess.video", "keyframes, all"),
        ("agents: {concurrent: 1, wakes: {every: 0s, tokens_max: 1}}", "agents.wakes.every", "no time"),
        ("agents: {concurrent: 1, state: {retention: 7}}", "agents.state.retention", "figure with a unit"),
        ("fleet: !!python/object/apply:os.system [true]", "fleet", "not a text"),
        ("fleet: !thing x", "fleet", "tag"),
        ("? [a, b]\n: c", "intent", "not a field name"),
        ("fleet: [", "intent", "not YAML"),
        ("fleet: \x00", "intent", "not YAML"),
        ("fleet: *nowhere", "intent", "alias"),
        ("---\naccord: 1", "intent", "line 4"),
    ],
)
def test_what_is_wrong_is_named(tail, field, says):
    with pytest.raises(BadInput) as caught:
        intent_from_text(HEAD + tail, environ={})
    assert caught.value.field == field
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("objectives", "outputs", "field", "says"),
    [
        # What holds for 99 of 100 holds for the median: the laxer bound of the median says nothing.
        ("ttft_p50: 300ms, ttft_p99: 200ms", "", "ttft_p50", "contradicts objectives.ttft_p99 = 200ms"),
        # A first token is a part of the answer.
        ("ttft_p99: 150ms, latency_p99: 100ms", "", "ttft_p99", "contradicts objectives.latency_p99 = 100ms"),
        ("first_audio_p50: 600ms, latency_p99: 100ms", "", "first_audio_p50", "lower it to 100ms or less"),
        ("first_audio_p99: 600ms", "text: 1", "first_audio_p99", "no answer has audio"),
        ("rtf_p50: 0.5", "text: 1, audio: 0", "rtf_p50", "a share of audio"),
        ("ttft_p50: 1s", "image: 1", "ttft_p50", "no answer has text"),
    ],
)
def test_contradictions_are_named(objectives, outputs, field, says):
    text = f"{HEAD}objectives: {{{objectives}}}\nworkload: {{outputs: {{{outputs}}}}}"
    with pytest.raises(BadInput) as caught:
        intent_from_text(text)
    assert caught.value.field == f"objectives.{field}"
    assert says in str(caught.value)


@pytest.mark.parametrize(
    "objectives",
    [
        "ttft_p50: 100ms, ttft_p99: 200ms",
        "ttft_p50: 100ms, ttft_p99: 100ms",
        "ttft_p99: 150ms, latency_p50: 100ms",  # half of the answers may be short
        "ttft_p99: 150ms, tpot_p99: 200ms",
        "latency_p99: 4s",
    ],
)
def test_what_only_looks_like_a_contradiction_is_read(objectives):
    assert intent_from_text(f"{HEAD}objectives: {{{objectives}}}").objectives


def test_sizes_formats_and_agents_are_read():
    intent = intent_from_text(
        HEAD
        + """
workload:
  inputs: {video: 10%, image: 0.5}
  outputs: {image: 1, actions: 0.5}
  input_tokens: 900
  input_audio: {p50: 4s, p99: 1m}
  input_image: 1280 x 720
  input_video: 10s
  output_image: 1024x1024
allow: {quantization: [none, fp8-block], cache: fp8}
agents:
  concurrent: 200
  sandbox: {language: javascript, memory: 64MiB, cpu: 0.2, wall: 30s, network: none}
  state: {retention: 7d}
  preprocess: {image: 448x448, audio: 16kHz, video: keyframes}
  wakes: {every: 10m, tokens_max: 20000}
"""
    )
    assert intent.workload == Workload(
        inputs=(("image", 0.5), ("video", 0.1)),
        outputs=(("image", 1.0), ("actions", 0.5)),
        input_tokens=Spread(p50=900, p99=900),
        input_audio_s=Spread(p50=4, p99=60),
        input_image=PictureSize(width=1280, height=720),
        input_video_s=Spread(p50=10, p99=10),
        output_image=PictureSize(width=1024, height=1024),
    )
    assert intent.allow == Allow(quantizations=(Quantization.NONE, Quantization.FP8_BLOCK), cache_dtypes=(Dtype.FP8,))
    assert intent.agents == Agents(
        concurrent=200,
        sandbox=Sandbox(language="javascript", memory_bytes=64 << 20, cpus=0.2, wall_s=30),
        state_retention_s=7 * 24 * 3600,
        preprocess=Preprocess(image=PictureSize(width=448, height=448), audio_hz=16000, video=Video.KEYFRAMES),
        wakes=Wakes(every_s=600, tokens_max=20000),
    )


@pytest.mark.parametrize("where", ["fleet: {}", "workload: {{trace: {}}}", "allow: {{cache: {}}}", "{}: 1", "# {}"])
def test_a_megabyte_in_a_field_is_refused_in_few_words(where):
    with pytest.raises(BadInput) as caught:
        intent_from_text(HEAD + where.format("x" * (1 << 20)))
    assert "larger than 65536 bytes" in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing",
        "accord: 1",
        "accord: 2\nname: a\nmodel: m",
        "accord: true",
        "3",
        "[1]",
        "accord: 1\nname: A B\nmodel: m",
        "accord: 1\nname: a\nmodel: ''",
    ],
)
def test_a_document_without_its_head_is_refused(text):
    with pytest.raises(BadInput):
        intent_from_text(text)


def test_a_key_in_the_open_is_never_printed():
    with pytest.raises(BadInput) as caught:
        intent_from_text(HEAD + "serving: {api_key: sk-very-secret}")
    assert "very-secret" not in str(caught.value)


@pytest.mark.parametrize(
    "bomb",
    [
        "k0: &k0 [x, x]\n" + "\n".join(f"k{i}: &k{i} [*k{i - 1}, *k{i - 1}]" for i in range(1, 12)),
        "a: &a [x,x,x,x,x,x,x,x,x]\n" + "b: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\n" + "c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
        + "d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\n" + "e: [*d,*d,*d,*d,*d,*d,*d,*d,*d]",
        "a: &a [*a]",
        "a: " + "[" * 5000,
        "a: " + "{a: " * 5000,
        "\n".join(" " * depth + "a:" for depth in range(300)),
        "- " * 5000 + "x",
        "a: [" + "x, " * 20000 + "x]",
    ],
)  # fmt: skip
def test_bombs_are_refused_quickly(bomb):
    with pytest.raises(BadInput):
        read_text(bomb, what="intent", limits=Limits())


def test_files_that_are_none(tmp_path):
    (tmp_path / "large.yaml").write_text("#" * 70_000)
    (tmp_path / "latin.yaml").write_bytes(b"name: \xe9")
    for name, says in (("none.yaml", "no such file"), ("", "is a folder"), ("large.yaml", "larger than 65536 bytes"),
                       ("latin.yaml", "UTF-8"), ("a\0b", "path")):  # fmt: skip
        with pytest.raises(BadInput, match=says):
            load_intent(tmp_path / name)


def test_an_unreadable_file_is_a_broken_edge(tmp_path):
    loop = tmp_path / "loop.yaml"
    loop.symlink_to(loop)
    with pytest.raises(BrokenEdge, match=r"loop\.yaml"):
        load_intent(loop)


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("objectives.ttf_p99=1s", "did you mean ttft_p99?"),
        ("ttft_p99", "write FIELD=VALUE"),
        ("=1", "write FIELD=VALUE"),
        ("objectives.=1", "write FIELD=VALUE"),
        ("name=", "write FIELD=VALUE"),
        ("name=[", "not YAML"),
        ("objectives.ttft_p99=fast", "write a figure and a unit"),
        ("workload.inputs.audio=3", "from 0 to 1"),
    ],
)
def test_wrong_overrides(override, says):
    with pytest.raises(BadInput) as caught:
        intent_from_text(HEAD, overrides=[override])
    assert says in str(caught.value)
    assert "(line" not in str(caught.value)


def test_overrides_win_and_make_what_is_missing():
    intent = intent_from_text(
        FULL,
        overrides=[
            "objectives.ttft_p99=215ms",
            "objectives.ttft_p99.9=1s",
            "workload.inputs.audio=0.1",
            "budget.per_hour=$3",
        ],
        environ={"KEY": "k"},
    )
    bounds = {(item.metric, item.percentile): item.bound for item in intent.objectives}
    assert bounds[Metric.TTFT, 99] == 0.215
    assert bounds[Metric.TTFT, 99.9] == 1.0
    assert dict(intent.workload.inputs)["audio"] == 0.1
    assert intent.budget == Budget(cost_usd_per_request_max=0.03, cost_usd_per_hour_max=3.0)


def test_the_example_is_an_intent():
    example = Path(__file__).parents[2] / "examples" / "voice-assistant.yaml"
    intent = load_intent(example, environ={})
    assert (intent.model, intent.fleet) == ("embedded-omni", "local")


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(text):
    with contextlib.suppress(AccordError):
        intent_from_text(text, environ={})


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda below: (
        st.lists(below, max_size=3)
        | st.dictionaries(
            st.sampled_from(["accord", "name", "objectives", "ttft_p99", "serving", "port", "x"]), below, max_size=4
        )
    ),
    max_leaves=12,
)


@given(PLAIN)
def test_any_mapping_is_read_or_refused(value):
    document = {"accord": 1, "name": "a", "model": "m", "workload": value, "objectives": value}
    with contextlib.suppress(BadInput):
        intent_from_mapping(document, environ=os.environ)


@given(st.floats(min_value=1e-6, max_value=1e6), st.floats(min_value=0.001, max_value=99.99))
def test_every_figure_survives(bound, percentile):
    name = f"ttft_p{percentile:.4f}".rstrip("0").rstrip(".")
    intent = intent_from_text(HEAD + f"objectives: {{{name}: {bound * 1000!r}ms}}", environ={})
    assert math.isclose(intent.objectives[0].bound, bound, rel_tol=1e-12)
    assert math.isclose(intent.objectives[0].percentile, percentile, abs_tol=1e-4)
