"""The page about targets is what its script draws from them."""

import subprocess
import sys

from accord.render.targets import TARGETS
from tests.house import ROOT


def test_the_page_is_what_the_targets_answer() -> None:
    script = ROOT / "tools" / "draw_targets.py"
    drawn = subprocess.run([sys.executable, script], check=True, capture_output=True, text=True, timeout=100).stdout
    page = (ROOT / "docs" / "targets.md").read_text()
    assert page == drawn, "run `.venv/bin/python tools/draw_targets.py > docs/targets.md`"


def test_the_guide_names_every_target() -> None:
    guide = (ROOT / "docs" / "render.md").read_text()
    assert [name for name in TARGETS if f"`{name}`" not in guide] == []
