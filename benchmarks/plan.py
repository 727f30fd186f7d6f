"""How good and how fast plans for fleets are: against trying everything, single vendors, and NVIDIA's aiconfigurator.

aiconfigurator's own case (Qwen3-32B-FP8 on 32 H200) is planned with its kernel times as a calibration, and our plan is
scored by its own estimator. CPU time is that of whole processes, theirs and ours in turn in one run.
"""

import json
import statistics
import sys
import tempfile
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import numpy as np

from _aiconfigurator import NAME, Case, installed, pick, score
from _figures import Figure, write
from _measured import Ended, run
from accord.edges.fleet_plan_file import load_fleet_plan

ACCORD = str(Path(sys.executable).with_name("accord"))
QWEN = Case(
    model="Qwen/Qwen3-32B-FP8", engine="vllm", devices=32, input_tokens=4000, output_tokens=500, ttft_ms=600, tpot_ms=25
)
DEEPSEEK = Case(
    model="deepseek-ai/DeepSeek-V3", engine="vllm", devices=32, input_tokens=4000, output_tokens=500, ttft_ms=600,
    tpot_ms=25,
)  # fmt: skip
CARDS = Path(str(files("aiconfigurator_core"))) / "model_configs"
ROUNDS = 3
SMALL = 400
NODE = "  - {{name: '{name}', cpus: 192, memory: 2TiB, devices: 8 x {kind}, nics: 8 x ib400, links: nvlink}}\n"
# Whole cards, as aiconfigurator deals them out.
WHOLE = "devices: {h200: {like: h200, soft_share: false, templates: {}}}\n"
VENDORS = ("h200", "mi300x", "a100-80g")
SIX = (("h200", 32), ("h20", 32), ("mi300x", 24), ("a100-80g", 16), ("l40s", 16), ("ascend-910b3", 8))  # nodes of eight
OMNI = """accord: 1
name: omni
model: qwen3-omni-30b-a3b
workload:
  rate_rps: 60
  input_tokens: {p50: 900, p99: 6000}
  output_tokens: {p50: 180, p99: 900}
  inputs: {text: 1.0, audio: 0.6, image: 0.2}
  outputs: {text: 1.0, audio: 0.6}
objectives: {ttft_p99: 800ms, tpot_p99: 60ms, first_audio_p99: 2s}
fleet: fleet.yaml
"""


def main() -> None:
    """All figures."""
    with tempfile.TemporaryDirectory() as folder:
        figures = [*_against_peer(Path(folder)), *_wide(Path(folder)), *_mixed(Path(folder)), *_exhaustive()]
    write("plan", figures)


