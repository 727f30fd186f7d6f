"""The page about the protocol is what its script draws from the tables."""

import subprocess
import sys

from tests.house import ROOT


def test_the_page_is_what_the_tables_draw() -> None:
    script = ROOT / "tools" / "draw_protocol.py"
    drawn = subprocess.run([sys.executable, script], check=True, capture_output=True, text=True, timeout=60).stdout
    page = (ROOT / "docs" / "protocol.md").read_text()
    assert page == drawn, "run `.venv/bin/python tools/draw_protocol.py > docs/protocol.md`"
