"""`accord verify DEVICE`: the sweep as a person sees it.

In: a device, a budget, perhaps a model. Out: words while it goes and at its end, a file of quirks, an HTML page, JSON
with --json; status 1 if a fault was found. Invariant: Ctrl-C loses nothing that was asked; --resume goes on with it.
"""

import datetime as dt
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console

from accord.cli.options import json_option
from accord.cli.verify_devices import close_all, opened, parse_device, witnesses_for
from accord.cli.verify_model import model_points
from accord.cli.verify_page import page
from accord.cli.verify_words import duration, findings_lines
from accord.cli.words import console, print_json
from accord.edges.quirk_file import load_quirks, plain_quirks, save_quirks
from accord.edges.result_files import save_bytes
from accord.edges.sweep_journal import Journal, read_journal
from accord.edges.weights import home
from accord.terms import units
from accord.terms.errors import BadInput
from accord.terms.quirk import Point
from accord.terms.quirk_text import region_text
from accord.verify.devices.child import ChildDevice
from accord.verify.examine import Examined, Examiner
from accord.verify.findings import Findings, OperatorFindings, Verdict
from accord.verify.investigate import Case, bench_of, investigate, unproved
from accord.verify.operators.row import OperatorRow
from accord.verify.operators.table import operators
from accord.verify.quirks import merge
from accord.verify.sweep import Order
from accord.verify.sweep import sweep as swept

_SWEEP_SHARE = 0.5  # of the budget; the rest is for learning regions and looking for ways round
_CALL_S = 30.0
_WORD_EVERY_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """One sweep: the devices, the rows, the clock's limits, and where words go."""

    device: ChildDevice
    witnesses: tuple[ChildDevice, ...]
    rows: Mapping[str, OperatorRow]
    started_s: float
    budget_s: float
    words: Console

    def left_s(self) -> float:
        """Seconds of the budget that are left; 5 at least, so that a fault that was seen is always looked at."""
        return max(5.0, self.started_s + self.budget_s - time.monotonic())


@click.command(name="DEVICE", short_help="Sweep a device.")
@click.argument("device")
@click.option("--model", help="Ask the exact calls of this model card first.")
@click.option("--budget", default="10m", show_default=True, help="How long the whole may take, such as 90s or 1h.")
@click.option("--operators", "names", metavar="NAMES", help="Only these, such as mm,linear.")
@click.option("--out", type=click.Path(path_type=Path), help="Write the faults to this YAML file, or join them to it.")
@click.option("--report", type=click.Path(path_type=Path), help="Write a page for people to this HTML file.")
@click.option("--journal", type=click.Path(path_type=Path), help="Keep what was asked in this file.")
@click.option("--resume", is_flag=True, help="Go on with what the journal has, instead of starting afresh.")
@json_option
def sweep(
    *,
    device: str,
    model: str | None,
    budget: str,
    names: str | None,
    out: Path | None,
    report: Path | None,
    journal: Path | None,
    resume: bool,
    as_json: bool,
) -> int:
    """Sweep DEVICE: find where it computes wrong numbers, prove it, say where, and look for a way round."""
    words = console(quiet=as_json)
    named = parse_device(device)
    budget_s = units.parse_duration_s(budget, field="--budget")
    rows = _chosen(names)
    points = model_points(model) if model else ()
    known_quirks = load_quirks(out) if out is not None and out.exists() else ()
    with ExitStack() as stack:
        opened_device = opened(named, call_s=_CALL_S)
        stack.callback(opened_device.close)
        others = witnesses_for(opened_device, call_s=_CALL_S)
        stack.callback(close_all, others)
        run = _Run(
            device=opened_device,
            witnesses=tuple(others),
            rows=rows,
            started_s=time.monotonic(),
            budget_s=budget_s,
            words=words,
        )
        place = journal or _journal_of(device)
        kept = _known(place, run, resume=resume)
        book = stack.enter_context(_journal(place, run))
        findings = _found(run, points, kept, book, port=named.port, python=named.python)
    if out is not None:
        save_quirks(merge(known_quirks, findings.quirks), out)
    if report is not None:
        save_bytes(report, page(findings).encode())
    _say(findings, words, as_json=as_json, out=out, report=report)
    return int(bool(findings.quirks))


def _chosen(names: str | None) -> Mapping[str, OperatorRow]:
    rows = operators()
    if names is None:
        return rows
    wanted = [name.strip() for name in names.split(",")]
    for name in wanted:
        if name not in rows:
            fix = f"name some of {', '.join(rows)}"
            raise BadInput(field="--operators", value=name, problem="no such operator", fix=fix)
    return {name: rows[name] for name in wanted}


def _journal_of(device: str) -> Path:
    slug = "".join(letter if letter.isalnum() else "-" for letter in device)[-100:]
    return home() / "sweeps" / f"{slug}.jsonl"


def _known(place: Path, run: _Run, *, resume: bool) -> dict[Point, Examined]:
    """What an earlier sweep asked; without --resume its journal goes."""
    if not resume:
        place.unlink(missing_ok=True)
    if not place.exists():
        return {}
    kept = read_journal(place, run.device.describe())
    run.words.print(f"  going on with {len(kept):,} points of {place}")
    return {point: found for point, found in kept.items() if point.operator in run.rows}


