"""The made-up vendor's device for tests: how it is opened, what was planted in it, where learned regions are judged.

In: names of planted faults. Out: a device in a process of its own, its faults, points held out. Invariant: a held-out
point is drawn here from the truth alone, with other randomness than a sweep's, so no learner chose it.
"""

import importlib
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accord.edges.quirk_file import load_quirks
from accord.terms.quirk import Point, Quirk, Region
from accord.terms.quirk_text import parse_region
from accord.verify.devices.child import ChildDevice
from accord.verify.operators.row import OperatorRow
from accord.verify.operators.table import operators
from accord.verify.points import boundaries

# The sizes of Qwen2.5-0.5B; the fault of one shape is among its calls.
CARD = """{"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864,
"num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": 151936,
"tie_word_embeddings": true, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "max_position_embeddings": 32768,
"hidden_act": "silu", "torch_dtype": "bfloat16"}"""
SITE = Path(__file__).parent / "vendor_site"
_DRAWS = 6000


def vex(*faults: str, call_s: float = 10.0) -> ChildDevice:
    """The device with these faults; none: as right as the CPU."""
    return ChildDevice("torch:vex", environment=environment(*faults), call_s=call_s)


def environment(*faults: str) -> Mapping[str, str]:
    """What the plug-in reads."""
    return {"PYTHONPATH": str(SITE), "VEX_FAULTS": ",".join(faults) or "none"}


def planted() -> Sequence[Any]:
    """All rows of the plug-in's table."""
    import torch  # noqa: F401 - first, for a path with the plug-in would have it loaded here, too

    sys.path.insert(0, str(SITE))
    try:
        faults: Sequence[Any] = importlib.import_module("torch_vex.faults").FAULTS
    finally:
        sys.path.remove(str(SITE))
    return faults


def truth(fault: Any) -> Region:
    """Where the fault is."""
    return parse_region(fault.truth)


def held_out(row: OperatorRow, regions: Sequence[Region], *, count: int, seed: int) -> tuple[list[Point], list[Point]]:
    """Up to `count` points inside at least one region, and as many outside all of them."""
    inside: list[Point] = []
    outside: list[Point] = []
    for point in _drawn(row, regions, random.Random(f"held out {seed} {row.name}")):
        kept = inside if any(region.holds(point) for region in regions) else outside
        if len(kept) < count:
            kept.append(point)
        if len(inside) == len(outside) == count:
            break
    return inside, outside


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How a fault was learned, held out: `missed` of `inside`; of its operator's regions `over` of `covered`."""

    fault: Any
    inside: int
    missed: int
    covered: int
    over: int

    @property
    def found(self) -> bool:
        """Whether a quirk holds at least half of where it is."""
        return 2 * self.missed < self.inside


def judged(quirks: Sequence[Quirk], *, count: int) -> list[Score]:
    """One score for each planted fault. Over-cover is over all faults of the operator: regions may join them."""
    rows, faults = operators(), planted()
    scores = []
    for fault in faults:
        regions = [quirk.region for quirk in quirks if quirk.operator == fault.operator]
        truths = [truth(other) for other in faults if other.operator == fault.operator]
        inside, _ = held_out(rows[fault.operator], [truth(fault)], count=count, seed=1)
        covered, _ = held_out(rows[fault.operator], regions, count=count, seed=2)
        scores.append(
            Score(
                fault=fault,
                inside=len(inside),
                missed=sum(not any(region.holds(point) for region in regions) for point in inside),
                covered=len(covered),
                over=sum(not any(region.holds(point) for region in truths) for point in covered),
            )
        )
    return scores


def swept(folder: Path, *, budget: str) -> tuple[tuple[Quirk, ...], str]:
    """What `accord verify` writes and says of the device with all faults."""
    card, out = folder / "config.json", folder / "quirks.yaml"
    card.write_text(CARD, encoding="utf-8")
    words = ["verify", "torch:vex", "--budget", budget, "--model", str(card), "--out", str(out)]
    ended = subprocess.run(
        [sys.executable, "-m", "accord", *words, "--report", str(folder / "page.html")],
        check=False,
        capture_output=True,
        text=True,
        timeout=1500,
        env={**os.environ, **environment("all"), "ACCORD_HOME": str(folder)},
    )
    assert ended.returncode == 1, ended.stdout[-2000:] + ended.stderr[-2000:]  # 1: faults were found
    return load_quirks(out), ended.stdout


def _drawn(row: OperatorRow, regions: Sequence[Region], rng: random.Random) -> Iterator[Point]:
    """Random points; around those that lie inside, ones that differ in one side; boundaries."""
    yield from boundaries(row, rng)
    for _ in range(_DRAWS):
        point = row.space.random_point(rng)
        if point is None:
            continue
        yield point
        if any(region.holds(point) for region in regions):
            axis = rng.choice(row.space.axes)
            near = axis.nearest((point.fact(axis.name) or axis.low) + rng.choice((-33, -1, 1, 32)))
            if (changed := row.space.changed(point, {axis.name: near})) is not None:
                yield changed
