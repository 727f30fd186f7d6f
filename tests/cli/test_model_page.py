"""docs/model.md shows what the command prints: each of its outputs is a piece of what is printed today."""

import re

import pytest

from accord.cli.root import run
from tests.house import ROOT

_PAGE = (ROOT / "docs/model.md").read_text()
_SHOWN = re.findall(r"^```\n\$ \.venv/bin/accord model ([^\n]+)\n(.*?)\n```$", _PAGE, re.MULTILINE | re.DOTALL)


def test_the_page_shows_outputs():
    assert len(_SHOWN) >= 4


@pytest.mark.parametrize(("given", "shown"), _SHOWN)
def test_what_the_page_shows_is_what_is_printed(capsys, monkeypatch, given, shown):
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit):
        run(["model", *given.split()])
    assert shown in capsys.readouterr().out, "docs/model.md is out of date"
