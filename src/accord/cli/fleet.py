"""`accord fleet`: find out what there is, look at it, place gangs on it (fleet_place.py).

In: a fleet file, this machine, or a cluster. Out: words, a drawing, a fleet file, or JSON with --json.
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import click
import msgspec

from accord.cli.fleet_place import place
from accord.cli.fleet_shape import uses
from accord.cli.fleet_svg import fleet_svg, node_svg
from accord.cli.fleet_words import catalog_lines, fleet_lines, node_lines
from accord.cli.fleets import cluster, fleet_named, this_machine
from accord.cli.options import json_option
from accord.edges import device_catalog
from accord.edges.fleet_dump import dump_fleet, save_fleet
from accord.edges.fleet_kinds import catalog_kind
from accord.edges.result_files import save_bytes
from accord.terms.errors import BadInput
from accord.terms.fleet import Fleet, Node


@click.command(short_help="Write down what this machine, or a cluster, has.")
@click.option("--kubernetes", is_flag=True, help="Probe a cluster, by its API server, instead of this machine.")
@click.option("--context", help="The kubeconfig's context (default: its current one).")
@click.option("--server", metavar="URL", help="The address of an API server that asks for nothing: `kubectl proxy`.")
@click.option("--out", type=click.Path(path_type=Path), help="Write the fleet to this YAML file.")
@json_option
def probe(*, kubernetes: bool, context: str | None, server: str | None, out: Path | None, as_json: bool) -> int:
    """Write down what this machine, or a cluster, has: a fleet file.

    What can't be seen is listed as unseen.
    """
    if not kubernetes and (context or server):
        raise click.UsageError("--context and --server go with --kubernetes")
    found = cluster(context, server) if kubernetes else this_machine()
    if out is not None:
        save_fleet(found, out)
    if as_json:
        _print_json(found)
    elif out is None:
        click.echo(dump_fleet(found), nl=False)
    else:
        _print_lines(found)
        click.echo(f"  Wrote {out}")
    return 0


@click.command(short_help="Draw the topology of a fleet.")
@click.argument("path", metavar="FLEET", type=click.Path(path_type=Path))
@click.option("--node", "name", metavar="NODE", help="Show one node in full, with who has what of it.")
@click.option("--svg", type=click.Path(path_type=Path), help="Draw it into this SVG file, too.")
@json_option
def show(*, path: Path, name: str | None, svg: Path | None, as_json: bool) -> int:
    """Draw the topology of FLEET (a YAML file; `local` is this machine, `kubernetes` a cluster)."""
    found = fleet_named(str(path))
    node = None if name is None else _node(found, name)
    if svg is not None:
        save_bytes(svg, (fleet_svg(found) if node is None else node_svg(found, node)).encode())
    if as_json:
        _print_json(found)
    else:
        _print_lines(found, node)
        if svg is not None:
            click.echo(f"  Wrote {svg}")
    return 0


@click.command(short_help="List the devices of the catalog.")
@json_option
def kinds(*, as_json: bool) -> int:
    """List the devices of the catalog with their figures."""
    catalog = tuple(catalog_kind(name) for name in device_catalog.names())
    if as_json:
        click.echo(json.dumps({"kinds": msgspec.to_builtins(catalog)}, ensure_ascii=False))
        return 0
    for line in catalog_lines(catalog, width=_width()):
        click.echo(line)
    return 0


_VERBS: Mapping[str, click.Command] = {"probe": probe, "show": show, "kinds": kinds, "place": place}


class _Verbs(click.Group):
    """The verbs of the table above, in its order."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return _VERBS.get(cmd_name)


@click.group(cls=_Verbs, short_help="Find out what devices there are, look at them, place gangs on them.")
def fleet() -> None:
    """Find out what devices there are, look at them, place gangs on them."""


def _node(found: Fleet, name: str) -> Node:
    for node in found.nodes:
        if node.name == name:
            return node
    raise BadInput(field="--node", value=name, problem="no such node", fix="name one of the fleet's nodes")


def _print_lines(found: Fleet, node: Node | None = None) -> None:
    for line in fleet_lines(found, width=_width()) if node is None else node_lines(found, node):
        click.echo(line)


def _print_json(found: Fleet) -> None:
    used = {name: msgspec.to_builtins(use) for name, use in uses(found).items()}
    click.echo(json.dumps({"fleet": msgspec.to_builtins(found), "used": used}, ensure_ascii=False))


def _width() -> int:
    return shutil.get_terminal_size((120, 40)).columns
