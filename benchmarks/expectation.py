"""How near the expectation of `accord demo` comes to what it then measures, after a fresh `accord profile`.

In turn the demo is run, the stages of the embedded model are measured, and the demo is run again: each expectation is
divided by what was seen next to it, so that a machine that is busy is busy for both. The median of the ratios counts.
"""

import json
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from _figures import Figure, write
from accord.cli.flow import measured_stages
from accord.cli.words import console
from accord.edges import machine as machine_edge
from accord.edges.fleet_kinds import catalog_kind
from accord.edges.kernel_tables import kernel_calibration
from accord.edges.profile_device import measure_device
from accord.estimate.calibrate import predicted_s, reached
from accord.models import embedded
from accord.terms.calibration import Sample

ROUNDS = 5
NAMES = {"ttft": "first_text_s", "first_audio": "first_audio_s", "latency": "latency_s"}
ACCORD = Path(sys.executable).with_name("accord")


def main() -> None:
    """Measures, asks, compares; then the device itself, half of its calls against the other half."""
    ratios = _ratios()
    figures = [
        Figure(
            name=f"{name} error", value=100 * abs(statistics.median(found) - 1), unit="%", better="lower", bar=15,
        )
        for name, found in ratios.items()
    ]  # fmt: skip
    figures += [
        Figure(name=f"{name} expected / measured", value=statistics.median(found), unit="x", better="higher")
        for name, found in ratios.items()
    ]
    machine = machine_edge.probe()
    measured = measure_device(catalog_kind("cpu"), machine=machine, taken="2026-12-01", progress=lambda *_: None)
    figures.append(_held_out("cpu calls", measured.samples))
    figures.append(_held_out("h200 kernels", kernel_calibration("h200", "vllm", taken="2026-12-01").samples))
    write("expectation", figures)


def _ratios() -> dict[str, list[float]]:
    """One ratio a round: the stages are measured between two demos, since a busy machine changes by the minute."""
    found: dict[str, list[float]] = defaultdict(list)
    model, machine, words = embedded.model(), machine_edge.probe(), console(quiet=True)
    for _ in range(ROUNDS):
        before = _demo()
        measured_stages(model, machine, words)
        after = _demo()
        for metric in NAMES:
            seen = (before.seen_s[metric] + after.seen_s[metric]) / 2
            found[metric].append(after.expected_s[metric] / seen)
        print("  ".join(f"{metric} {values[-1]:.2f}" for metric, values in found.items()), flush=True)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One demo, by metric."""

    seen_s: dict[str, float]
    expected_s: dict[str, float]


def _demo() -> Asked:
    with tempfile.TemporaryDirectory() as folder:
        command = [str(ACCORD), "demo", "--json", "--out", folder]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    report = json.loads(done.stdout)
    return Asked(seen_s={name: report[key] for name, key in NAMES.items()}, expected_s=report["expected_s"])


def _held_out(name: str, samples: tuple[Sample, ...]) -> Figure:
    """Every other call is expected by what the rest tell."""
    by = reached(samples[::2])
    told = [(predicted_s(sample, by), sample.seconds) for sample in samples[1::2]]
    errors = [abs(expected / seconds - 1) for expected, seconds in told if expected is not None]
    return Figure(name=f"{name}, held out", value=100 * float(np.median(errors)), unit="%", better="lower")


if __name__ == "__main__":
    main()
