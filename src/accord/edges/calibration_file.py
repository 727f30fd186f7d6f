"""A `Calibration` <-> YAML, and the folder in which they are kept.

In: a `Calibration`, or a file of one. Out: text, or the `Calibration`. Invariant: load(dump(calibration)) ==
calibration, figure for figure; what a person edited is checked like any other input.
"""

import itertools
import math
import re
from dataclasses import fields as dataclass_fields
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import msgspec
import yaml

from accord.edges.fields import Fields, at, leaf_version, shown
from accord.edges.fleet_kinds import check_kind_name
from accord.edges.typed_tree import typed
from accord.edges.whole_text import save_text
from accord.edges.yaml_tree import Items, Leaf, Limits, Table, Tree, read_file, read_text
from accord.terms.calibration import Calibration, Kernel, Sample, StepGrid
from accord.terms.errors import BadInput, BrokenEdge
from accord.terms.speed import StageSpeed

_LIMITS = Limits(text_bytes_max=4 << 20, nodes_max=100_000)
_POINTS_MIN = 2
_LISTS = ("samples", "stages", "steps")
T = TypeVar("T", Sample, StageSpeed, StepGrid)
_FIX = "write it as `accord profile --out` does"


def dump_calibration(calibration: Calibration) -> str:
    """The calibration as YAML, in the order of its fields, with exact figures.

    Long lists are blocks of JSON lines, which are read a hundred times faster than as many lines of YAML.
    """
    plain = msgspec.to_builtins(calibration)
    lists = {name: plain.pop(name) for name in _LISTS}
    text = yaml.safe_dump({"accord": 1, "calibration": plain}, sort_keys=False, allow_unicode=True, width=120)
    for name, items in lists.items():
        rows = "".join(f"    {msgspec.json.encode(item).decode()}\n" for item in items)
        text += f"  {name}: |\n{rows}" if items else f"  {name}: ''\n"
    return text


def save_calibration(calibration: Calibration, path: Path) -> None:
    """Writes the calibration whole or not at all; makes the folder."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BrokenEdge(f"calibration: {path.parent}: {error.strerror}; choose another place with --out") from error
    save_text(path, dump_calibration(calibration), what="calibration")


def load_calibration(path: Path) -> Calibration:
    """The calibration of a file. BadInput names the field that is wrong."""
    return _calibration(read_file(path, what="calibration", limits=_LIMITS))


def calibration_from_text(text: str) -> Calibration:
    """The same for the text of a document."""
    return _calibration(read_text(text, what="calibration", limits=_LIMITS))


def kept_at(home: Path, kind: str, engine: str | None) -> Path:
    """Where the calibration of a kind, with one engine or with all, is kept."""
    return home / "calibrations" / (f"{kind}.yaml" if engine is None else f"{kind}@{engine}.yaml")


def kept(home: Path) -> tuple[Calibration, ...]:
    """All calibrations that are kept, sorted by their files' names."""
    return tuple(load_calibration(path) for path in sorted((home / "calibrations").glob("*.yaml")))


def _calibration(tree: Tree) -> Calibration:
    fields = Fields(tree, field="")
    fields.must("accord", leaf_version)
    given = fields.must("calibration", lambda below, _: below)
    fields.end()
    inside = Fields(given, field="calibration")
    samples, stages = _lines(inside, "samples", Sample), _lines(inside, "stages", StageSpeed)
    steps = _lines(inside, "steps", StepGrid)
    empty = tuple((name, Items(items=())) for name in _LISTS)
    rest = Table(entries=(*inside.rest(), *empty), line=given.line)
    found = replace(
        typed(rest, Calibration, field="calibration", fix=_FIX), samples=samples, stages=stages, steps=steps
    )
    check_kind_name(found.kind, field="calibration.kind")
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", found.taken):
        raise BadInput(field="calibration.taken", value=found.taken, problem="not a date", fix="write it as 2026-12-01")
    _check_reached(found)
    for number, grid in enumerate(found.steps):
        _check_grid(grid, field=f"calibration.steps[{number}]")
    for number, sample in enumerate(found.samples):
        _check_sample(sample, field=f"calibration.samples[{number}]")
    return found


