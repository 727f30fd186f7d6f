"""Writes a document whole or not at all.

In: a path and its text. Out: the file. Invariant: no half of a document is ever seen under its name.
"""

import os
from pathlib import Path

from accord.terms.errors import BrokenEdge


def save_text(path: Path, text: str, *, what: str) -> None:
    """Writes the text in one rename. BrokenEdge, and nothing left behind, where that can't be done."""
    staging = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        staging.write_text(text)
        staging.replace(path)
    except OSError as error:
        staging.unlink(missing_ok=True)
        raise BrokenEdge(f"{what}: {path}: {error.strerror}; choose a folder that exists and is writable") from error
