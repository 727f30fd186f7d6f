"""The root of the command line: which verbs there are, and how a command ends.

In: arguments. Out: an exit status: 0 done, 1 refused, 2 bad input, 3 a broken edge, 130 Ctrl-C, 143 SIGTERM.
Invariant: users see one plain message and no traceback, save for bugs; a verb's code is imported only when
it is called.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import NoReturn

import click

from accord import __version__
from accord.cli.ending import Terminated
from accord.terms.errors import AccordError, BadInput


def _plan() -> click.Command:
    from accord.cli.plan import plan

    return plan


def _explain() -> click.Command:
    from accord.cli.explain import explain

    return explain


def _demo() -> click.Command:
    from accord.cli.demo import demo

    return demo


def _up() -> click.Command:
    from accord.cli.up import up

    return up


def _model() -> click.Command:
    from accord.cli.model import model

    return model


def _render() -> click.Command:
    from accord.cli.render import render

    return render


def _profile() -> click.Command:
    from accord.cli.profile import profile

    return profile


def _fleet() -> click.Command:
    from accord.cli.fleet import fleet

    return fleet


def _verify() -> click.Command:
    from accord.cli.verify import verify

    return verify


_VERBS: dict[str, tuple[str, Callable[[], click.Command]]] = {
    "demo": ("Do the main job once: a spoken question, a streamed and spoken answer.", _demo),
    "up": ("Plan an intent, run it, and serve it until stopped.", _up),
    "plan": ("Show what an intent becomes on this machine or a fleet, or why it can't be met.", _plan),
    "model": ("Show the stage graph of a model: weights, caches and work, from its card.", _model),
    "render": ("Write a fleet's plan as Kubernetes manifests or command lines.", _render),
    "fleet": ("Find out what devices there are, on this machine or in a cluster, and look at them.", _fleet),
    "profile": ("Measure a device, so that plans count with what it reaches.", _profile),
    "verify": ("Find where a device computes wrong numbers, prove it, and look for a way round.", _verify),
    "explain": ("Say in words what a plan promises, and why it is the best.", _explain),
}


class _Verbs(click.Group):
    """Imports a verb when it is called, so that `accord --help` is quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        row = _VERBS.get(cmd_name)
        return row[1]() if row else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, words) for name, (words, _) in _VERBS.items()])


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="accord")
def root() -> None:
    """Declare the intent of an AI inference service; Accord delivers the result."""


def run(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs one command and ends the process."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    signal.signal(signal.SIGTERM, _terminated)
    try:
        status = _status(given)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our words has gone; nothing can be said any more, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    sys.exit(status)


def _status(given: list[str]) -> int:
    as_json = "--json" in given
    try:
        result = root.main(args=given, prog_name="accord", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except SystemExit:
        return 0  # click's answer to a closed pipe, where nobody is left to be told
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return 2
    except click.ClickException as error:
        if as_json:
            _print_json({"error": {"kind": "BadInput", "field": "arguments", "text": error.format_message()}})
        else:
            error.show()
        return 2
    except (click.Abort, KeyboardInterrupt) as error:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        click.echo("  Stopped; nothing is left running.", err=True)
        return 143 if isinstance(error.__cause__ or error, Terminated) else 130
    except ModuleNotFoundError as error:
        if (error.name or "accord").startswith("accord"):
            raise
        text = f"the package that brings the module {error.name} is missing; pip install 'accord-ai[embedded]'"
        if as_json:
            _print_json({"error": {"kind": "BrokenEdge", "text": text}})
        else:
            click.echo(f"  {text}", err=True)
        return 3
    except AccordError as error:
        if as_json:
            fields = {"field": error.field, "fix": error.fix} if isinstance(error, BadInput) else {}
            _print_json({"error": {"kind": type(error).__name__, "text": str(error), **fields}})
        else:
            click.echo(f"  {error}", err=True)
        return error.exit_status


def _print_json(value: dict[str, dict[str, str]]) -> None:
    click.echo(json.dumps(value, ensure_ascii=False))


def _terminated(_signum: int, _frame: FrameType | None) -> None:
    """A polite request to end is an interrupt: everything that runs is closed on the way out."""
    raise Terminated
