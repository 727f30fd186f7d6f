"""What a sweep has asked, kept line by line in a file, so that it can stop at any moment and go on.

In: examined points, a path. Out: lines of JSON; the points of an earlier sweep. Invariant: the first line says which
device was swept, and a journal of another device is refused; a last line cut short by a crash is left out.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import msgspec

from accord.terms.errors import BadInput
from accord.terms.quirk import Point
from accord.verify.examine import Examined
from accord.verify.ports import Description

_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Head:
    accord_sweep: int
    device: Description


class Journal:
    """Appends to a file; each line is on its way to the disk before the next point is asked."""

    def __init__(self, path: Path, device: Description) -> None:
        fresh = not path.exists() or path.stat().st_size == 0
        if not fresh:
            _cut_torn_line(path)
        self._file: BinaryIO = path.open("ab")
        if fresh:
            self._line(_Head(accord_sweep=_FORMAT, device=device))

    def add(self, examined: Examined) -> None:
        """Keeps one point."""
        self._line(examined)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _line(self, value: _Head | Examined) -> None:
        self._file.write(msgspec.json.encode(value) + b"\n")
        self._file.flush()


def read_journal(path: Path, device: Description) -> dict[Point, Examined]:
    """What an earlier sweep of this device has asked. BadInput if the file is another device's, or no journal."""
    lines = _lines(path)
    try:
        head = msgspec.json.decode(next(lines, b""), type=_Head)
    except msgspec.MsgspecError as error:
        fix = "name a journal that `accord verify` wrote, or leave --resume out"
        raise BadInput(field="journal", value=str(path), problem="is no journal of a sweep", fix=fix) from error
    if (head.device.name, head.device.versions) != (device.name, device.versions):
        was = ", ".join([head.device.name, *(f"{known.library} {known.version}" for known in head.device.versions)])
        fix = "sweep that device, or start without --resume"
        raise BadInput(field="journal", value=str(path), problem=f"is of another device: {was}", fix=fix)
    found = [msgspec.json.decode(line, type=Examined) for line in lines]
    return {examined.point: examined for examined in found}


def _lines(path: Path) -> Iterator[bytes]:
    """Whole lines alone."""
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield line


def _cut_torn_line(path: Path) -> None:
    with path.open("r+b") as file:
        data = file.read()
        if not data.endswith(b"\n"):
            file.truncate(data.rfind(b"\n") + 1)
