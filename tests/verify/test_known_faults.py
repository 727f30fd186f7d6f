"""Faults of released libraries, found without being told where: the whole way from a sweep to a way round it.

R1 (oneDNN issue 5717) needs AMX. R2 (jax issue 39103) and R3 (onnxruntime issue 28551) live in peers' venvs. The fourth
(pytorch issue 136746) is here on x86 processors once oneDNN is held to AVX2. What is true was measured apart from our
code, call by call, in the library itself; `slow` tests sweep all operators and learn.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from accord.edges.quirk_file import load_quirks
from accord.terms.quirk import FaultKind, Quirk, Region
from accord.terms.quirk_text import parse_region
from accord.verify.devices.cpu import features
from accord.verify.operators.table import operators
from tests.verify.peers import peer
from tests.verify.vendor import held_out

ROWS = operators()
# jax issue 39103, at all widths from 1 to 8: the last number of rows that fails at each width, and the first.
_R2 = {("f64", 3): (16385, 43520), ("f64", 5): (16385, 26112), ("f64", 6): (16385, 21760), ("f64", 7): (16385, 18688)}
_R2[("f32", 3)] = (32769, 43520)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A fault in a released library, and where it is."""

    device: str
    operator: str
    truth: str
    beside: str  # healthy operators that are swept with it in the short test
    budget: str
    environment: Mapping[str, str] = field(default_factory=dict)


KNOWN = {
    "R2": Known(
        device=f"python@{peer('jax')}:jax",
        operator="turned_square",
        truth=" or ".join(
            f"(mode is compile and dtype is {dtype} and d == {width} and {low} <= n <= {high})"
            for (dtype, width), (low, high) in _R2.items()
        ),
        beside="mm,softmax,sum",
        budget="60s",
    ),
    "R3": Known(
        device=f"python@{peer('onnxruntime')}:onnxruntime",
        operator="matmul_nbits",
        truth="block >= 512",
        beside="mm,softmax,sum",
        budget="40s",
    ),
}


def _verify(known: Known, tmp_path: Path, *, names: str | None, budget: str) -> tuple[Quirk, ...]:
    out = tmp_path / "quirks.yaml"
    words = ["verify", known.device, "--budget", budget, "--out", str(out), "--report", str(tmp_path / "page.html")]
    ended = subprocess.run(
        [sys.executable, "-m", "accord", *words, *(("--operators", names) if names else ())],
        check=False,
        capture_output=True,
        text=True,
        timeout=900,
        env={**os.environ, **known.environment, "ACCORD_HOME": str(tmp_path)},
    )
    assert ended.returncode == 1, ended.stdout[-2000:] + ended.stderr[-2000:]  # 1: a fault was found
    assert (tmp_path / "page.html").stat().st_size > 1000
    return load_quirks(out)


def _union(quirks: tuple[Quirk, ...]) -> Region:
    return Region(cases=tuple(case for quirk in quirks for case in quirk.region.cases))


def _over_cover(known: Known, quirks: tuple[Quirk, ...]) -> float:
    region, truth = _union(quirks), parse_region(known.truth)
    inside, _ = held_out(ROWS[known.operator], [region], count=200, seed=2)
    return sum(not truth.holds(point) for point in inside) / max(1, len(inside))


def _missed(known: Known, quirks: tuple[Quirk, ...]) -> float:
    region, truth = _union(quirks), parse_region(known.truth)
    inside, _ = held_out(ROWS[known.operator], [truth], count=200, seed=3)
    assert len(inside) >= 50
    return sum(not region.holds(point) for point in inside) / len(inside)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", KNOWN)
def test_a_known_fault_is_found_and_gone_round(name, tmp_path):
    known = KNOWN[name]
    quirks = _verify(known, tmp_path, names=f"{known.beside},{known.operator}", budget=known.budget)
    assert {quirk.operator for quirk in quirks} == {known.operator}
    assert all(quirk.fault is FaultKind.WRONG for quirk in quirks)
    assert _missed(known, quirks) < 0.5  # so few seconds are enough to find it, not to learn its every border
    assert any(quirk.workarounds for quirk in quirks)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", KNOWN)
def test_a_known_fault_is_learned(name, tmp_path):
    known = KNOWN[name]
    quirks = _verify(known, tmp_path, names=None, budget="10m")
    assert {quirk.operator for quirk in quirks} == {known.operator}
    assert _missed(known, quirks) == 0.0
    assert _over_cover(known, quirks) < 0.10, [quirk.region for quirk in quirks]
    assert any(quirk.workarounds for quirk in quirks)


def test_products_of_bytes_on_avx2(tmp_path):
    """Without VNNI oneDNN adds pairs of products in 16 bits; PyTorch asks the processor, not oneDNN's limit."""
    known = Known(
        device="torch:cpu",
        operator="int_mm",
        truth="always",
        beside="mm",
        budget="20s",
        environment={"ONEDNN_MAX_CPU_ISA": "AVX2"},
    )
    if "avx512_vnni" not in features() and "avx_vnni" not in features():
        pytest.skip("this processor has no VNNI: PyTorch doesn't ask oneDNN here")
    quirks = _verify(known, tmp_path, names="int_mm,mm", budget=known.budget)
    assert {quirk.operator for quirk in quirks} == {"int_mm"}


def test_rows_leak_on_amx(tmp_path):
    if "amx_bf16" not in features():
        pytest.skip("oneDNN issue 5717 needs a processor with AMX, and this one has none")
    known = Known(device="torch:cpu", operator="mm", truth="always", beside="", budget="60s")
    quirks = _verify(known, tmp_path, names="mm,linear,softmax", budget=known.budget)
    assert {quirk.operator for quirk in quirks} == {"mm", "linear"}
    assert {quirk.fault for quirk in quirks} == {FaultKind.LEAK}
    truth = parse_region("dtype is bf16 and M > 16 and K % 32 != 0 and M*N*K > 4096")  # misses none of 3,300 shapes
    for quirk in quirks:
        inside, _ = held_out(ROWS[quirk.operator], [quirk.region], count=100, seed=4)
        assert sum(not truth.holds(point) for point in inside) < 0.1 * len(inside)
