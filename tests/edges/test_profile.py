"""How stages are measured: figures by hand, and real children with the fake engine."""

import time
from pathlib import Path

import pytest

from accord.edges import profile_local
from accord.edges.profile_child import measure
from accord.edges.profile_local import profile_key, stage_speeds, takes, thread_counts
from accord.edges.profile_samples import CROWD, costs, first_use_s, question, trials
from accord.edges.profile_wire import NUMBER, Order, Piece, Report, Result, Run, Trial
from accord.models import embedded
from accord.run.payloads import unpack_prompt
from accord.run.ports import EngineSpec
from accord.terms.errors import BrokenEdge
from accord.terms.estimate import Source
from accord.terms.graph import DOOR, Batching, Capability, Edge, Payload, Stage, StageGraph
from accord.terms.machine import Machine
from accord.terms.request import Usage
from accord.terms.speed import Model, Quantity, RequestShape, StageEngine

TWO_CORES = Machine(cores=2, memory_bytes=1 << 33, cpu_model="a laptop")


def result(name, *runs, written=32, usage=None, output_bytes=0):
    return Result(
        name=name,
        runs=tuple(Run(first_s=first, total_s=total, written=written) for first, total in runs),
        usage=usage or Usage(prompt_tokens=50, completion_tokens=32, audio_s=4.0),
        output_bytes=output_bytes,
    )


def test_a_recognizer_costs_its_fastest_run_and_the_spread_is_its_doubt():
    found, work = costs(Payload.AUDIO, {"hear": result("hear", (0.1, 0.2), (0.1, 0.1), (0.1, 0.3))}, spoken_s=0)
    assert [(cost.quantity, cost.alone_s) for cost in found] == [(Quantity.AUDIO_IN_S, pytest.approx(0.025))]
    assert (work.value, work.unit, work.source) == (pytest.approx(250), "ms / 10 s audio", Source.MEASURED)
    assert work.uncertainty == pytest.approx(1.0)


def test_a_language_model_costs_reading_writing_and_writing_together():
    # Alone: 50 tokens read in 0.1 s, then 31 more at 10 ms. Together: eight are read in 0.8 s, and write 120
    # tokens after their first ones in 0.24 s.
    alone = result("decode", (0.1, 0.41), written=32)
    crowd = result("crowd", (0.1, 1.04), written=CROWD * 16)
    found, work = costs(Payload.PROMPT, {"decode": alone, "crowd": crowd}, spoken_s=0)
    figures = {cost.quantity: (cost.alone_s, cost.shared_s) for cost in found}
    assert figures[Quantity.PROMPT_TOKEN] == (pytest.approx(0.002), pytest.approx(0.002))
    assert figures[Quantity.OUTPUT_TOKEN] == (pytest.approx(0.010), pytest.approx(0.002))
    assert work.unit == "ms / token, reads 500 tokens/s"


def test_a_model_that_writes_nothing_is_not_given_a_speed():
    empty = result("decode", (0.1, 0.1), written=1)
    with pytest.raises(BrokenEdge, match="weights look wrong"):
        costs(Payload.PROMPT, {"decode": empty, "crowd": result("crowd", (0.1, 1.0))}, spoken_s=0)


def test_a_voice_is_measured_against_the_sound_it_gave():
    found, work = costs(Payload.SPECTRUM, {"sound": result("sound", (0.1, 0.2))}, spoken_s=10.0)
    assert found[0].alone_s == pytest.approx(0.02)
    assert (work.value, work.unit) == (pytest.approx(50), "x real time")


def test_the_first_use_is_what_the_first_run_took_besides():
    runs = ((0.0, 0.5), (0.0, 0.2), (0.0, 0.3), (0.0, 0.25))
    assert first_use_s({"decode": result("decode", *runs), "crowd": result("crowd", (0.0, 9.0))}) == pytest.approx(0.25)
    assert first_use_s({"hear": result("hear", (0.0, 0.1), (0.0, 0.2))}) == 0.0
    assert first_use_s({"hear": result("hear", (0.0, 0.1))}) == 0.0


