"""Watching a search: Ctrl-C once takes the best so far, twice ends the command."""

import io
import os
import signal

import pytest
from rich.console import Console

from accord.cli.watching import watching
from accord.plan.fleet.choose import Progress

SOON = Progress(step="split", done=3, of=8, cost=12.5)


def terminal():
    return Console(file=io.StringIO(), force_terminal=True, width=100)


def test_a_search_goes_on_until_ctrl_c():
    before = signal.getsignal(signal.SIGINT)
    with watching(terminal()) as watch:
        assert watch(SOON)
        os.kill(os.getpid(), signal.SIGINT)
        assert not watch(SOON)
        assert watch.stopped
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_long_search_is_shown_on_a_terminal_alone():
    words = terminal()
    with watching(words) as watch:
        watch(SOON)
        assert words.file.getvalue() == ""
        watch.since_s -= 5
        watch(SOON)
    assert "planning: split, 3 of 8, best so far 12.5 an hour" in words.file.getvalue()
    pipe = Console(file=io.StringIO())
    with watching(pipe) as watch:
        watch.since_s -= 5
        watch(SOON)
    assert pipe.file.getvalue() == ""
