"""`accord demo`: the main job once, on this machine.

In: the intent that comes with Accord, or another; a spoken question. Out: the plan, the streamed answer,
a WAV file, a time line, and objectives against what was measured.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

import click
import msgspec
from rich.console import Console

from accord.cli.flow import Prepared, planned_freely, prepare, show_plan, show_refusal
from accord.cli.live import run_to_end, running
from accord.cli.options import json_option, overrides_of, set_option
from accord.cli.words import console, print_json, show_rows
from accord.edges.intent_file import load_intent
from accord.edges.profile_samples import question
from accord.edges.result_files import save_bytes, save_wav, sound_s
from accord.explain import Rows, bound_words, objective_words
from accord.operate import Answer, ask, bottleneck
from accord.plan.local.question import Question
from accord.plan.local.single import Size, first_request
from accord.run.payloads import PCM_RATE_HZ, Message, Prompt, StagePart, TextPart, pack_prompt
from accord.run.timeline import Leg, critical_path
from accord.terms import units
from accord.terms.errors import BadInput
from accord.terms.graph import DOOR, Payload, StageGraph
from accord.terms.intent import Intent, Metric
from accord.terms.plan import Plan
from accord.terms.refusal import Refusal
from accord.terms.request import Output, Params, Part, Request
from accord.terms.status import Activity, ObjectiveStatus

_OWN_COPY = Path("examples/voice-assistant.yaml")  # the same file, where the repository shows it
_MANNER = "You are a helpful voice assistant. Answer in two or three short sentences."
_SHOWN = (Activity.BUSY, Activity.STARVED, Activity.BLOCKED, Activity.TRANSFERRING, Activity.IDLE)


@click.command(short_help="Do the main job once.")
@click.argument("intent", type=click.Path(path_type=Path), required=False)
@set_option
@click.option("--question", "spoken", type=click.Path(path_type=Path), help="Ask this recording (WAV, FLAC, OGG, MP3).")
@click.option("--out", type=click.Path(path_type=Path), default=Path("out"), help="Folder for results (default: out).")
@json_option
def demo(*, intent: Path | None, overrides: tuple[str, ...], spoken: Path | None, out: Path, as_json: bool) -> int:
    """Start the embedded model, ask it a spoken question, and report what was measured.

    INTENT is a YAML file; without it the voice assistant that comes with Accord is run.
    """
    words = console(quiet=as_json)
    wanted = _intent(intent, overrides_of(overrides, None))
    sound = question() if spoken is None else _recording(spoken)
    sound_s(sound)  # a file that is no recording is refused before anything is started
    prepared = _at_its_best(prepare(wanted, words, verify=True), words)
    match prepared.answer:
        case Refusal() as refusal:
            return show_refusal(refusal, words, as_json=as_json)
        case plan:
            show_plan(prepared, plan, words)
            results = run_to_end(_asked(prepared, plan, sound, words=words, out=out))
    if as_json:
        print_json(_report(results, out))
        return 0
    _show_results(results, words=words, out=out)
    door = f"http://{wanted.serving.host}:{wanted.serving.port}"
    words.print(f"  Next:  {_command()} up {intent or _OWN_COPY}   then open {door}")
    return 0


def _command() -> str:
    """How this command was called, so that the next line can be pasted."""
    called, here = Path(sys.argv[0]), Path.cwd()
    if called.name != "accord":
        return "accord"
    return str(called.relative_to(here) if called.is_relative_to(here) else called)


def _intent(path: Path | None, overrides: tuple[str, ...]) -> Intent:
    if path is not None:
        return load_intent(path, overrides=overrides)
    with as_file(files("accord").joinpath("assets", "voice-assistant.yaml")) as own:
        return load_intent(own, overrides=overrides)


def _at_its_best(prepared: Prepared, words: Console) -> Prepared:
    """On a machine too slow for an objective the demo still runs, and says which one will be missed."""
    refusal = prepared.answer
    if not isinstance(refusal, Refusal) or not refusal.field.startswith("objectives."):
        return prepared
    words.print(f"  {refusal.field} = {refusal.value} can't be met here: {refusal.limit}.")
    words.print("  The demo runs all the same; `accord plan` and `accord up` would refuse.")
    return planned_freely(prepared)


def _recording(path: Path) -> bytes:
    fix = "name a recording of at most 32 MiB"
    try:
        data = path.read_bytes() if path.stat().st_size <= 32 << 20 else b""
    except (OSError, ValueError) as error:
        raise BadInput(field="--question", value=str(path), problem=f"can't be read: {error}", fix=fix) from error
    if not data:
        raise BadInput(field="--question", value=str(path), problem="empty or too large", fix=fix)
    return data


async def _asked(prepared: Prepared, plan: Plan, sound: bytes, *, words: Console, out: Path) -> "Results":
    async with running(prepared, plan, words) as runtime:
        speaker = _Speaker(words, sound)
        answer = await ask(runtime, spoken_request(plan.graph, sound), hear=speaker.hear)
        speaker.end()
        save_wav(out / "answer.wav", answer.pcm, rate_hz=PCM_RATE_HZ)
        await runtime.settled()
        save_bytes(out / "timeline.json", await runtime.timeline())
        way = critical_path(plan.graph, runtime.recent[-1], _last_output(plan.graph)) if runtime.recent else ()
        expected = _expected(prepared, plan, sound, answer)
        return Results(answer=answer, objectives=runtime.status().objectives, way=way, expected=expected)


def _expected(prepared: Prepared, plan: Plan, sound: bytes, answer: Answer) -> Mapping[Metric, float]:
    """What the measured speeds of the stages say of a request and an answer of these sizes."""
    question = Question(intent=prepared.intent, model=prepared.model, speeds=prepared.speeds, machine=prepared.machine)
    size = Size(
        audio_in_s=sound_s(sound),
        prompt_tokens=answer.usage.prompt_tokens,
        output_tokens=answer.usage.completion_tokens,
    )
    return first_request(question, plan, size)


def spoken_request(graph: StageGraph, sound: bytes) -> Request:
    """A chat whose one question is a recording; the answer is wanted as text and speech."""
    listener = next((e for e in graph.edges if e.source == DOOR and e.payload is Payload.AUDIO), None)
    reader = next((e for e in graph.edges if e.source == DOOR and e.payload is Payload.PROMPT), None)
    if listener is None or reader is None:
        fix = "use a model that hears, such as embedded-omni"
        raise BadInput(field="model", value=graph.model, problem="it takes no spoken question", fix=fix)
    prompt = Prompt(
        messages=(
            Message(role="system", parts=(TextPart(text=_MANNER),)),
            Message(role="user", parts=(StagePart(stage=listener.target, index=0),)),
        )
    )
    return Request(
        parts=(Part(edge=listener.name, data=sound), Part(edge=reader.name, data=pack_prompt(prompt))),
        outputs=frozenset(edge.name for edge in graph.edges if edge.target == DOOR),
        params=Params(max_tokens=96),
    )


class _Speaker:
    """Prints the question, then the answer as it streams. An answer that is faster than the question waits."""

    def __init__(self, words: Console, sound: bytes) -> None:
        self._words = words
        self._length = units.format_duration_s(sound_s(sound), digits=2)
        self._early = ""
        self._asked = False

    def hear(self, output: Output) -> None:
        """One output of the service."""
        if output.payload is not Payload.TEXT:
            return
        text = output.data.decode(errors="replace")
        if output.edge == "transcript":
            self._words.print(f'  You (spoken, {self._length}):  "{text.strip()}"')
            self._words.print(f"  Accord:  {self._early.lstrip()}", end="")
            self._asked = True
        elif self._asked:
            self._words.print(text, end="")
        else:
            self._early += text

    def end(self) -> None:
        """Closes the line."""
        self._words.print("" if self._asked else f"  Accord:  {self._early.strip()}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What one question gave. `way` is how the first chunk of its last output came about.

    `expected` are seconds that were to be expected of it, by the stages' measured speeds.
    """

    answer: Answer
    objectives: tuple[ObjectiveStatus, ...]
    way: tuple[Leg, ...]
    expected: Mapping[Metric, float]


