"""The device kinds that travel with Accord: files of `edges/devices/`, one a kind.

In: a name. Out: the file's tree. Invariant: listing reads no file; a figure that no file has is unknown.
"""

import difflib
from collections.abc import Iterable
from pathlib import Path

from accord.edges.yaml_tree import Limits, Tree, read_file

FOLDER = Path(__file__).parent / "devices"
_LIMITS = Limits()


def names() -> tuple[str, ...]:
    """All names, sorted."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))


def near(name: str, *, also: Iterable[str] = ()) -> str | None:
    """The name nearest to this one, of the catalog and of `also`."""
    known = (*also, *names())
    wanted = name.lower()
    inside = [one for one in known if len(wanted) > 2 and (wanted in one or one in wanted)]
    return next(iter(difflib.get_close_matches(wanted, inside or known, n=1, cutoff=0 if inside else 0.6)), None)


def read(name: str) -> Tree:
    """The tree of this kind's file. `name` must be one of `names()`."""
    return read_file(FOLDER / f"{name}.yaml", what=f"catalog {name}", limits=_LIMITS)