def test_every_job_asks_something_else():
    """An engine keeps what it has read: the same prompt twice would measure its memory."""
    for trial in trials(Payload.PROMPT, ()):
        (piece,) = trial.pieces
        texts = [unpack_prompt(piece.data.replace(NUMBER, b"%d" % number)) for number in (1, 2)]
        assert texts[0] != texts[1]


def test_the_samples_are_real():
    import io

    import soundfile
    from PIL import Image

    assert 2 < soundfile.info(io.BytesIO(question())).duration < 10
    (see,) = trials(Payload.IMAGE, ())
    with Image.open(io.BytesIO(see.pieces[0].data)) as picture:
        assert picture.size == (640, 480)


def test_a_child_counts_only_time_inside_the_engine():
    spec = EngineSpec(
        engine="fake",
        stage="s",
        threads=1,
        batch_max=8,
        memory_bytes=0,
        options=(("mode", "tokens"), ("tokens", "5"), ("work_us", "3000")),
    )
    piece = Piece(source=DOOR, payload=Payload.TEXT, data=b"hello")
    report = measure(Order(spec=spec, trials=(Trial(name="t", pieces=(piece,), copies=2),), time_s_max=0.0))
    (measured,) = report.results
    assert len(measured.runs) == 3
    for run in measured.runs:
        assert run.total_s >= 5 * 0.003  # sleep doesn't end early
        assert run.first_s < run.total_s
    assert measured.output_bytes > 0


def one_stage(payload=Payload.TEXT, out=Payload.PCM):
    graph = StageGraph(
        model="one",
        stages=(Stage(name="only", capabilities=(Capability.VOCODE,), batching=Batching.PLAIN),),
        edges=(
            Edge(name="in", source=DOOR, target="only", payload=payload),
            Edge(name="out", source="only", target=DOOR, payload=out),
        ),
    )
    shape = RequestShape(
        audio_in_s=1, pictures=1, prompt_tokens=1, output_tokens=1, clause_tokens=1, speech_s_per_token=1
    )
    return Model(graph=graph, engines=(StageEngine(stage="only", engine="fake"),), shape=shape)


def scripted(monkeypatch, **options):
    pairs = tuple((name, str(value)) for name, value in options.items())
    monkeypatch.setattr(profile_local, "engine_options", lambda *_, **__: pairs)


def speeds(model, home, machine=TWO_CORES, told=None):
    def progress(*step):
        if told is not None:
            told.append(step)

    return stage_speeds(model, machine=machine, home=home, assets={}, progress=progress)


def test_a_real_child_measures_and_the_figures_are_kept(monkeypatch, tmp_path):
    # 4 blocks of 48,000 bytes are 4 s of sound, each taking 2 ms and more: at most 500 x real time.
    scripted(monkeypatch, mode="chunks", tokens=4, chunk_bytes=48_000, work_us=2000, out="pcm")
    told: list[tuple[str, int, int]] = []
    found = speeds(one_stage(), tmp_path, told=told)
    assert [(speed.stage, speed.threads) for speed in found] == [("only", 1), ("only", 2)]
    assert all(0 < speed.work.value <= 500 for speed in found)
    assert told == [("only", 0, 2), ("only", 1, 2), ("", 2, 2)]
    monkeypatch.setattr(profile_local, "_in_child", lambda _: pytest.fail("measured twice"))
    assert speeds(one_stage(), tmp_path) == found