def _lines(inside: Fields, key: str, kind: type[T]) -> tuple[T, ...]:
    """One value of this type for each line of JSON."""
    tree, field = inside.take(key), inside.name(key)
    if tree is None:
        return ()
    if not isinstance(tree, Leaf) or not isinstance(tree.value, str):
        raise BadInput(field=field, value=shown(tree), problem=f"not lines of JSON{at(tree)}", fix=_FIX)
    decoder, known = msgspec.json.Decoder(kind), {item.name for item in dataclass_fields(kind)}
    found: list[T] = []
    for number, line in enumerate(tree.value.splitlines()):
        where = f"{field}[{number}]"
        try:
            found.append(decoder.decode(line))
            more = sorted(msgspec.json.decode(line).keys() - known)
        except (msgspec.ValidationError, msgspec.DecodeError) as error:
            raise BadInput(field=where, value=line, problem=str(error), fix=_FIX) from error
        if more:
            raise BadInput(field=f"{where}.{more[0]}", value=line, problem="unknown field", fix=_FIX)
    return tuple(found)


def _check_reached(found: Calibration) -> None:
    by = found.reached
    figures = {
        **{f"rates[{number}].flops_per_s": rate.flops_per_s for number, rate in enumerate(by.rates)},
        "experts": by.experts,
        "experts_bytes_per_s": by.experts_bytes_per_s,
        "bandwidth_bytes_per_s": by.bandwidth_bytes_per_s,
        "attention_flops_per_s": by.attention_flops_per_s,
        "cache_bytes_per_s": by.cache_bytes_per_s,
        "link_bytes_per_s": by.link_bytes_per_s,
    }
    for name, value in figures.items():
        if value is not None and not 0 < value < 1e21:
            raise _wrong(f"calibration.reached.{name}", value, "more than 0")
    times = {
        "collective_s": by.collective_s,
        "link_latency_s": by.link_latency_s,
        "launch_s": by.launch_s,
        "quantize_s": by.quantize_s,
    }
    for name, value in times.items():
        if value is not None and not 0 <= value < 1:
            raise _wrong(f"calibration.reached.{name}", value, "seconds, 0 or more, below 1")
    if by.sharpness is not None and not 1 <= by.sharpness < math.inf:
        raise _wrong("calibration.reached.sharpness", by.sharpness, "1 or more")
    if not 0 <= by.uncertainty < math.inf:
        raise _wrong("calibration.reached.uncertainty", by.uncertainty, "a share, 0 or more")


def _check_sample(sample: Sample, *, field: str) -> None:
    for name, value, above in (
        ("flops", sample.flops, -1.0),
        ("moved_bytes", sample.moved_bytes, -1.0),
        ("seconds", sample.seconds, 0.0),
        ("ranks", float(sample.ranks), 0.0),
    ):
        if not above < value < math.inf:
            raise _wrong(f"{field}.{name}", value, "a finite figure, not below 0")
    if sample.kernel is Kernel.GEMM and sample.math is None:
        raise _wrong(f"{field}.math", None, "the format of the matrix multiply")


def _check_grid(grid: StepGrid, *, field: str) -> None:
    """Axes grow, there is a figure for each of their points, and it is a time."""
    for name, axis in (("batches", grid.batches), ("contexts", grid.contexts), ("prompts", grid.prompts)):
        if len(axis) < _POINTS_MIN or not all(0 < low < high for low, high in itertools.pairwise(axis)):
            raise _wrong(f"{field}.{name}", len(axis), "at least two figures above 0 that grow")
    rows = (*grid.decode_s, grid.prefill_s)
    widths = [len(row) for row in rows]
    if widths != [len(grid.contexts)] * len(grid.batches) + [len(grid.prompts)]:
        raise _wrong(f"{field}.decode_s", len(grid.decode_s), "a row for each batch with a time for each context")
    if not all(0 < seconds < math.inf for row in rows for seconds in row):
        raise _wrong(f"{field}.decode_s", "a time", "seconds above 0")
    if min(grid.tensor, grid.experts) < 1 or not 0 < grid.unit_flops < math.inf:
        raise _wrong(f"{field}.unit_flops", grid.unit_flops, "the FLOPs of one token, above 0")


def _wrong(field: str, value: object, wanted: str) -> BadInput:
    return BadInput(field=field, value=value, problem="out of range", fix=f"write {wanted}")
