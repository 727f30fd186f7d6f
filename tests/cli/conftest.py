"""What the command's tests share. In: pytest's start. Out: the command itself, fetched weights."""

import signal

import pytest

from accord.cli import root as cli
from accord.edges import weights
from accord.models import embedded


@pytest.fixture(scope="session")
def all_weights():
    """The weights of the embedded model, in the usual place, so that tests don't wait for downloads."""
    names = [asset for row in embedded.model().engines for asset in row.assets]
    return weights.fetch(names, home=weights.home(), progress=lambda *_: None)


@pytest.fixture
def accord(monkeypatch, capsys):
    """Runs a command as the shell does; gives its status and what it wrote."""

    def call(*arguments):
        monkeypatch.setattr(signal, "signal", lambda *_: None)
        with pytest.raises(SystemExit) as ended:
            cli.run(arguments)
        return ended.value.code, *capsys.readouterr()

    return call
