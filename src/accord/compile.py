"""Intent + what it is to run on -> a plan or a Refusal.

In: values. Out: a value. Invariant: pure; the same question always has the same answer. The feedback between choosing
and placing lives here: take the next candidate until one can be placed.
"""

from dataclasses import replace

from accord.place.board import Board
from accord.place.gang import decide, find
from accord.place.mix import mix_of
from accord.place.online import Scores
from accord.plan.fleet.account import account_of
from accord.plan.fleet.build import fleet_plan
from accord.plan.fleet.candidates import candidates
from accord.plan.fleet.choose import Watch, quiet
from accord.plan.fleet.pareto import pareto
from accord.plan.fleet.question import NOTHING_GIVEN, Given, question_of
from accord.plan.fleet.refuse import refuse, unplaced
from accord.plan.local.judge import out_of_reach
from accord.plan.local.planner import plan_local
from accord.plan.local.question import Question
from accord.terms.account import FrontPoint
from accord.terms.architecture import Architecture
from accord.terms.fleet import Fleet
from accord.terms.fleet_plan import FleetPlan
from accord.terms.intent import Intent
from accord.terms.machine import Machine
from accord.terms.plan import Plan
from accord.terms.refusal import Refusal
from accord.terms.speed import Model, StageSpeed


def compile_intent(intent: Intent, *, model: Model, speeds: tuple[StageSpeed, ...], machine: Machine) -> Plan | Refusal:
    """The best plan for an embedded model on one machine, or why there is none and what would help."""
    refused = out_of_reach(intent, model, machine)
    return refused or plan_local(Question(intent=intent, model=model, speeds=speeds, machine=machine))


def compile_fleet(
    intent: Intent, *, architecture: Architecture, fleet: Fleet, given: Given = NOTHING_GIVEN, watch: Watch = quiet
) -> FleetPlan | Refusal:
    """The best plan for a fleet that can be placed, or why there is none and what would help."""
    question = question_of(intent, architecture, fleet, given=given)
    found = candidates(question, watch=watch)
    if found is None:
        return refuse(question)
    board, said = Board(fleet), None
    for choice in found.choices:
        plan = fleet_plan(question, choice)
        scores = Scores(board, mix_of([part.need for part in plan.gang.parts]))
        placement = find(board, scores, plan.gang)
        if placement is not None:
            return replace(plan, seats=placement.seats, account=account_of(question, found, choice))
        said = said or decide(board, scores, plan.gang)
    return unplaced(question, said)


def fleet_front(
    intent: Intent, *, architecture: Architecture, fleet: Fleet, given: Given = NOTHING_GIVEN, watch: Watch = quiet
) -> tuple[FrontPoint, ...]:
    """What more money buys: plans that no other beats."""
    return pareto(question_of(intent, architecture, fleet, given=given), watch=watch)
