"""The ten golden intents, and what the planner makes of them.

In: files of golden/. Out: what was asked, answers (each computed once), and what was decided in words. Invariant: words
of decisions have no predicted figure, so that a better estimate changes them only where it changes the plan.
"""

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from accord.compile import compile_fleet
from accord.edges.fleet_file import load_fleet
from accord.edges.intent_file import load_intent
from accord.edges.known import known
from accord.edges.model_card import find_card
from accord.models.read import read_card
from accord.terms.architecture import Architecture
from accord.terms.fleet import Fleet
from accord.terms.fleet_plan import FleetPlan, Pool, Role
from accord.terms.gang import Need
from accord.terms.intent import Intent
from accord.terms.refusal import Refusal

FOLDER = Path(__file__).parent / "golden"
REFUSALS = ("budget-too-small", "impossible-latency", "impossible-memory")
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))
PLANS = tuple(name for name in NAMES if name not in REFUSALS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """An intent with the model and the fleet that it names."""

    path: Path
    intent: Intent
    architecture: Architecture
    fleet: Fleet

    def with_override(self, text: str) -> "Asked":
        """The same with one field changed, as --set does."""
        return replace(self, intent=load_intent(self.path, overrides=[text]))

    def without_inputs(self) -> "Asked":
        """The same with words alone."""
        workload = replace(self.intent.workload, inputs=(("text", 1.0),))
        return replace(self, intent=replace(self.intent, workload=workload))


@cache
def asked(name: str) -> Asked:
    """What stands in golden/NAME.yaml."""
    return asked_at(FOLDER / f"{name}.yaml")


def asked_at(path: Path) -> Asked:
    """What stands in this file."""
    intent = load_intent(path)
    card = find_card(intent.model)
    return Asked(
        path=path,
        intent=intent,
        architecture=read_card(card.values, name=card.name),
        fleet=load_fleet(path.parent / intent.fleet),
    )


def compiled(wanted: Asked) -> FleetPlan | Refusal:
    """What the planner makes of it."""
    given = known(wanted.architecture, FOLDER)  # without calibrations, which are of one machine
    return compile_fleet(wanted.intent, architecture=wanted.architecture, fleet=wanted.fleet, given=given)


@cache
def answer(name: str) -> FleetPlan | Refusal:
    """The same, once a run."""
    return compiled(asked(name))


def text_of(name: str) -> str:
    """What was decided when golden/NAME.txt was written."""
    return (FOLDER / f"{name}.txt").read_text()


def decided(found: FleetPlan | Refusal) -> str:
    """A decision in words: a line for each pool, or what was refused and which fields would help."""
    if isinstance(found, Refusal):
        # Ways out that name a field, or cards.
        fields = dict.fromkeys(fix.split(" ")[0] for fix in found.fix if "." in fix.split(" ")[0] or fix[:4] == "add ")
        return "\n".join((f"refused: {found.field}", *(f"way out: {field}" for field in fields), ""))
    needs = {part.name: part.need for part in found.gang.parts}
    return "\n".join((*(_words(pool, needs[pool.part]) for pool in found.pools), ""))


def _words(pool: Pool, need: Need) -> str:
    """Devices of a role. How they divide the model isn't said: that is often a tie (tp2 or dp2)."""
    role = "" if pool.role is Role.WHOLE else f".{pool.role}"
    if need.share:
        return f"{pool.stage}{role}: {pool.replicas} x {need.share:.3g} of {pool.kind}"
    return f"{pool.stage}{role}: {pool.replicas * pool.nodes * need.cards} x {pool.kind}"
