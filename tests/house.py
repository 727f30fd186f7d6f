"""What the house tests look at: the files of this repository.

In: the checkout. Out: its files, as paths and as text. Invariant: only what git tracks, or would track, counts.
"""

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "accord"


@cache
def files() -> tuple[Path, ...]:
    """All files of the repository, sorted."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return tuple(sorted(path for name in listed.split("\0") if name and (path := ROOT / name).is_file()))


def text_files() -> Iterator[tuple[str, str]]:
    """(name, text) of every file that is text."""
    for path in files():
        try:
            yield name_of(path), path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def python_files(*folders: str) -> list[Path]:
    """The Python files under these folders of the repository."""
    roots = [ROOT / folder for folder in folders]
    return [path for path in files() if path.suffix == ".py" and any(path.is_relative_to(root) for root in roots)]


def name_of(path: Path) -> str:
    """The path from the root, as it is written in messages."""
    return path.relative_to(ROOT).as_posix()


@cache
def tree(path: Path) -> ast.Module:
    """The parsed file."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=name_of(path))


def module_name(path: Path) -> str:
    """`accord.run.ports` for its file."""
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
