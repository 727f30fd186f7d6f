"""`accord up`: plan an intent, run it, serve it until stopped.

In: an intent file. Out: a service at a local address. Invariant: when the command ends, no process and no
memory of the service is left.
"""

import asyncio
from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console

from accord.cli.flow import Prepared, prepare, show_plan, show_refusal
from accord.cli.live import run_to_end, running
from accord.cli.options import fleet_option, intent_argument, json_option, overrides_of, set_option
from accord.cli.words import console, print_json
from accord.edges.intent_file import load_intent
from accord.edges.listening import check_free
from accord.serve.config import DoorConfig
from accord.serve.server import serve
from accord.terms.intent import Intent
from accord.terms.plan import Plan
from accord.terms.refusal import Refusal


@click.command(short_help="Plan an intent, run it, and serve it.")
@intent_argument
@fleet_option
@set_option
@click.option("--host", help="Listen on this address instead of the intent's.")
@click.option("--port", type=click.IntRange(0, 65535), help="Listen on this port instead of the intent's; 0: any free.")
@json_option
def up(
    *, intent: Path, fleet: str | None, overrides: tuple[str, ...], host: str | None, port: int | None, as_json: bool
) -> int:
    """Plan INTENT (a YAML file), start it, and serve the OpenAI API and a console page until Ctrl-C."""
    words = console(quiet=as_json)
    wanted = load_intent(intent, overrides=overrides_of(overrides, fleet))
    serving = wanted.serving
    serving = replace(serving, host=host or serving.host, port=serving.port if port is None else port)
    check_free(serving.host, serving.port)
    prepared = prepare(replace(wanted, serving=serving), words, verify=True)
    match prepared.answer:
        case Refusal() as refusal:
            return show_refusal(refusal, words, as_json=as_json)
        case plan:
            show_plan(prepared, plan, words)
            run_to_end(_serve(prepared, plan, words=words, as_json=as_json))
            return 0


async def _serve(prepared: Prepared, plan: Plan, *, words: Console, as_json: bool) -> None:
    config = _door(prepared.intent, plan)
    async with running(prepared, plan, words) as runtime, serve(runtime, config) as bound:
        words.print(f"  Serving {plan.graph.model} at {bound.url}/v1   console: {bound.url}/   stop: Ctrl-C")
        if not config.on_loopback() and config.api_key is None:
            words.print("  Anyone who can reach this address may use it: set serving.api_key to require a key.")
        if as_json:
            print_json({"url": bound.url, "model": plan.graph.model})
        try:
            await asyncio.Event().wait()
        finally:
            words.print("\n  Stopping: open requests may end …")


def _door(intent: Intent, plan: Plan) -> DoorConfig:
    return DoorConfig(
        model=plan.graph.model,
        host=intent.serving.host,
        port=intent.serving.port,
        api_key=intent.serving.api_key,
    )
