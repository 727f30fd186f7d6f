"""Engine adapters: each drives one existing engine through the `Engine` port.

In: an `EngineSpec`. Out: an `Engine`. May import: terms, run.ports, run.payloads. A new engine is one file
and one row of `ENGINES`. Heavy packages are imported inside `load`, never at import.
"""

import difflib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass

from accord.run.ports import Engine, EngineSpec
from accord.terms.errors import AccordError, BadInput, BrokenEdge
from accord.terms.graph import Batching

# What every process with an engine finds in its environment. ONNX Runtime's wheels for Linux report usage to
# their makers, and leave a file in the temporary folder, unless they are told not to (seen in 1.32).
ENVIRON = {"ORT_DISABLE_TELEMETRY": "1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRow:
    """One engine. `needs` maps what it imports to what `pip install` calls it."""

    does: str
    batching: Batching
    loads: Callable[[EngineSpec], Engine]
    needs: tuple[tuple[str, str], ...] = ()


def load(spec: EngineSpec) -> Engine:
    """The engine that `spec` names, ready to be fed.

    Raises BadInput for an engine that isn't in the table or options that it doesn't know, and BrokenEdge
    for a missing package, or weights that are missing or unreadable.
    """
    row = ENGINES.get(spec.engine)
    if row is None:
        near = difflib.get_close_matches(spec.engine, ENGINES, n=1, cutoff=0.5)
        meant = f"did you mean {near[0]}?" if near else f"use one of {', '.join(sorted(ENGINES))}"
        raise BadInput(field=f"stages.{spec.stage}.engine", value=spec.engine, problem="no such engine", fix=meant)
    for module, package in row.needs:
        if importlib.util.find_spec(module) is None:
            raise BrokenEdge(_missing(spec, package))
    try:
        return row.loads(spec)
    except AccordError:
        raise
    except FileNotFoundError as error:
        raise BrokenEdge(
            f"stages.{spec.stage}: {error.filename or error}: weights of engine {spec.engine} are missing; "
            "`accord plan INTENT` fetches them again"
        ) from error
    except Exception as error:
        # Each library has its own exceptions for a broken file; what they share is that loading failed.
        if isinstance(error, MemoryError) or "alloc" in str(error):
            raise BrokenEdge(
                f"stages.{spec.stage}: engine {spec.engine} has no memory to load: {error}; "
                "free some, or raise the limit that holds it down"
            ) from error
        places = ", ".join(f"{name} in {folder}" for name, folder in spec.assets) or "its options"
        raise BrokenEdge(
            f"stages.{spec.stage}: engine {spec.engine} can't load from {places}: "
            f"{type(error).__name__}: {error}; fetch the weights again, or choose another engine"
        ) from error


def _missing(spec: EngineSpec, package: str) -> str:
    return f"stages.{spec.stage}: engine {spec.engine} needs the package {package}; pip install {package}"


def _onnxruntime(spec: EngineSpec) -> Engine:
    from accord.run.engines import ort_llama

    return ort_llama.load(spec)


def _llamacpp(spec: EngineSpec) -> Engine:
    from accord.run.engines import llamacpp

    return llamacpp.load(spec)


def _openai_http(spec: EngineSpec) -> Engine:
    from accord.run.engines import openai_http

    return openai_http.load(spec)


def _ctranslate2(spec: EngineSpec) -> Engine:
    from accord.run.engines import whisper

    return whisper.load(spec)


def _hibari_acoustic(spec: EngineSpec) -> Engine:
    from accord.run.engines import hibari_acoustic

    return hibari_acoustic.load(spec)


def _hibari_vocoder(spec: EngineSpec) -> Engine:
    from accord.run.engines import hibari_vocoder

    return hibari_vocoder.load(spec)


def _vision(spec: EngineSpec) -> Engine:
    from accord.run.engines import vision

    return vision.load(spec)


def _fake(spec: EngineSpec) -> Engine:
    from accord.run.engines import fake

    return fake.load(spec)


ENGINES: dict[str, EngineRow] = {
    "onnxruntime": EngineRow(
        does="Llama-family GGUF weights as an ONNX Runtime graph: prompts to text",
        batching=Batching.CONTINUOUS,
        loads=_onnxruntime,
        needs=(
            ("onnxruntime", "onnxruntime"),
            ("onnx", "onnx"),
            ("gguf", "gguf"),
            ("tokenizers", "tokenizers"),
            ("jinja2", "jinja2"),
        ),
    ),
    "llamacpp": EngineRow(
        does="GGUF weights in llama.cpp: prompts to text",
        batching=Batching.CONTINUOUS,
        loads=_llamacpp,
        needs=(("cyllama", "cyllama"),),
    ),
    "openai-http": EngineRow(
        does="any OpenAI-compatible HTTP server: prompts to text",
        batching=Batching.CONTINUOUS,
        loads=_openai_http,
    ),
    "ctranslate2": EngineRow(
        does="Whisper in CTranslate2: audio to text",
        batching=Batching.PLAIN,
        loads=_ctranslate2,
        needs=(("ctranslate2", "ctranslate2"), ("soundfile", "soundfile"), ("tokenizers", "tokenizers")),
    ),
    "hibari-acoustic": EngineRow(
        does="hibari's acoustic model: text to spectra",
        batching=Batching.CHUNKED,
        loads=_hibari_acoustic,
        needs=(("hibari", "hibari-tts"), ("onnxruntime", "onnxruntime")),
    ),
    "hibari-vocoder": EngineRow(
        does="hibari's waveform step: spectra to sound",
        batching=Batching.CHUNKED,
        loads=_hibari_vocoder,
        needs=(("hibari", "hibari-tts"),),
    ),
    "vision": EngineRow(
        does="labels and printed text of a picture: pictures to text",
        batching=Batching.PLAIN,
        loads=_vision,
        needs=(("onnxruntime", "onnxruntime"), ("onnx", "onnx"), ("PIL", "pillow")),
    ),
    "fake": EngineRow(
        does="no model: echoes, counts, fails on demand",
        batching=Batching.CONTINUOUS,
        loads=_fake,
    ),
}
