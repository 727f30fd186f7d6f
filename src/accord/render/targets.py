"""The written-out table of targets; a new target is one file and one row here.

In: nothing. Out: `TARGETS`. Invariant: a target's code is imported only when it is asked for.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from accord.render.rendered import Render


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One row: what it writes, in words, and its function once it is loaded."""

    words: str
    load: Callable[[], Render]


def _kubernetes() -> Render:
    from accord.render.kubernetes import render

    return render


TARGETS: Mapping[str, Target] = {
    "kubernetes": Target(words="LeaderWorkerSets or Deployments, Services, DRA resource claims", load=_kubernetes),
}
