"""What the command's tests share. In: pytest's start. Out: fetched weights and a profile of this machine."""

import pytest

from accord.edges import weights
from accord.models import embedded


@pytest.fixture(scope="session")
def all_weights():
    """The weights of the embedded model, in the usual place, so that tests don't wait for downloads."""
    names = [asset for row in embedded.model().engines for asset in row.assets]
    return weights.fetch(names, home=weights.home(), progress=lambda *_: None)
