"""How well `accord verify` finds faults: all that a made-up device has, none on healthy ones, and how fast.

In: the made-up vendor device of the tests with all its faults, ten healthy modes, PyTorch's own samples. Out:
`benchmarks/out/verify.json`, and a table of the shapes reached beside OpInfo's. Invariant: recall counts a fault as
found only if a written quirk of its operator holds points drawn from where the fault is, which no sweep has seen.
"""

import re
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

import _figures
import _opinfo
import _reroute
from accord.verify.devices import open_here
from accord.verify.devices.child import ChildDevice
from accord.verify.examine import Examiner
from accord.verify.findings import Verdict
from accord.verify.operators.table import operators
from accord.verify.sweep import Order, sweep

ROOT = Path(__file__).parents[1]
BUDGET_S = 600
HEALTHY_S = 20.0
HELD_OUT = 100


def main() -> None:
    """Takes some fifteen minutes."""
    sys.path.insert(0, str(ROOT))  # the made-up device and the healthy modes are the tests' own
    figures = [*_recall(), *_healthy()]
    added = _reroute.added()
    figures += [
        _figure("added microseconds", max(added.outside.values()), "us", better="lower", bar=2.5),
        _figure("added microseconds, other operators", max(0.0, added.unaffected), "us", better="lower"),
    ]
    figures += _reach()
    _figures.write("verify", figures)


def _figure(name: str, value: float, unit: str, *, better: str, bar: float | None = None) -> _figures.Figure:
    return _figures.Figure(
        name=name, value=value, unit=unit, better="lower" if better == "lower" else "higher", bar=bar
    )


def _recall() -> list[_figures.Figure]:
    from tests.verify.vendor import judged, swept

    with tempfile.TemporaryDirectory() as folder:
        began_s = time.monotonic()
        quirks, said = swept(Path(folder), budget=f"{BUDGET_S}s")
        took_s = time.monotonic() - began_s
    scores = judged(quirks, count=HELD_OUT)
    points = re.search(r"swept ([\d,]+) points", said)
    missed, inside = sum(score.missed for score in scores), sum(score.inside for score in scores)
    over, covered = sum(score.over for score in scores), sum(score.covered for score in scores)
    return [
        _figure("recall", 100.0 * sum(score.found for score in scores) / len(scores), "%", better="higher", bar=100.0),
        _figure("held-out points missed", 100.0 * missed / max(1, inside), "%", better="lower"),
        _figure("over-cover", 100.0 * over / max(1, covered), "%", better="lower"),
        _figure("points a second", int(points[1].replace(",", "")) / took_s if points else 0.0, "1/s", better="higher"),
        _figure("time", took_s, "s", better="lower", bar=1.1 * BUDGET_S),
    ]


def _healthy() -> list[_figures.Figure]:
    from tests.verify.test_healthy import MODES

    alarms = points = 0
    for port, python, environment in MODES.values():
        device = ChildDevice(port, python=None if python is None else str(python), environment=environment, call_s=60.0)
        try:
            own = set(device.describe().families)
            others = [open_here(name) for name in ("torch:cpu", "onnxruntime", "numpy")]
            witnesses = [other for other in others if not own & set(other.describe().families)]
            examiner, order = Examiner(device, witnesses, operators()), Order(rows=operators(), budget_s=HEALTHY_S)
            for examined in sweep(examiner, order, known={}, now_s=time.monotonic):
                points += 1
                alarms += examined.verdict is Verdict.FAULT
        finally:
            device.close()
    return [
        _figure("false alarms", alarms, "points", better="lower", bar=0.0),
        _figure("healthy points", points, "points", better="higher"),
        _figure("healthy modes", len(MODES), "modes", better="higher", bar=10.0),
    ]


def _reach() -> list[_figures.Figure]:
    found = _opinfo.reach()
    table = Table(title="Largest dimension of the points asked, and of OpInfo's samples", box=None)
    for heading in ("operator", "points", "median", "largest", "OpInfo's samples", "median", "largest"):
        table.add_column(heading, justify="left" if heading == "operator" else "right")
    for one in found:
        cells = (one.ours, one.ours_median, one.ours_largest, one.theirs, one.theirs_median, one.theirs_largest)
        table.add_row(one.operator, *(f"{cell:,g}" for cell in cells))
    Console().print(table)
    return [
        _figures.Figure(
            name="largest dimension, median over operators",
            value=float(sorted(one.ours_largest for one in found)[len(found) // 2]),
            unit="",
            better="higher",
            peer="OpInfo",
            peer_value=float(sorted(one.theirs_largest for one in found)[len(found) // 2]),
        )
    ]


if __name__ == "__main__":
    main()
