"""docs/gpu-nic.md shows what the targets write: each of its pieces of YAML is found in a render of its plan."""

import re
from pathlib import Path

import pytest
import yaml

from accord.edges.fleet_plan_file import load_fleet_plan
from accord.edges.plan_fleet import fleet_of
from accord.render.rendered import Options
from accord.render.targets import TARGETS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "gpu-nic.md").read_text()
PLAN = ROOT / "examples" / "plans" / "qwen3-32b-two-vendors.yaml"
SECTIONS = {
    "Kubernetes with dynamic resource allocation": "kubernetes",
    "Koordinator": "koordinator",
    "HAMi": "hami",
    "Volcano": "volcano",
}


def pieces(title):
    section = PAGE.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]
    return [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", section, re.DOTALL)]


def inside(part, whole):
    """Whether all of `part` is in `whole`, in the same places."""
    match part, whole:
        case dict(), dict():
            return all(key in whole and inside(value, whole[key]) for key, value in part.items())
        case list(), list():
            return all(any(inside(one, other) for other in whole) for one in part)
        case _:
            return part == whole


def nodes(value):
    yield value
    for below in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from nodes(below)


@pytest.mark.parametrize(("title", "target"), SECTIONS.items())
def test_what_the_page_shows_is_written(title, target):
    plan = load_fleet_plan(PLAN)
    made = TARGETS[target].load()(plan, fleet_of(plan, ROOT / "examples" / "fleets" / "mixed.yaml"), Options())
    found = [node for document in yaml.safe_load_all(made.files[0].text) for node in nodes(document)]
    (piece,) = pieces(title)
    assert any(inside(piece, node) for node in found)


def test_the_part_of_the_plan_is_the_examples():
    (part,) = yaml.safe_load(re.findall(r"```yaml\n(parts:.*?)```", PAGE, re.DOTALL)[0])["parts"]
    parts = yaml.safe_load(PLAN.read_text())["fleet_plan"]["gang"]["parts"]
    assert any(inside(part, one) for one in parts)