def _last_output(graph: StageGraph) -> str:
    """The output whose first chunk is waited for longest: speech where there is any."""
    ends = [edge for edge in graph.edges if edge.target == DOOR]
    return next((edge.name for edge in ends if edge.payload is Payload.PCM), ends[-1].name)


def _show_results(results: Results, *, words: Console, out: Path) -> None:
    answer = results.answer
    spoken_s = units.format_duration_s(len(answer.pcm) / 2 / PCM_RATE_HZ, digits=3)
    words.print(f"  Spoken answer: {out / 'answer.wav'} ({spoken_s})    ", end="")
    words.print(f"Time line: {out / 'timeline.json'} (open in ui.perfetto.dev)")
    if results.objectives:
        show_rows(words, objective_rows(results.objectives, results.expected), indent=2)
    show_rows(words, time_rows(answer), indent=2)
    slowest = bottleneck(answer.stages)
    words.print(
        f"  Bottleneck: {slowest.stage}, busy {slowest.busy:.0%} of the time in which it had work; "
        f"bubble {slowest.bubble:.0%} (starved {slowest.starved:.0%}, blocked {slowest.blocked:.0%}, "
        f"transfer {slowest.transferring:.0%})"
    )
    if results.way:
        legs = " · ".join(f"{leg.stage} {units.format_duration_s(leg.took_s, digits=3)}" for leg in results.way)
        words.print(f"  Way to the first sound: {legs}")


def objective_rows(objectives: tuple[ObjectiveStatus, ...], expected: Mapping[Metric, float]) -> Rows:
    """Objectives against what was to be expected of this question, and what was measured."""
    rows = []
    for item in objectives:
        wanted, got, met = bound_words(item.objective, item.objective.bound), "not measured", ""
        if item.measured is not None:
            got = bound_words(item.objective, item.measured)
            met = "met" if item.measured <= item.objective.bound else "missed"
        told = expected.get(item.objective.metric)
        foreseen = "" if told is None else bound_words(item.objective, told)
        rows.append((f"  {objective_words(item.objective)}", wanted, foreseen, got, met))
    return (("Objectives", "wanted", "expected", "got", ""), *rows)


def time_rows(answer: Answer) -> Rows:
    """Where each stage's time went while the request was under way."""
    rows = [
        (f"  {stage.stage}", *(f"{stage.share(activity):.0%}" for activity in _SHOWN))
        for stage in answer.stages
        if stage.share(Activity.IDLE) < 1
    ]
    return (("Where time went", "busy", "starved", "blocked", "transfer", "idle"), *rows)


def _report(results: Results, out: Path) -> dict[str, object]:
    answer = results.answer
    return {
        "transcript": answer.transcript,
        "text": answer.text,
        "first_text_s": answer.first_text_s,
        "first_audio_s": answer.first_audio_s,
        "latency_s": answer.latency_s,
        "expected_s": {metric.value: seconds for metric, seconds in results.expected.items()},
        "audio_s": len(answer.pcm) / 2 / PCM_RATE_HZ,
        "answer": str(out / "answer.wav"),
        "timeline": str(out / "timeline.json"),
        "objectives": msgspec.to_builtins(results.objectives),
        "stages": msgspec.to_builtins(answer.stages),
        "bottleneck": msgspec.to_builtins(bottleneck(answer.stages)),
        "critical_path": msgspec.to_builtins(results.way),
    }
