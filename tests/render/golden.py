"""Golden renders: every example plan for every target, as files that people read.

In: the examples and the targets. Out: (path, text) of each golden file. Invariant: the text is what `accord render`
prints with the fleet of the examples, and what is lost follows as comments.
"""

from collections.abc import Iterator
from pathlib import Path

from accord.edges.fleet_plan_file import load_fleet_plan
from accord.edges.plan_fleet import fleet_of
from accord.render.rendered import Options
from accord.render.targets import TARGETS
from accord.render.yaml_text import comment
from accord.terms.errors import BadInput

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent / "golden"
PLANS = sorted((ROOT / "examples" / "plans").glob("*.yaml"))
MIXED = ROOT / "examples" / "fleets" / "mixed.yaml"


def golden_path(plan: Path, target: str) -> Path:
    """Where the golden file of a plan and a target stands."""
    return FOLDER / plan.stem / f"{target}.yaml"


def golden_text(path: Path, target: str) -> str:
    """What that file must hold."""
    plan = load_fleet_plan(path)
    try:
        made = TARGETS[target].load()(plan, fleet_of(plan, MIXED), Options(pinned=bool(plan.seats)))
    except BadInput as error:
        return comment(f"Refused: {error}")
    several = len(made.files) > 1
    text = "".join((f"# {file.name}\n" if several else "") + file.text for file in made.files)
    said = [f"lost: {one.what}: {one.why}" for one in made.lost] + [f"note: {note}" for note in made.notes]
    return text + "".join(comment(f"stderr: {line}") for line in said)


def all_goldens() -> Iterator[tuple[Path, str]]:
    """Every file and its text."""
    for plan in PLANS:
        for target in TARGETS:
            yield golden_path(plan, target), golden_text(plan, target)
