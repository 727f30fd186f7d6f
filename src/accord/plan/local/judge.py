"""What the planner of one machine can't judge, refused before anything is measured or planned.

In: an intent, a model, a machine. Out: a `Refusal`, or None. Invariant: no speeds are needed.
"""

from accord.plan.local.question import Question
from accord.plan.local.refuse import too_small
from accord.terms.graph import DOOR, Payload
from accord.terms.intent import Intent
from accord.terms.machine import Machine
from accord.terms.refusal import Refusal
from accord.terms.speed import Model

_INPUTS = {"audio": Payload.AUDIO, "image": Payload.IMAGE, "text": Payload.PROMPT}
_OUTPUTS = {"audio": Payload.PCM, "text": Payload.TEXT}


def out_of_reach(intent: Intent, model: Model, machine: Machine) -> Refusal | None:
    """What can be refused without any measurement."""
    if intent.fleet != "local":
        causes = ("this version plans for one machine",)
        return _refused("fleet", intent.fleet, "local", causes=causes, fix="write `fleet: local`")
    if intent.workload.trace is not None:
        causes = ("the planner of one machine counts with a mean rate",)
        fix = "write workload.rate_rps"
        return _refused("workload.trace", intent.workload.trace, "a rate", causes=causes, fix=fix)
    if intent.agents is not None:
        causes = ("the planner of one machine doesn't count agent stages",)
        count = f"{intent.agents.concurrent} sessions"
        return _refused("agents", count, "none", causes=causes, fix="remove it: the model's own stages run without it")
    taken = {edge.payload for edge in model.graph.edges if edge.source == DOOR}
    given = {edge.payload for edge in model.graph.edges if edge.target == DOOR}
    for table, kinds, shares, has in (
        ("inputs", _INPUTS, intent.workload.inputs, taken),
        ("outputs", _OUTPUTS, intent.workload.outputs, given),
    ):
        for kind, share in shares:
            if share > 0 and kinds.get(kind) not in has:
                causes = (f"{model.graph.model} has no stage for {kind} {table}",)
                field = f"workload.{table}.{kind}"
                return _refused(field, f"{share:g}", "0", causes=causes, fix="set it to 0, or choose another model")
    return too_small(Question(intent=intent, model=model, speeds=(), machine=machine))


def _refused(field: str, value: str, limit: str, *, causes: tuple[str, ...], fix: str) -> Refusal:
    return Refusal(field=field, value=value, limit=limit, causes=causes, fix=(fix,))