@contextmanager
def _journal(place: Path, run: _Run) -> Iterator[Journal]:
    """The open journal. A Ctrl-C says how to go on before it ends the command."""
    place.parent.mkdir(parents=True, exist_ok=True)
    book = Journal(place, run.device.describe())
    try:
        yield book
    except KeyboardInterrupt:
        run.words.print(f"\n  What was asked is kept in {place}; the same command with --resume goes on.")
        raise
    finally:
        book.close()


def _found(
    run: _Run, points: tuple[Point, ...], known: dict[Point, Examined], book: Journal, *, port: str, python: str | None
) -> Findings:
    described = run.device.describe()
    run.words.print(f"  {_named(run)}")
    examiner = Examiner(run.device, run.witnesses, run.rows)
    asked = dict(known)
    for examined in _swept(run, examiner, points, known):
        book.add(examined)
        asked[examined.point] = examined
    by_operator = {name: [found for found in asked.values() if found.point.operator == name] for name in run.rows}
    faulty = {name: found for name, found in by_operator.items() if any(one.seen for one in found)}
    done: list[OperatorFindings] = [
        unproved(run.rows[name], found) for name, found in by_operator.items() if found and name not in faulty
    ]
    case = Case(
        examiner=examiner,
        device=described,
        port=port,
        python=python,
        bench=bench_of(run.device, run.rows, cpu=_cpu(run)),
        today=dt.datetime.now(tz=dt.UTC).date().isoformat(),
        seconds=_shares(run, faulty),
        now_s=time.monotonic,
    )
    for name, found in faulty.items():
        run.words.print(f"  learning where {name} fails")
        learned = investigate(run.rows[name], found, case, record=book.add)
        for quirk in learned.quirks:
            run.words.print(f"    {quirk.fault.value}: {region_text(quirk.region)}")
        done.append(learned)
    return Findings(
        device=described,
        witnesses=tuple(witness.describe().name for witness in run.witnesses),
        operators=tuple(done),
        found=case.today,
        took_s=time.monotonic() - run.started_s,
    )


def _swept(
    run: _Run, examiner: Examiner, points: tuple[Point, ...], known: dict[Point, Examined]
) -> Iterator[Examined]:
    """Sweeps until the budget ends, or half of it has gone and there is something to learn."""
    order = Order(rows=run.rows, model=points, budget_s=run.budget_s)
    faults = sum(bool(found.seen) for found in known.values())
    count, said_s = 0, time.monotonic()
    with run.words.status("  sweeping") if run.words.is_terminal else ExitStack() as status:
        for examined in swept(examiner, order, known=known, now_s=time.monotonic):
            yield examined
            count, faults = count + 1, faults + bool(examined.seen)
            spent_s = time.monotonic() - run.started_s
            told = f"  {count:,} points, {faults:,} failing   {examined.point.operator}   {duration(spent_s)}"
            if isinstance(status, ExitStack):
                if time.monotonic() - said_s > _WORD_EVERY_S:
                    run.words.print(told)
                    said_s = time.monotonic()
            else:
                status.update(told)
            if faults and spent_s > _SWEEP_SHARE * run.budget_s:
                return


def _cpu(run: _Run) -> ChildDevice | None:
    """The CPU beside a device of PyTorch that isn't one: the last way round."""
    name = run.device.describe().name
    if not name.startswith("torch:") or name.startswith("torch:cpu"):
        return None
    return next((witness for witness in run.witnesses if witness.describe().name == "torch:cpu"), None)


def _shares(run: _Run, faulty: Mapping[str, list[Examined]]) -> Callable[[], float]:
    """How long each fault may be looked at: what is left, divided by the faults that are left."""
    left = [sum(len({seen.fault for one in found for seen in one.seen}) for found in faulty.values())]

    def seconds() -> float:
        share = run.left_s() / max(1, left[0])
        left[0] -= 1
        return share

    return seconds


def _named(run: _Run) -> str:
    described = run.device.describe()
    versions = ", ".join(f"{known.library} {known.version}" for known in described.versions)
    witnesses = ", ".join(witness.describe().name for witness in run.witnesses)
    return f"{described.name} ({versions}); witnesses: {witnesses}; {len(run.rows)} operators"


def _say(findings: Findings, words: Console, *, as_json: bool, out: Path | None, report: Path | None) -> None:
    if as_json:
        print_json(_plain(findings))
        return
    for line in findings_lines(findings):
        words.print(f"  {line}")
    for path, what in ((out, "faults as quirks, which `accord plan` reads"), (report, "a page with maps")):
        if path is not None:
            words.print(f"  wrote {path}: {what}")


def _plain(findings: Findings) -> dict[str, object]:
    return {
        "device": findings.device.name,
        "versions": {known.library: known.version for known in findings.device.versions},
        "witnesses": findings.witnesses,
        "seconds": round(findings.took_s, 1),
        "operators": {
            operator.space.operator: {verdict.value: operator.count(verdict) for verdict in Verdict}
            for operator in findings.operators
        },
        "quirks": plain_quirks(findings.quirks),
    }
