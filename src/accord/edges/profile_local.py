"""Measures how fast each stage of a model runs on this machine, or finds what was measured before.

In: a `Model`, the machine, weight folders, the home folder. Out: `StageSpeed`s, source measured.
Invariant: one child process at a time, owned and with a deadline. Figures are kept under a key of all that
they depend on: the CPU, the packages' versions, the weights, and this module's own version.
"""

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

from accord.edges.engine_options import engine_options
from accord.edges.profile_samples import CROWD, audio_s, costs, first_use_s, trials
from accord.edges.profile_wire import Order, Piece, Report, Result, pack, unpack_report
from accord.edges.weights import WEIGHTS
from accord.run.engines import ENGINES, ENVIRON
from accord.run.ports import EngineSpec
from accord.terms.errors import BrokenEdge
from accord.terms.graph import Payload, Stage, StageGraph
from accord.terms.machine import Machine
from accord.terms.speed import Model, StageSpeed

Progress = Callable[[str, int, int], None]

_FORMAT = 2  # counted up whenever trials or formulas change
_CHILD_S_MAX = 180.0  # a cold start builds graphs
_TRIALS_S = 1.5
_LAST_CHARS = 2000


def stage_speeds(
    model: Model, *, machine: Machine, home: Path, assets: Mapping[str, Path], progress: Progress
) -> tuple[StageSpeed, ...]:
    """The speeds of all stages, with 1 and more threads. `progress(stage, done, total)` counts runs.

    The first call takes a few seconds a stage, later ones read `home/profiles`. BrokenEdge if a stage
    can't be loaded or fails on its sample.
    """
    kept = _kept(model, machine, home)
    found = _read(kept, model)
    if found is not None:
        return found
    measured = _measure_all(model, thread_counts(machine), home=home, assets=assets, progress=progress)
    _write(kept, measured)
    return measured


def forget(model: Model, *, machine: Machine, home: Path) -> None:
    """Makes the next call measure again."""
    _kept(model, machine, home).unlink(missing_ok=True)


def thread_counts(machine: Machine) -> tuple[int, ...]:
    """With how many threads each stage is measured: past four, small models gain little."""
    cores = machine.cores or 1
    return tuple(threads for threads, least in ((1, 1), (2, 2), (4, 6)) if cores >= least)


def profile_key(model: Model, machine: Machine) -> str:
    """A name for all that the figures depend on."""
    packages = sorted({package for row in model.engines for _, package in ENGINES[row.engine].needs})
    parts = (
        _FORMAT,
        machine.cpu_model,
        machine.cores,
        sorted(machine.instructions or ()),
        [(package, _version(package)) for package in (*packages, "numpy", "accord-ai")],
        [
            (row.stage, row.engine, row.options, [(asset, WEIGHTS[asset].wheel_sha256) for asset in row.assets])
            for row in model.engines
        ],
    )
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:24]


def _kept(model: Model, machine: Machine, home: Path) -> Path:
    return home / "profiles" / f"{profile_key(model, machine)}.json"


def _measure_all(
    model: Model, counts: tuple[int, ...], *, home: Path, assets: Mapping[str, Path], progress: Progress
) -> tuple[StageSpeed, ...]:
    speeds: list[StageSpeed] = []
    spectra: dict[str, tuple[Piece, ...]] = {}
    waiting: list[tuple[Stage, int, Mapping[str, Result]]] = []
    total = len(model.graph.stages) * len(counts)
    for stage in model.graph.stages:
        payload = takes(model.graph, stage.name)
        for threads in counts:
            progress(stage.name, len(speeds) + len(waiting), total)
            spec = _spec(model, stage, threads, home=home, assets=assets)
            given = _given(model.graph, stage.name, spectra)
            report = _in_child(Order(spec=spec, trials=trials(payload, given), time_s_max=_TRIALS_S))
            results = {result.name: result for result in report.results}
            spectra[stage.name] = tuple(piece for result in report.results for piece in result.output)
            if payload is Payload.TEXT and not _gives_sound(model.graph, stage.name):
                # How long its words sound is known once the next stage has made them sound.
                waiting.append((stage, threads, results))
                continue
            spoken_s = audio_s(results)
            for earlier, count, kept in waiting if payload is Payload.SPECTRUM else ():
                speeds.append(_speed(earlier.name, count, Payload.TEXT, kept, spoken_s=spoken_s))
            waiting = [] if payload is Payload.SPECTRUM else waiting
            speeds.append(_speed(stage.name, threads, payload, results, spoken_s=spoken_s))
    progress("", total, total)
    return tuple(speeds)


