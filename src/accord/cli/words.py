"""How words reach a person: plain tables, quiet progress.

In: rows and lines. Out: text on a terminal or a pipe. Invariant: nothing is coloured or redrawn on a pipe,
and with --json nothing but JSON reaches stdout.
"""

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from accord.explain import Rows


def console(*, quiet: bool = False) -> Console:
    """Where words go: stdout, or stderr when stdout is for JSON."""
    return Console(file=sys.stderr if quiet else sys.stdout, highlight=False, soft_wrap=True, markup=False, emoji=False)


def print_json(value: object) -> None:
    """One JSON document on stdout."""
    print(msgspec.json.encode(value).decode(), flush=True)  # noqa: T201, the command's output


def width_of_terminal() -> int:
    """Columns that words may take; 100 where nobody says."""
    return shutil.get_terminal_size((100, 40)).columns


def show_rows(out: Console, rows: Rows, *, indent: int = 4) -> None:
    """A table whose first row is its heading; as wide as it needs to be."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    for number, row in enumerate(rows):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        out.print(" " * indent + line, style="dim" if number == 0 else None)


@contextmanager
def download_bars(out: Console) -> Iterator[Progress]:
    """Bars for downloads, which go away when they are done."""
    bars = Progress(
        TextColumn("    {task.description:<12}"),
        BarColumn(),
        DownloadColumn(),
        console=out,
        transient=True,
        disable=not out.is_terminal,
    )
    with bars:
        yield bars


@contextmanager
def counted(out: Console, title: str) -> Iterator[Progress]:
    """One bar for steps that are counted; goes away when it is done."""
    columns = (
        TextColumn(f"    {title} {{task.description:<12}}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
    )
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as bar:
        yield bar
