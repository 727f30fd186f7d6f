"""`accord profile`: measure a device, and keep what it reaches for the planner.

In: a device kind. Out: a table, a calibration file; JSON with --json.
"""

import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import click
import msgspec
from rich.console import Console

from accord.cli.flow import measured_stages
from accord.cli.options import json_option
from accord.cli.table import plural, size
from accord.cli.words import console, counted, print_json, show_rows
from accord.edges import device_catalog, weights
from accord.edges import machine as machine_edge
from accord.edges.calibration_file import kept_at, save_calibration
from accord.edges.fleet_kinds import catalog_kind
from accord.edges.kernel_steps import kernel_steps
from accord.edges.kernel_tables import kernel_calibration
from accord.edges.profile_device import measure_device
from accord.models import catalog
from accord.terms import units
from accord.terms.calibration import Calibration
from accord.terms.errors import BadInput
from accord.terms.fleet import DeviceKind, Figure, Vendor
from accord.terms.speed import StageSpeed


@click.command(short_help="Measure a device.")
@click.argument("device")
@click.option("--model", "model_name", metavar="NAME", help="Measure the stages of this embedded model, too (cpu).")
@click.option("--tables", is_flag=True, help="Take kernel times of the package aiconfigurator-core instead.")
@click.option("--engine", metavar="NAME", help="With --tables: the engine whose kernels count (vllm, sglang).")
@click.option("--steps", metavar="MODEL", help="With --tables: whole steps of this model, too.")
@click.option("--out", type=click.Path(path_type=Path), help="Write the calibration here instead of keeping it.")
@json_option
def profile(
    *,
    device: str,
    model_name: str | None,
    tables: bool,
    engine: str | None,
    steps: str | None,
    out: Path | None,
    as_json: bool,
) -> int:
    """Measure DEVICE (a kind of the catalog, or `cpu`) on this machine, and keep the result.

    `accord plan` counts with what is kept, instead of data sheets. With --tables nothing is measured here.
    """
    words = console(quiet=as_json)
    if tables != (engine is not None) or (steps is not None and not tables):
        raise click.UsageError("--tables and --engine go together, and --steps goes with them")
    kind = _kind(device)
    if model_name is not None and kind.vendor is not Vendor.CPU:
        fix = "profile `cpu` with it"
        raise BadInput(field="--model", value=model_name, problem="embedded models run on the CPU", fix=fix)
    today = dt.datetime.now().astimezone().date().isoformat()
    if engine is not None:
        found = kernel_calibration(kind.name, engine, taken=today)
        found = found if steps is None else replace(found, steps=kernel_steps(kind.name, engine, steps))
    else:
        found = _measured(kind, model_name, today, words)
    path = out or kept_at(weights.home(), kind.name, engine)
    save_calibration(found, path)
    if as_json:
        print_json({"calibration": msgspec.to_builtins(found), "file": str(path)})
        return 0
    _show(kind, found, words)
    then = "" if out else "; `accord plan` counts with it from now on"
    words.print(f"  Wrote {path}{then}")
    return 0


def _kind(name: str) -> DeviceKind:
    if name in device_catalog.names():
        return catalog_kind(name)
    near = device_catalog.near(name)
    fix = f"did you mean {near}?" if near else "`accord fleet kinds` lists the catalog"
    raise BadInput(field="DEVICE", value=name, problem="no such device kind", fix=fix)


def _measured(kind: DeviceKind, model_name: str | None, today: str, words: Console) -> Calibration:
    machine = machine_edge.probe()
    model = None if model_name is None else catalog.find(model_name)
    with counted(words, "measuring") as bar:
        task = bar.add_task("", total=None)

        def progress(call: str, done: int, total: int) -> None:
            bar.update(task, description=call, completed=done, total=total)

        found = measure_device(kind, machine=machine, taken=today, progress=progress)
    return found if model is None else replace(found, stages=measured_stages(model, machine, words))


def _show(kind: DeviceKind, found: Calibration, words: Console) -> None:
    words.print(f"  {kind.name}  {found.machine}   ({len(found.samples)} calls; {found.tool})")
    show_rows(words, (("figure", "reached", "catalog"), *_rows(kind, found)))
    words.print(f"  two thirds of the calls lie within {found.reached.uncertainty:.0%} of what these figures say")
    if found.steps:
        words.print(f"  whole steps of {plural(len(found.steps), 'layout')} are known of that model")
    if found.stages:
        show_rows(words, (("stage", "threads", "work"), *map(_stage_row, found.stages)))


def _rows(kind: DeviceKind, found: Calibration) -> Iterator[tuple[str, ...]]:
    by = found.reached
    peaks = {rate.math: rate.flops_per_s for rate in kind.rates}
    for rate in by.rates:
        yield f"{rate.math} multiplies", _flops(rate.flops_per_s), _known(peaks.get(rate.math), _flops)
    if by.experts is not None:
        yield "grouped multiplies", f"{by.experts:.0%} of that", ""
    for name, value, known, say in (
        ("memory", by.bandwidth_bytes_per_s, kind.bandwidth_bytes_per_s, _bandwidth),
        ("attention", by.attention_flops_per_s, None, _flops),
        ("cache", by.cache_bytes_per_s, None, _bandwidth),
        ("link, one way", by.link_bytes_per_s, kind.link_bytes_per_s, _bandwidth),
        ("a launch", by.launch_s, None, _time),
        ("quantizing activations", by.quantize_s, None, _time),
        ("an attention call", by.attention_s, None, _time),
        ("a call of experts", by.experts_s, None, _time),
    ):
        if value is not None:
            yield name, say(value), "" if name in _NOT_IN_CATALOG else _known(known, say)
    if found.memory_bytes is not None:
        yield "memory free now", size(found.memory_bytes), ""


_NOT_IN_CATALOG = ("attention", "cache", "a launch", "quantizing activations", "an attention call", "a call of experts")


def _stage_row(speed: StageSpeed) -> tuple[str, ...]:
    return speed.stage, str(speed.threads), f"{speed.work.value:.4g} {speed.work.unit}"


def _known(figure: Figure | None, say: Callable[[float], str]) -> str:
    return "unknown" if figure is None else f"{say(figure.value)} ({figure.tag})"


def _flops(value: float) -> str:
    return units.format_flops_per_s(value, digits=3)


def _bandwidth(value: float) -> str:
    return units.format_bandwidth(value, digits=3)


def _time(value: float) -> str:
    return units.format_duration_s(value, digits=3)