def takes(graph: StageGraph, stage: str) -> Payload:
    """What a stage is measured with: its most telling input."""
    inputs = {edge.payload for edge in graph.edges if edge.target == stage}
    order = (Payload.PROMPT, Payload.AUDIO, Payload.IMAGE, Payload.SPECTRUM, Payload.TEXT, Payload.PCM)
    return next(payload for payload in order if payload in inputs)


def _given(graph: StageGraph, stage: str, spectra: Mapping[str, tuple[Piece, ...]]) -> tuple[Piece, ...]:
    """What the stages before this one made of their trials, as it would come from them."""
    sources = [edge.source for edge in graph.edges if edge.target == stage and edge.payload is Payload.SPECTRUM]
    return tuple(
        msgspec.structs.replace(piece, source=source)
        for source in sources
        for piece in spectra.get(source, ())
        if piece.payload is Payload.SPECTRUM
    )


def _gives_sound(graph: StageGraph, stage: str) -> bool:
    return any(edge.source == stage and edge.payload is Payload.PCM for edge in graph.edges)


def _speed(stage: str, threads: int, payload: Payload, results: Mapping[str, Result], *, spoken_s: float) -> StageSpeed:
    found, work = costs(payload, results, spoken_s=spoken_s)
    return StageSpeed(stage=stage, threads=threads, costs=found, work=work, first_use_s=first_use_s(results))


def _spec(model: Model, stage: Stage, threads: int, *, home: Path, assets: Mapping[str, Path]) -> EngineSpec:
    row = model.engine(stage.name)
    return EngineSpec(
        engine=row.engine,
        stage=stage.name,
        threads=threads,
        batch_max=CROWD,
        memory_bytes=CROWD * stage.request_bytes,
        assets=tuple((name, str(assets[name])) for name in row.assets),
        options=(*row.options, *engine_options(row.engine, home=home)),
    )


def _in_child(order: Order) -> Report:
    command = [sys.executable, "-m", "accord.edges.profile_child"]
    environ = {**os.environ, **ENVIRON, "OMP_NUM_THREADS": str(order.spec.threads)}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environ) as child:
        try:
            out, err = child.communicate(pack(order), timeout=_CHILD_S_MAX)
        except subprocess.TimeoutExpired:
            raise BrokenEdge(f"profile: stage {order.spec.stage} took longer than {_CHILD_S_MAX:.0f} s") from None
        finally:
            child.kill()
    try:
        report = unpack_report(out)
    except msgspec.DecodeError:
        said = err.decode(errors="replace").strip()[-_LAST_CHARS:]
        text = f"profile: the process of stage {order.spec.stage} ended with status {child.returncode}: {said}"
        raise BrokenEdge(text) from None
    if report.broken is not None:
        raise BrokenEdge(report.broken)
    return report


def _read(path: Path, model: Model) -> tuple[StageSpeed, ...] | None:
    try:
        found = msgspec.json.decode(path.read_bytes(), type=tuple[StageSpeed, ...])
    except (OSError, msgspec.DecodeError):
        return None  # measured again, and written anew
    return found if {speed.stage for speed in found} == {stage.name for stage in model.graph.stages} else None


def _write(path: Path, speeds: tuple[StageSpeed, ...]) -> None:
    staging = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        staging.write_bytes(msgspec.json.format(msgspec.json.encode(speeds)))
        staging.replace(path)
    except OSError as error:
        raise BrokenEdge(f"profile: {path}: {error.strerror}; make it writable, or set ACCORD_HOME") from error


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
