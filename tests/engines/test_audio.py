"""Audio files into windows: formats, rates, lengths, and everything that can be wrong with a file."""

import io
import itertools
import struct
import tracemalloc

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from accord.run.engines.audio import windows
from accord.terms.errors import BadInput


def tone(seconds: float, rate_hz: int, *, pitch_hz: float = 440.0) -> np.ndarray:
    return 0.5 * np.sin(2 * np.pi * pitch_hz * np.arange(int(seconds * rate_hz)) / rate_hz)


def encoded(samples: np.ndarray, rate_hz: int, kind: str = "WAV", subtype: str | None = None) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, rate_hz, format=kind, subtype=subtype)
    return file.getvalue()


def heard(data: bytes, *, audio_s_max: float = 300.0) -> np.ndarray:
    return np.concatenate(list(windows(data, audio_s_max=audio_s_max)))


@pytest.mark.parametrize("kind", ["WAV", "FLAC", "OGG", "MP3"])
@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 24_000, 44_100, 48_000])
def test_a_tone_stays_the_same_tone_at_16_khz(kind: str, rate_hz: int) -> None:
    samples = heard(encoded(tone(2.0, rate_hz), rate_hz, kind))
    assert abs(samples.size - 32_000) < 3_000  # MP3 adds its own padding
    spectrum = np.abs(np.fft.rfft(samples[4_000:28_000]))
    assert np.argmax(spectrum) == 660  # 440 Hz in steps of 16,000 / 24,000 Hz
    assert np.sqrt(np.mean(samples[4_000:28_000] ** 2)) == pytest.approx(0.5 / np.sqrt(2), rel=0.05)


def test_what_lies_above_8_khz_is_filtered_and_not_folded() -> None:
    samples = heard(encoded(tone(1.0, 48_000, pitch_hz=12_000.0), 48_000))
    assert np.abs(samples[1_000:-1_000]).max() < 1e-3


def test_channels_are_mixed() -> None:
    left = tone(1.0, 16_000)
    samples = heard(encoded(np.stack((left, -left), axis=1), 16_000))
    assert np.abs(samples).max() < 1e-4


def test_long_audio_is_cut_where_it_is_quiet_and_nothing_is_lost() -> None:
    samples = tone(50.0, 16_000)
    samples[16_000 * 17 : 16_000 * 17 + 4_000] = 0.0
    cut = list(windows(encoded(samples, 16_000, subtype="FLOAT"), audio_s_max=300.0))
    np.testing.assert_allclose(np.concatenate(cut), samples, atol=1e-6)
    assert all(0 < window.size <= 320_000 for window in cut)
    assert 17.0 <= cut[0].size / 16_000 <= 17.25


def test_a_long_file_never_lies_in_memory_whole() -> None:
    data = encoded(np.zeros(16_000 * 900, np.int16), 16_000, "FLAC")
    tracemalloc.start()
    try:
        total = sum(window.size for window in windows(data, audio_s_max=1_000.0))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert total == 16_000 * 900
    assert peak < 8 << 20  # all of it would be 55 MiB


def zero_hz() -> bytes:
    data = bytearray(encoded(tone(0.1, 16_000), 16_000))
    data[24:28] = struct.pack("<I", 0)
    return bytes(data)


def with_sample(value: float) -> bytes:
    samples = tone(1.0, 16_000)
    samples[5_000] = value
    return encoded(samples, 16_000, subtype="DOUBLE")


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "can't be read"),
        (b"hello " * 1_000, "can't be read"),
        (b"RIFF\x00\x00\x00\x00WAVEfmt nonsense", "can't be read"),
        (encoded(tone(1.0, 16_000), 16_000, "FLAC")[:2_000], "can't be read"),
        (zero_hz(), "can't be read"),
        (encoded(np.zeros(0), 16_000), "no samples"),
        (encoded(tone(1.0, 16_000), 16_000)[:44], "no samples"),
        (encoded(tone(1.0, 16_000), 16_000, "AIFF"), "its format is AIFF"),
        (encoded(tone(1.0, 100), 100), "its rate is 100 Hz"),
        (encoded(np.zeros((100, 12)), 16_000), "it has 12 channels"),
        (with_sample(np.nan), "no numbers"),
        (with_sample(np.inf), "no numbers"),
        (with_sample(1e30), "no numbers"),
        (encoded(np.zeros(16_000 * 301, np.int16), 16_000, "FLAC"), "longer than the 300 s"),
    ],
)
def test_a_bad_file_is_bad_input_that_says_what_to_do(data: bytes, problem: str) -> None:
    with pytest.raises(BadInput, match=problem) as caught:
        heard(data)
    assert caught.value.field == "input_audio"
    assert "; send " in str(caught.value)


def test_ten_hours_are_refused_before_any_sample_is_read() -> None:
    hours = 1_000 * 3_600 * 10
    data = encoded(np.zeros(100, np.int16), 1_000, subtype="PCM_U8") + bytes(hours)
    header = bytearray(data[:44])
    struct.pack_into("<I", header, 4, len(data) - 8)
    struct.pack_into("<I", header, 40, hours + 100)
    reads = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(soundfile.SoundFile, "read", lambda *_, **__: reads.append(1))
        with pytest.raises(BadInput, match="longer than the 300 s"):
            next(windows(bytes(header) + data[44:], audio_s_max=300.0))
    assert not reads


def test_a_header_that_promises_little_does_not_let_more_through() -> None:
    data = bytearray(encoded(tone(20.0, 16_000), 16_000, "FLAC"))
    first = bytearray(data[18:26])  # STREAMINFO: rate, channels, bits, then 36 bits of sample count
    first[3] &= 0xF0
    first[4:8] = bytes(4)  # a count of 0 means unknown
    data[18:26] = first
    with pytest.raises(BadInput):
        heard(bytes(data), audio_s_max=10.0)


WHOLE = {kind: encoded(tone(0.5, 16_000), 16_000, kind) for kind in ("WAV", "FLAC", "OGG", "MP3")}


@given(
    kind=st.sampled_from(sorted(WHOLE)),
    cut=st.floats(0.0, 1.0),
    edits=st.lists(st.tuples(st.floats(0.0, 0.999), st.integers(0, 255)), max_size=8),
)
def test_a_damaged_file_is_heard_or_refused(kind: str, cut: float, edits: list[tuple[float, int]]) -> None:
    data = bytearray(WHOLE[kind][: int(len(WHOLE[kind]) * cut)])
    for at, value in edits:
        if data:
            data[int(at * len(data))] = value
    try:
        for window in itertools.islice(windows(bytes(data), audio_s_max=60.0), 8):
            assert np.isfinite(window).all()
            assert 0 < window.size <= 320_000
    except BadInput as error:
        assert error.field == "input_audio"
