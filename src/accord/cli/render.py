"""`accord render`: a fleet's plan as manifests or command lines.

In: a plan for a fleet, a target. Out: text on stdout or files, what the target can't express on stderr; status 1
with --strict if there is any of that.
"""

import difflib
import re
from pathlib import Path

import click
import msgspec

from accord.cli.options import json_option
from accord.edges.fleet_plan_file import load_fleet_plan
from accord.edges.plan_fleet import check_kinds, check_seats, fleet_of
from accord.edges.result_files import save_bytes
from accord.render.names import is_label
from accord.render.rendered import File, Options, Rendered
from accord.render.targets import TARGETS
from accord.terms.errors import BadInput
from accord.terms.fleet_plan import FleetPlan
from accord.terms.refusal import Refusal

# Registry, path, tag, digest: no reference has spaces or quotes.
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]*", re.ASCII)


class _Targets(click.Choice):  # type: ignore[type-arg]
    """The targets' names; a wrong one is told like any other bad input."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in self.choices:
            near = difflib.get_close_matches(value, TARGETS, n=1)
            fix = f"did you mean {near[0]}?" if near else f"known here: {', '.join(TARGETS)}"
            raise BadInput(field="--to", value=value, problem="unknown target", fix=fix)
        return str(super().convert(value, param, ctx))


@click.command(short_help="Write a plan as manifests or command lines.")
@click.argument("plan", type=click.Path(path_type=Path))
@click.option("--to", "target", type=_Targets(list(TARGETS)), required=True, help="What to write the plan for.")
@click.option("--fleet", type=click.Path(path_type=Path), help="The fleet: its device kinds, labels and UUIDs.")
@click.option("--out", type=click.Path(path_type=Path), help="Write files into this folder instead of printing them.")
@click.option("--strict", is_flag=True, help="Refuse if the target can't express all that the plan wants.")
@click.option("--pin/--no-pin", default=None, help="Keep the plan's nodes and devices, or let the cluster choose.")
@click.option("--namespace", default="default", show_default=True, help="The Kubernetes namespace.")
@click.option("--image", "images", multiple=True, metavar="NAME=IMAGE", help="The image of a pool or an engine.")
@click.option("--autoscale", type=click.IntRange(1), metavar="N", help="Let each pool grow to so many replicas.")
@json_option
def render(
    *,
    plan: Path,
    target: str,
    fleet: Path | None,
    out: Path | None,
    strict: bool,
    pin: bool | None,
    namespace: str,
    images: tuple[str, ...],
    autoscale: int | None,
    as_json: bool,
) -> int:
    """Write PLAN, a plan for a fleet, as what TARGET reads.

    The text goes to stdout, so that it can be applied at once; what the target can't express is listed on stderr.
    """
    wanted = load_fleet_plan(plan)
    options = Options(
        pinned=_pinned(wanted, pin, autoscale),
        namespace=_namespace(namespace),
        images=tuple(_image(one, wanted) for one in images),
        replicas_max=_replicas_max(autoscale, target),
    )
    known = fleet_of(wanted, fleet)
    if fleet is not None:
        check_kinds(wanted, known)
        if options.pinned:
            check_seats(wanted, known)
    made = TARGETS[target].load()(wanted, known, options)
    refused = strict and bool(made.lost)
    if out is not None and not refused:
        for file in made.files:
            save_bytes(out / file.name, file.text.encode())
    if as_json:
        answer = {"refusal": _refusal(wanted, target, made)} if refused else made
        click.echo(msgspec.json.encode(answer).decode())
        return int(refused)
    for line in _lines(made, target, refused=refused):
        click.echo(f"  {line}", err=True)
    if not refused:
        _show(made.files, out)
    return int(refused)


def _pinned(plan: FleetPlan, pin: bool | None, autoscale: int | None) -> bool:
    if pin and not plan.seats:
        fix = "place it first, or leave --pin out"
        raise BadInput(field="--pin", value="given", problem="the plan has no seats", fix=fix)
    pinned = bool(plan.seats) if pin is None else pin
    if pinned and autoscale is not None:
        fix = "add --no-pin, or leave --autoscale out"
        raise BadInput(field="--autoscale", value=autoscale, problem="nodes that are pinned can't grow", fix=fix)
    return pinned


def _namespace(text: str) -> str:
    if not is_label(text):
        fix = "use up to 63 small letters, digits and dashes, as Kubernetes wants"
        raise BadInput(field="--namespace", value=text, problem="not a namespace", fix=fix)
    return text


def _image(text: str, plan: FleetPlan) -> tuple[str, str]:
    name, equals, image = text.partition("=")
    if not (name and equals and _IMAGE.fullmatch(image)):
        fix = "write NAME=IMAGE, such as --image vllm=vllm/vllm-openai:v0.19.0"
        raise BadInput(field="--image", value=text, problem="not understood", fix=fix)
    names = list(dict.fromkeys((*(one.name for one in plan.pools), *(one.engine for one in plan.pools), "router")))
    if name not in names:
        fix = f"known here: {', '.join(names)}"
        raise BadInput(field="--image", value=name, problem="no pool and no engine of the plan", fix=fix)
    return name, image


def _replicas_max(autoscale: int | None, target: str) -> int | None:
    if autoscale is not None and not TARGETS[target].manifests:
        fix = "leave --autoscale out, or choose a target that Kubernetes applies"
        raise BadInput(field="--autoscale", value=autoscale, problem=f"{target} starts a fixed number", fix=fix)
    return autoscale


def _lines(made: Rendered, target: str, *, refused: bool) -> list[str]:
    notes = [f"note: {note}" for note in made.notes]
    if not made.lost:
        return notes
    what = "Refused: " if refused else ""
    lines = [f"{what}{target} can't express {len(made.lost)} of the plan's wishes:"]
    return [*lines, *(f"  {one.what}: {one.why}" for one in made.lost), *notes]


def _refusal(plan: FleetPlan, target: str, made: Rendered) -> Refusal:
    return Refusal(
        field="fleet_plan",
        value=plan.name,
        limit=f"{target} can't express {len(made.lost)} of the plan's wishes",
        causes=tuple(f"{one.what}: {one.why}" for one in made.lost),
        fix=("leave --strict out", "choose another target", "change the plan"),
    )


def _show(files: tuple[File, ...], out: Path | None) -> None:
    if out is not None:
        for file in files:
            click.echo(f"  wrote {out / file.name}", err=True)
        return
    for file in files:
        # With several files, each says its name in a comment, which every target's text can have.
        click.echo((f"# {file.name}\n" if len(files) > 1 else "") + file.text, nl=False)
