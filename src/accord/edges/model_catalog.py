"""The model cards that travel with Accord: files of `models/cards/`, one a model.

In: a name. Out: `Entry`. Invariant: listing reads no file; each card names where its figures are from.
"""

import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from accord import models
from accord.models.card import Json
from accord.terms.errors import BrokenEdge

FOLDER = Path(models.__file__).parent / "cards"


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """How many parameters the model's makers say it has, and where."""

    parameters: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One model of the catalog. `source` is where the card's figures are from."""

    name: str
    source: str
    card: Mapping[str, Json]
    published: Published | None


def names() -> tuple[str, ...]:
    """All names, sorted."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.json")))


def near(name: str, *, also: Iterable[str] = ()) -> tuple[str, ...]:
    """At most three names like this one, the nearest first, of the catalog and of `also`."""
    return tuple(difflib.get_close_matches(name.lower(), (*names(), *also), n=3, cutoff=0.5))


def entry(name: str) -> Entry:
    """The model of this name; BrokenEdge if there is none, or its file isn't what it should be."""
    path = FOLDER / f"{name}.json"
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        said = held.get("published")
        published = Published(parameters=said["parameters"], source=said["source"]) if said else None
        return Entry(name=name, source=held["source"], card=held["card"], published=published)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BrokenEdge(f"{path}: {error!r}; install Accord again") from error
