"""The second half of the voice: hibari's waveform step.

In: SPECTRUM chunks, one clause each. Out: one PCM chunk for each: 24 kHz, with the clause's text.
Invariant: the same clauses with the same seed give the same bytes, whatever else is being spoken.
"""

from math import prod

import msgspec
import numpy as np
from numpy.typing import NDArray

from accord.run.engines.hibari_acoustic import BINS, TENSORS
from accord.run.engines.options import read_options
from accord.run.engines.plain import WAIT, Inbox, PlainEngine, Work
from accord.run.payloads import PCM_RATE_HZ, PcmMeta, SpectrumMeta
from accord.run.ports import Chunk, Emission, Engine, EngineSpec, Job
from accord.terms.errors import BadInput, BrokenEdge
from accord.terms.graph import Payload

_PEAK = 32767.0


class _Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """None."""


def load(spec: EngineSpec) -> Engine:
    """A PlainEngine over `hibari.dsp`, which runs on one thread."""
    from hibari import dsp

    read_options(spec, _Options)
    if dsp.SR != PCM_RATE_HZ:
        raise BrokenEdge(
            f"stages.{spec.stage}: hibari speaks at {dsp.SR} Hz, not {PCM_RATE_HZ}; install hibari-tts 0.2"
        )
    return PlainEngine(_work)


def _work(job: Job, inbox: Inbox) -> Work:
    # Breath and hiss are noise. It is seeded even without a seed: the same text gives the same sound.
    noise = np.random.default_rng(job.params.seed or 0)
    while True:
        chunk = inbox.take()
        if chunk is not None:
            index = chunk.index
            try:
                meta = _meta(chunk)
                wave = _wave(chunk, meta, noise)
            finally:
                chunk.release()
            yield (_emission(job.request_id, index, wave, meta.text),)
        elif inbox.ended:
            return None
        else:
            yield WAIT


def _meta(chunk: Chunk) -> SpectrumMeta:
    """The shapes, once they are known to fit the data and each other."""
    try:
        meta = msgspec.msgpack.decode(chunk.meta, type=SpectrumMeta)
    except msgspec.DecodeError as error:
        raise _bad(chunk, f"its meta can't be read: {error}") from error
    names, shapes = meta.tensors.names, meta.tensors.shapes
    frames = shapes[-1][0] if shapes and len(shapes[-1]) == 1 else 0
    if names != TENSORS or frames < 1 or shapes != ((BINS, frames),) * 5 + ((frames,),):
        raise _bad(chunk, f"its tensors are {dict(zip(names, shapes, strict=False))}")
    if 4 * sum(map(prod, shapes)) != len(chunk.data):
        raise _bad(chunk, "it isn't as long as its tensors")
    return meta


def _bad(chunk: Chunk, problem: str) -> BadInput:
    fix = f"send what hibari-acoustic makes: {', '.join(TENSORS)}"
    return BadInput(field="spectrum", value=f"{len(chunk.data)} bytes", problem=problem, fix=fix)


def _wave(chunk: Chunk, meta: SpectrumMeta, noise: np.random.Generator) -> NDArray[np.float32]:
    """(601, frames) tensors and f0 -> (300 * frames,) samples from -1 to 1."""
    from hibari import dsp

    samples: NDArray[np.float32] = dsp.synth(*_tensors(chunk.data, meta), noise)
    return samples


def _tensors(data: memoryview, meta: SpectrumMeta) -> list[NDArray[np.float32]]:
    """Views into the sender's memory, without a copy."""
    tensors, at = [], 0
    for shape in meta.tensors.shapes:
        count = prod(shape)
        tensors.append(np.frombuffer(data, np.float32, count, at).reshape(shape))
        at += 4 * count
    return tensors


def _emission(request_id: int, index: int, wave: NDArray[np.float32], text: str) -> Emission:
    pcm = (np.clip(wave, -1.0, 1.0) * _PEAK).astype("<i2")
    return Emission(
        request_id=request_id,
        payload=Payload.PCM,
        index=index,
        buffers=(pcm.data.cast("B"),),
        meta=msgspec.msgpack.encode(PcmMeta(rate_hz=PCM_RATE_HZ, text=text)),
    )