def test_kept_figures_that_are_damaged_are_measured_again(monkeypatch, tmp_path):
    scripted(monkeypatch, mode="chunks", tokens=2, chunk_bytes=48_000, out="pcm")
    kept = tmp_path / "profiles" / f"{profile_key(one_stage(), TWO_CORES)}.json"
    kept.parent.mkdir()
    kept.write_text('[{"stage": "only"')
    assert len(speeds(one_stage(), tmp_path)) == 2
    assert [path.name for path in kept.parent.iterdir()] == [kept.name]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"mode": "nonsense"}, "mode"),
        ({"mode": "tokens", "fail_at": 2}, "scripted to fail"),
        ({"mode": "tokens", "crash_at": 1}, "ended with status 70"),
        ({"mode": "tokens", "raise_at": 1}, "scripted to break"),
    ],
)
def test_a_stage_that_fails_is_a_broken_edge_in_words(monkeypatch, tmp_path, options, says):
    scripted(monkeypatch, **options)
    with pytest.raises(BrokenEdge, match=says):
        speeds(one_stage(), tmp_path)
    assert not (tmp_path / "profiles").exists()


def test_a_stage_that_hangs_is_ended(monkeypatch, tmp_path):
    scripted(monkeypatch, mode="tokens", hang_at=1)
    monkeypatch.setattr(profile_local, "_CHILD_S_MAX", 3.0)
    before = time.monotonic()
    with pytest.raises(BrokenEdge, match="took longer than 3 s"):
        speeds(one_stage(), tmp_path)
    assert time.monotonic() - before < 60


def test_an_acoustic_stage_waits_for_the_sound_of_its_words(monkeypatch, tmp_path):
    """Two stages of one voice: 2 s of sound from the second give both their speed."""
    runs = (Run(first_s=0.1, total_s=0.1, written=0),) * 3
    fed: dict[str, tuple[Piece, ...]] = {}

    def child(order):
        stage = order.spec.stage
        fed[stage] = order.trials[0].pieces
        spectrum = (Piece(source="", payload=Payload.SPECTRUM, data=b"xyz"),) if stage == "acoustic" else ()
        usage = Usage(prompt_tokens=50, completion_tokens=32, audio_s=4.0)
        given = 96_000 if stage == "vocoder" else 3
        results = tuple(
            Result(
                name=trial.name,
                runs=tuple(Run(first_s=run.first_s, total_s=run.total_s + 1, written=256) for run in runs),
                usage=usage,
                output_bytes=given,
                output=spectrum,
            )
            for trial in order.trials
        )
        return Report(results=results)

    monkeypatch.setattr(profile_local, "_in_child", child)
    model = embedded.model()
    assets = {asset: Path("/nowhere") for row in model.engines for asset in row.assets}
    found = stage_speeds(model, machine=TWO_CORES, home=tmp_path, assets=assets, progress=lambda *_: None)
    wanted = {(stage.name, threads) for stage in model.graph.stages for threads in (1, 2)}
    assert {(speed.stage, speed.threads) for speed in found} == wanted
    assert len(found) == len(wanted)
    voice = {speed.stage: speed.costs[0].alone_s for speed in found if speed.stage in {"acoustic", "vocoder"}}
    assert voice == {"acoustic": pytest.approx(0.55), "vocoder": pytest.approx(0.55)}
    assert [(piece.source, piece.data) for piece in fed["vocoder"]] == [("acoustic", b"xyz")]


def test_the_key_depends_on_what_the_figures_depend_on():
    model = embedded.model()
    keys = {
        profile_key(model, TWO_CORES),
        profile_key(model, Machine(cores=4, cpu_model="a laptop")),
        profile_key(model, Machine(cores=2, cpu_model="another")),
        profile_key(one_stage(), TWO_CORES),
    }
    assert len(keys) == 4
    # Free memory changes from minute to minute, and no speed depends on it.
    assert profile_key(model, Machine(cores=2, memory_bytes=1, cpu_model="a laptop")) in keys


def test_threads_and_inputs_to_measure_with():
    assert [thread_counts(Machine(cores=cores)) for cores in (None, 1, 2, 4, 8, 64)] == [
        (1,), (1,), (1, 2), (1, 2), (1, 2, 4), (1, 2, 4),
    ]  # fmt: skip
    graph = embedded.graph()
    assert [takes(graph, stage.name) for stage in graph.stages] == [
        Payload.AUDIO, Payload.IMAGE, Payload.PROMPT, Payload.TEXT, Payload.SPECTRUM,
    ]  # fmt: skip