def _against_peer(folder: Path) -> Iterator[Figure]:
    """The two cases of which aiconfigurator's own times are known; process by process, ours after theirs."""
    peer = NAME if installed() else None
    for case, name in ((QWEN, "qwen3-32b"), (DEEPSEEK, "deepseek-v3")):
        home = _calibrated(folder, case) if case is QWEN else folder / "bare"
        theirs, ours = [], []
        for _ in range(ROUNDS):
            theirs += [pick(case)] if installed() else []
            ours.append(_planned(folder / name, _intent(case), WHOLE + _fleet(("h200", case.devices // 8)), home=home))
        mine_s = statistics.median(ended.cpu_s for ended in ours)
        yield Figure(name=f"{name} cpu", value=mine_s, unit="CPU-s", better="lower")
        if theirs:
            peer_s = statistics.median(item.cpu_s for item in theirs)
            yield Figure(
                name=f"{name} speed", value=peer_s / mine_s, unit="x", better="higher", bar=10,
            )  # fmt: skip
            yield Figure(name=f"{name} peer cpu", value=peer_s, unit="CPU-s", better="lower")
        if case is QWEN and theirs:
            scored = score(case, load_fleet_plan(folder / name / "plan.yaml").pools)
            met = scored.ttft_ms <= case.ttft_ms and scored.tpot_ms <= case.tpot_ms
            yield Figure(
                name="qwen3-32b req/s", value=scored.rate_rps if met else 0.0, unit="req/s", better="higher", bar=23.25,
                peer=peer, peer_value=theirs[0].rate_rps,
            )  # fmt: skip
            yield Figure(name="qwen3-32b ttft", value=scored.ttft_ms, unit="ms", better="lower", bar=case.ttft_ms)
            yield Figure(name="qwen3-32b tpot", value=scored.tpot_ms, unit="ms", better="lower", bar=case.tpot_ms)


def _wide(folder: Path) -> Iterator[Figure]:
    """1,024 devices of six kinds, the stages of Qwen3-Omni."""
    fleet = _fleet(*((kind, nodes) for kind, nodes in SIX))
    ended = _planned(folder / "wide", OMNI, fleet, home=folder / "bare")
    yield Figure(name="1024 devices cpu", value=ended.cpu_s, unit="CPU-s", better="lower", bar=30)
    yield Figure(name="1024 devices memory", value=ended.peak_bytes / 2**20, unit="MiB", better="lower", bar=1024)


def _mixed(folder: Path) -> Iterator[Figure]:
    """The same intent on all vendors' nodes together, and on each vendor's alone."""
    ratios = []
    for rate in (5, 20, 60):
        wanted = _intent(QWEN, rate_rps=rate)
        both = _cost(folder / f"all-{rate}", wanted, _fleet(*((kind, 4) for kind in VENDORS)), folder)
        alone = [_cost(folder / f"{kind}-{rate}", wanted, _fleet((kind, 4)), folder) for kind in VENDORS]
        ratios += [both / min(alone)] if min(alone) < np.inf else []
    yield Figure(name="mixed / best vendor", value=max(ratios), unit="x cost", better="lower", bar=1.0)
    yield Figure(name="mixed / best vendor, least", value=min(ratios), unit="x cost", better="lower")


def _exhaustive() -> Iterator[Figure]:
    """Random problems of up to three roles, kinds and types, against trying every staffing."""
    sys.path.insert(0, str(Path(__file__).parents[1]))  # the problems are the tests' own
    from accord.plan.fleet.choose import cheapest
    from tests.plan.fleet import tables

    equal = 0
    for seed in range(10_000, 10_000 + SMALL):
        problem, rate = tables.small_problem(seed)  # type: ignore[no-untyped-call]
        found, wanted = cheapest(problem, rate), tables.least_cost(problem, rate)  # type: ignore[no-untyped-call]
        cost = found.choices[0].cost if found.choices else np.inf
        equal += bool(cost == wanted or abs(cost - wanted) < 1e-6)
    yield Figure(name="equal to exhaustive", value=100 * equal / SMALL, unit="%", better="higher", bar=100)


def _intent(case: Case, *, rate_rps: float | None = None) -> str:
    rate = "" if rate_rps is None else f"rate_rps: {rate_rps}, "
    budget = "budget: {per_hour: $1000}\n" if rate_rps is None else ""
    return (
        f"accord: 1\nname: case\nmodel: {CARDS / case.card}\nfleet: fleet.yaml\n{budget}"
        f"workload: {{{rate}input_tokens: {case.input_tokens}, output_tokens: {case.output_tokens}}}\n"
        f"objectives: {{ttft_p50: {case.ttft_ms:g}ms, tpot_p50: {case.tpot_ms:g}ms}}\n"
    )


def _fleet(*kinds: tuple[str, int]) -> str:
    return "nodes:\n" + "".join(NODE.format(name=f"{kind}-[1-{nodes}]", kind=kind) for kind, nodes in kinds)


def _calibrated(folder: Path, case: Case) -> Path:
    """A home with the kernel times of the case's engine, and whole steps of its model."""
    home = folder / "home"
    _done(run(
        ACCORD, "profile", "h200", "--tables", "--engine", case.engine, "--steps", case.model,
        environ={"ACCORD_HOME": str(home)},
    ))  # fmt: skip
    return home


def _planned(folder: Path, intent: str, fleet: str, *, home: Path) -> Ended:
    """`accord plan`, the whole process."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "fleet.yaml").write_text(f"accord: 1\n{fleet}")
    (folder / "intent.yaml").write_text(intent)
    command = (ACCORD, "plan", str(folder / "intent.yaml"), "--out", str(folder / "plan.yaml"), "--json")
    return _done(run(*command, environ={"ACCORD_HOME": str(home)}))


def _cost(folder: Path, intent: str, fleet: str, above: Path) -> float:
    """Dollars an hour; infinite where that is refused."""
    folder.mkdir(parents=True)
    (folder / "fleet.yaml").write_text(f"accord: 1\n{fleet}")
    (folder / "intent.yaml").write_text(intent)
    ended = run(ACCORD, "plan", str(folder / "intent.yaml"), "--json", environ={"ACCORD_HOME": str(above / "bare")})
    if ended.status == 1:
        return np.inf
    return float(json.loads(_done(ended).out.splitlines()[-1])["fleet_plan"]["account"]["cost_usd_per_hour"])


def _done(ended: Ended) -> Ended:
    if ended.status:
        raise RuntimeError(f"ended with status {ended.status}: {ended.out[-2000:]}")
    return ended


if __name__ == "__main__":
    main()
