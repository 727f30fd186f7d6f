"""Every example plan for every target, against files that were read by eye."""

import pytest

from accord.render.targets import TARGETS
from tests.render.golden import FOLDER, PLANS, golden_path, golden_text


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("plan", PLANS, ids=lambda path: path.stem)
def test_the_render_is_the_golden_one(plan, target):
    path = golden_path(plan, target)
    wanted = path.read_text() if path.exists() else ""
    assert golden_text(plan, target) == wanted, "run `PYTHONPATH=. .venv/bin/python tools/write_golden_renders.py`"


def test_there_are_no_others():
    assert {path for path in FOLDER.rglob("*") if path.is_file()} == {
        golden_path(plan, target) for plan in PLANS for target in TARGETS
    }
