"""Figures that a benchmark measured: written as JSON for programs, printed as a table for people.

In: `Figure`s of one run. Out: `benchmarks/out/NAME.json`, a list of objects with exactly the fields of `Figure`.
Invariant: a figure was measured in the run that writes it; a peer that isn't installed is None, never remembered.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.table import Table

OUT = Path(__file__).parent / "out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure. `bar` is what it must reach (None: reported only); `peer_value` is the peer's, from the same run."""

    name: str
    value: float
    unit: str
    better: Literal["lower", "higher"]
    bar: float | None = None
    peer: str | None = None
    peer_value: float | None = None

    def __post_init__(self) -> None:
        if not math.isfinite(self.value):
            raise ValueError(f"figure {self.name}: {self.value} is not a measurement")
        if self.peer_value is not None and self.peer is None:
            raise ValueError(f"figure {self.name}: {self.peer_value} needs the peer's name")

    @property
    def met(self) -> bool | None:
        """Whether the bar is reached; None without a bar."""
        if self.bar is None:
            return None
        return self.value <= self.bar if self.better == "lower" else self.value >= self.bar


def write(name: str, figures: Sequence[Figure]) -> Path:
    """Writes `benchmarks/out/NAME.json` in one move, prints the table, and gives the file's path."""
    OUT.mkdir(parents=True, exist_ok=True)
    path = OUT / f"{name}.json"
    draft = path.with_suffix(".tmp")
    draft.write_text(json.dumps([asdict(figure) for figure in figures], indent=2) + "\n", encoding="utf-8")
    draft.replace(path)
    show({name: figures})
    return path


def read(path: Path) -> list[Figure]:
    """The figures of one file; TypeError or ValueError if it holds anything else."""
    return [Figure(**fields) for fields in json.loads(path.read_text(encoding="utf-8"))]


def show(figures_by_benchmark: dict[str, Sequence[Figure]]) -> None:
    """One table, a row a figure."""
    table = Table(box=None, header_style="bold")
    for heading in ("benchmark", "figure"):
        table.add_column(heading)
    for heading in ("value", "bar", "peer"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for benchmark, figures in figures_by_benchmark.items():
        for row, figure in enumerate(figures):
            table.add_row(benchmark if row == 0 else "", figure.name, *_cells(figure))
    Console().print(table)


def _cells(figure: Figure) -> tuple[str, str, str, str]:
    sign = "<=" if figure.better == "lower" else ">="
    bar = "" if figure.bar is None else f"{sign} {figure.bar:g}"
    peer = figure.peer or ""
    if figure.peer is not None:
        peer += ": not installed" if figure.peer_value is None else f": {figure.peer_value:.4g}"
    verdict = {True: "[green]met[/]", False: "[red]missed[/]", None: ""}[figure.met]
    return f"{figure.value:.4g} {figure.unit}", bar, peer, verdict
