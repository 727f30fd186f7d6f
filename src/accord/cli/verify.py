"""`accord verify`: find where a device computes wrong numbers, prove it, and say where.

In: a device's name. Out: words, a file of quirks, an HTML page, or JSON with --json; status 1 if a fault was found.
"""

from collections.abc import Callable

import click


def _sweep() -> click.Command:
    from accord.cli.verify_sweep import sweep

    return sweep


def _retest() -> click.Command:
    from accord.cli.verify_retest import retest

    return retest


def _drift() -> click.Command:
    from accord.cli.verify_drift import drift_command

    return drift_command


def _schema() -> click.Command:
    from accord.cli.verify_retest import schema

    return schema


_VERBS: dict[str, tuple[str, Callable[[], click.Command]]] = {
    "DEVICE": ("Sweep a device: `accord verify cpu --help` tells the options.", _sweep),
    "retest": ("Ask again whether the faults of a file of quirks are still there.", _retest),
    "drift": ("Compare two engines on a whole model, layer by layer and token by token.", _drift),
    "schema": ("Print the JSON Schema of a file of quirks.", _schema),
}


class _Verbs(click.Group):
    """Whatever isn't a verb is a device to sweep. Imports a verb when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return _VERBS[cmd_name][1]() if cmd_name in _VERBS else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] in _VERBS and args[0] != "DEVICE":
            return super().resolve_command(ctx, args)
        return "DEVICE", _sweep(), args

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, words) for name, (words, _) in _VERBS.items()])


@click.group(
    cls=_Verbs, short_help="Find where a device computes wrong numbers.", subcommand_metavar="DEVICE [OPTIONS]"
)
def verify() -> None:
    """Find where a device computes wrong numbers, prove it, say where, and look for a way round.

    DEVICE is cpu, numpy, onnxruntime, jax, openvino, or torch: with PyTorch's name of a device. python@PATH: before it
    runs it with another Python.
    """
