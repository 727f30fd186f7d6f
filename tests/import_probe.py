"""Imports modules under watch and says what they did.

In: `python tests/import_probe.py FOLDER MODULE...`. Out: JSON on standard output: `deeds`, each thing that code in
FOLDER did to the outside world while it was imported, and `loaded`, the top-level packages now in memory.
A deed counts when the innermost frame outside the standard library lies in FOLDER.
"""

import importlib
import json
import os
import sys
import sysconfig
import threading
from collections.abc import Iterator
from types import FrameType

STDLIB = sysconfig.get_path("stdlib")
SITE = sysconfig.get_path("purelib")
WATCHED = (
    "open",
    "os.",
    "socket.",
    "subprocess.",
    "mmap.",
    "ctypes.dlopen",
    "shutil.",
    "tempfile.",
    "glob.",
    "signal.",
)


def _frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _culprit(folder: str) -> str | None:
    for frame in _frames():
        name = frame.f_code.co_filename
        if name.startswith(folder):
            return f"{os.path.relpath(name, folder)}:{frame.f_lineno}"
        in_stdlib = name.startswith(STDLIB) and not name.startswith(SITE)
        if name == __file__:
            continue
        if name.startswith("<frozen importlib") or not (in_stdlib or name.startswith("<")):
            return None  # the import system itself, or someone else's package
    return None


def main() -> None:
    """Watches, imports, prints."""
    folder, *modules = sys.argv[1:]
    deeds: list[str] = []

    def note(deed: str) -> None:
        if culprit := _culprit(folder):
            deeds.append(f"{culprit}: {deed}")

    def hook(event: str, args: tuple[object, ...]) -> None:
        if event.startswith(WATCHED):
            note(f"{event} {args[0] if args else ''}")

    environ = type(os.environ)
    read = environ.__getitem__

    def spy(self: "os._Environ[str]", key: str) -> str:
        note(f"reads the environment: {key}")
        return read(self, key)

    environ.__getitem__ = spy  # type: ignore[method-assign]
    start = threading.Thread.start

    def watched_start(self: threading.Thread) -> None:
        note(f"starts a thread: {self.name}")
        start(self)

    threading.Thread.start = watched_start  # type: ignore[method-assign]
    sys.addaudithook(hook)
    for module in modules:
        importlib.import_module(module)
    loaded = sorted({name.partition(".")[0] for name in sys.modules})
    print(json.dumps({"deeds": deeds, "loaded": loaded}))


if __name__ == "__main__":
    main()
