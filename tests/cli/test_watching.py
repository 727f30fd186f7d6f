"""Watching a search: Ctrl-C once takes the best so far, twice ends the command."""

import io
import os
import signal

import pytest
from rich.console import Console

from accord.cli.watching import watching
from accord.plan.fleet.choose import Progress

SOON = Progress(step="split", done=3, of=8, cost=12.5)


def terminal(heard):
    return Console(file=heard, force_terminal=True, width=100)


def test_a_search_goes_on_until_ctrl_c():
    before = signal.getsignal(signal.SIGINT)
    with watching(terminal(io.StringIO())) as watch:
        assert watch(SOON)
        os.kill(os.getpid(), signal.SIGINT)
        assert not watch(SOON)
        assert watch.stopped
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_long_search_is_shown_on_a_terminal_alone():
    heard = io.StringIO()
    with watching(terminal(heard)) as watch:
        watch(SOON)
        assert heard.getvalue() == ""
        watch.since_s -= 5
        watch(SOON)
    assert "split 3/8 · best 12.5 an hour" in heard.getvalue()
    heard = io.StringIO()
    with watching(Console(file=heard)) as watch:
        watch.since_s -= 5
        watch(SOON)
    assert heard.getvalue() == ""
