"""Log-mel spectrograms against transformers' WhisperFeatureExtractor; see data/README.md for how that was run."""

from pathlib import Path

import numpy as np
import pytest

from accord.run.engines.mel import log_mel

REFERENCE = np.load(Path(__file__).parent / "data" / "log_mel_reference.npy")


def sweep() -> np.ndarray:
    """Two seconds of a rising tone in noise, with a silent gap."""
    n = np.arange(33_000, dtype=np.int64)
    tone = np.sin(2 * np.pi * (100 * n / 16_000 + 1750 * (n / 16_000) ** 2))
    samples = (0.3 * tone + 0.1 * ((n * 7919 % 1009) / 1009 - 0.5)).astype(np.float32)
    samples[20_000:24_000] = 0
    return samples


@pytest.mark.parametrize("frames", [232, 300, 3000])
def test_log_mel_agrees_with_the_reference_whatever_the_padding(frames: int) -> None:
    mel = log_mel(sweep(), frames=frames)
    assert mel.shape == (80, frames)
    assert mel.dtype == np.float32
    np.testing.assert_allclose(mel[:, :232:4], REFERENCE, atol=1e-5)


def test_audio_beyond_the_frames_is_left_out() -> None:
    samples = np.concatenate((sweep(), np.zeros(400, np.float32), sweep()))
    np.testing.assert_array_equal(log_mel(samples, frames=200), log_mel(samples[: 200 * 160 + 200], frames=200))


@pytest.mark.parametrize("count", [0, 1, 7, 160, 199, 200, 201])
def test_very_short_audio_is_silence_with_a_blip(count: int) -> None:
    mel = log_mel(np.ones(count, np.float32), frames=300)
    assert np.isfinite(mel).all()
