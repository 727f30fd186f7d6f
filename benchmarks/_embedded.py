"""The embedded omni model as `accord demo` runs it: planned for this machine, with its real weights.

In: nothing. Out: a plan, and a running service inside a block. Invariant: the plan is the planner's; where the
machine is too slow for an objective of the intent, it is planned without, as the demo does.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import as_file, files

from accord.cli.flow import Prepared, planned_freely, prepare
from accord.cli.live import running
from accord.cli.words import console
from accord.edges.intent_file import load_intent
from accord.run.payloads import Message, Prompt, TextPart, pack_prompt
from accord.run.runtime import Runtime
from accord.terms.errors import BrokenEdge
from accord.terms.plan import Plan
from accord.terms.refusal import Refusal
from accord.terms.request import Params, Part, Request


def planned() -> tuple[Prepared, Plan]:
    """Fetches and measures what isn't here yet, and plans. BrokenEdge if this machine can't run the model at all."""
    with as_file(files("accord").joinpath("assets", "voice-assistant.yaml")) as intent:
        prepared = prepare(load_intent(intent), console(quiet=True))
    if isinstance(prepared.answer, Refusal) and prepared.answer.field.startswith("objectives."):
        prepared = planned_freely(prepared)
    match prepared.answer:
        case Plan() as plan:
            return prepared, plan
        case Refusal() as refusal:
            raise BrokenEdge(f"{refusal.field} = {refusal.value} is refused here ({refusal.limit}): nothing to measure")


@asynccontextmanager
async def service(prepared: Prepared, plan: Plan) -> AsyncIterator[Runtime]:
    """The plan, running inside the block."""
    async with running(prepared, plan, console(quiet=True)) as runtime:
        yield runtime


def text_request(words: str, *, max_tokens: int) -> Request:
    """Typed text in, text out."""
    prompt = Prompt(messages=(Message(role="user", parts=(TextPart(text=words),)),))
    return Request(
        parts=(Part(edge="prompt", data=pack_prompt(prompt)),),
        outputs=frozenset({"text"}),
        params=Params(max_tokens=max_tokens),
    )
