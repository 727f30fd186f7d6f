"""From an intent to an answer of the planner: what `plan`, `up` and `demo` share.

In: an `Intent`. Out: `Prepared`: the plan or refusal, and the folders of the weights.
Invariant: what can be refused without fetching or measuring is refused first.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
from rich.console import Console
from rich.progress import TaskID

from accord.cli.words import counted, download_bars, print_json, show_rows
from accord.compile import compile_intent
from accord.edges import machine as machine_edge
from accord.edges import profile_local, weights
from accord.explain import machine_words, refusal_lines, stage_rows
from accord.models import catalog
from accord.plan.local.judge import out_of_reach
from accord.terms import units
from accord.terms.intent import Intent
from accord.terms.machine import Machine
from accord.terms.plan import Plan
from accord.terms.refusal import Refusal
from accord.terms.speed import Model, StageSpeed


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """All that running needs. `assets` maps weight packages to folders."""

    intent: Intent
    machine: Machine
    answer: Plan | Refusal
    model: Model
    assets: Mapping[str, Path]
    speeds: tuple[StageSpeed, ...]
    home: Path


def prepare(intent: Intent, out: Console, *, measure: bool = False, verify: bool = False) -> Prepared:
    """Fetches weights, measures the stages where that hasn't been done, and plans. Says what it does.

    `measure`: what was measured before is measured again. `verify`: every byte of the weights is read and
    checked, half a second's work: a flipped bit would not stop a model, but make it talk nonsense.
    """
    home = weights.home()
    model = catalog.find(intent.model)
    machine = machine_edge.probe()
    refused = out_of_reach(intent, model, machine)
    if refused is not None:
        return Prepared(intent=intent, machine=machine, answer=refused, model=model, assets={}, speeds=(), home=home)
    assets = _fetch(model, home, out, verify=verify)
    if measure:
        profile_local.forget(model, machine=machine, home=home)
    speeds = _speeds(model, machine=machine, home=home, assets=assets, out=out)
    answer = compile_intent(intent, model=model, speeds=speeds, machine=machine)
    return Prepared(intent=intent, machine=machine, answer=answer, model=model, assets=assets, speeds=speeds, home=home)


def measured_stages(model: Model, machine: Machine, out: Console) -> tuple[StageSpeed, ...]:
    """The speeds of an embedded model's stages, measured now; later plans count with them."""
    home = weights.home()
    assets = _fetch(model, home, out, verify=False)
    profile_local.forget(model, machine=machine, home=home)
    return _speeds(model, machine=machine, home=home, assets=assets, out=out)


def planned_freely(prepared: Prepared) -> Prepared:
    """The same, planned without objectives; they are still measured against."""
    free = replace(prepared.intent, objectives=())
    answer = compile_intent(free, model=prepared.model, speeds=prepared.speeds, machine=prepared.machine)
    if isinstance(answer, Plan):
        answer = replace(answer, objectives=prepared.intent.objectives)
    return replace(prepared, answer=answer)


def show_plan(prepared: Prepared, plan: Plan, out: Console) -> None:
    """The plan as a table."""
    out.print(f"  Plan  {plan.name} on this machine ({machine_words(prepared.machine)})")
    show_rows(out, stage_rows(plan))


def show_refusal(refusal: Refusal, out: Console, *, as_json: bool) -> int:
    """The refusal in words or as JSON; gives the exit status."""
    if as_json:
        print_json({"refusal": msgspec.to_builtins(refusal)})
    else:
        for line in refusal_lines(refusal):
            out.print(f"  {line}")
        if refusal.field.startswith(("objectives.", "workload.rate_rps")):
            out.print("  If this machine was busy when its stages were measured: `accord plan INTENT --measure`")
    return 1


def _fetch(model: Model, home: Path, out: Console, *, verify: bool) -> dict[str, Path]:
    names = list(dict.fromkeys(asset for row in model.engines for asset in row.assets))
    with download_bars(out) as bars:
        tasks: dict[str, TaskID] = {}

        def progress(asset: str, done_bytes: int, total_bytes: int) -> None:
            if asset not in tasks:
                tasks[asset] = bars.add_task(weights.WEIGHTS[asset].role, total=total_bytes)
            bars.update(tasks[asset], completed=done_bytes)

        manner = weights.Manner(note=lambda words: bars.console.print(f"  {words}"))
        folders = weights.fetch(names, home=home, progress=progress, verify=verify, manner=manner)
    sizes: dict[str, int] = {}
    for name in names:
        row = weights.WEIGHTS[name]
        sizes[row.role] = sizes.get(row.role, 0) + row.wheel_bytes
    parts = " · ".join(f"{role} {_megabytes(size)}" for role, size in sizes.items())
    out.print(f"  Weights  {parts}   ({'checked' if verify else 'in place'})")
    return folders


def _megabytes(size_bytes: int) -> str:
    return f"{units.megabytes(size_bytes):.0f} MB"


def _speeds(
    model: Model, *, machine: Machine, home: Path, assets: Mapping[str, Path], out: Console
) -> tuple[StageSpeed, ...]:
    with counted(out, "measuring") as bar:
        task = bar.add_task("", total=None, visible=False)

        def progress(stage: str, done: int, total: int) -> None:
            if done == 0:
                bar.console.print("  measuring each stage on this machine, once (a minute or so)")
            bar.update(task, description=stage, completed=done, total=total, visible=True)

        return profile_local.stage_speeds(model, machine=machine, home=home, assets=assets, progress=progress)
