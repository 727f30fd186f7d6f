"""Whisper's log-mel spectrogram, in numpy.

In: 16 kHz mono float32 samples. Out: an (80, frames) float32 array, 100 frames a second.
Invariant: for the same samples, padded with silence alike, it agrees with OpenAI's reference
(Radford et al., "Robust Speech Recognition via Large-Scale Weak Supervision", 2022).
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

RATE_HZ = 16_000
HOP = 160
MELS = 80
_FFT = 400
_BREAK_HZ = 1000.0  # Slaney's mel scale: linear below, logarithmic above
_MELS_AT_BREAK = 15.0
_LOG_STEP = np.log(6.4) / 27.0


def log_mel(samples: NDArray[np.float32], *, frames: int) -> NDArray[np.float32]:
    """(n,) samples -> (80, frames); audio beyond `frames` is left out, missing audio is silence."""
    padded = np.zeros(frames * HOP + _FFT, np.float32)
    used = samples[: frames * HOP + _FFT // 2]
    padded[_FFT // 2 : _FFT // 2 + used.size] = used
    # The reference mirrors the first half window to the left of the first sample.
    mirror = used[1 : _FFT // 2 + 1][::-1]
    padded[_FFT // 2 - mirror.size : _FFT // 2] = mirror
    windows = np.lib.stride_tricks.sliding_window_view(padded, _FFT)[::HOP][:frames]
    spectrum = np.fft.rfft(windows * _hann())
    power = spectrum.real**2 + spectrum.imag**2
    mel = np.log10(np.maximum(_filters() @ power.T, 1e-10))
    return np.ascontiguousarray((np.maximum(mel, mel.max() - 8.0) + 4.0) / 4.0, dtype=np.float32)


@lru_cache(maxsize=1)
def _hann() -> NDArray[np.float32]:
    return np.hanning(_FFT + 1)[:-1].astype(np.float32)


@lru_cache(maxsize=1)
def _filters() -> NDArray[np.float32]:
    """(80, 201) triangles of equal area, evenly spaced on Slaney's mel scale (Auditory Toolbox, 1998)."""
    bins_hz = np.fft.rfftfreq(_FFT, 1.0 / RATE_HZ)
    top_mel = _MELS_AT_BREAK + np.log(RATE_HZ / 2 / _BREAK_HZ) / _LOG_STEP
    edges_hz = _hz(np.linspace(0.0, top_mel, MELS + 2))
    low, centre, high = edges_hz[:-2, None], edges_hz[1:-1, None], edges_hz[2:, None]
    rising = (bins_hz - low) / (centre - low)
    falling = (high - bins_hz) / (high - centre)
    triangles = np.maximum(0.0, np.minimum(rising, falling)) * (2.0 / (high - low))
    return triangles.astype(np.float32)


def _hz(mels: NDArray[np.float64]) -> NDArray[np.float64]:
    linear = mels * (_BREAK_HZ / _MELS_AT_BREAK)
    logarithmic = _BREAK_HZ * np.exp(_LOG_STEP * (mels - _MELS_AT_BREAK))
    return np.where(mels < _MELS_AT_BREAK, linear, logarithmic)
