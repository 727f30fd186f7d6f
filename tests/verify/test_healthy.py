"""Healthy devices get no blame: ten modes and more, each swept for seconds; hints of low precision are named as such.

`slow` sweeps each for a minute. Peers live in venvs of their own, which `tools/setup dev` makes.
"""

import time
from collections import Counter
from pathlib import Path

import pytest

from accord.verify.devices import open_here
from accord.verify.devices.child import ChildDevice
from accord.verify.examine import Examined, Examiner
from accord.verify.findings import Verdict
from accord.verify.operators.table import operators
from accord.verify.sweep import Order, sweep
from tests.verify.peers import peer

ROWS = operators()
NEW_JAX, OPENVINO = peer("jax-new"), peer("openvino")

MODES = {
    "torch": ("torch:cpu", None, {}),
    "torch without oneDNN": ("torch:cpu+nomkldnn", None, {}),
    "inductor": ("torch:cpu+compile", None, {}),
    "torch, AVX2": ("torch:cpu", None, {"ATEN_CPU_CAPABILITY": "avx2"}),
    "torch, no vectors": ("torch:cpu", None, {"ATEN_CPU_CAPABILITY": "default"}),
    "MKL, AVX2": ("torch:cpu", None, {"MKL_ENABLE_INSTRUCTIONS": "AVX2"}),
    # Held to less than VNNI, its products of bytes are wrong: see test_known_faults.py.
    "oneDNN, no AMX": ("torch:cpu", None, {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}),
    "torch, one thread": ("torch:cpu", None, {"OMP_NUM_THREADS": "1"}),
    "NumPy": ("numpy", None, {}),
    "ONNX Runtime": ("onnxruntime", None, {}),
    "JAX": ("jax", NEW_JAX, {}),
    "OpenVINO": ("openvino:CPU", OPENVINO, {}),
}
HINTS = {"bf16": "openvino:CPU+bf16", "f16": "openvino:CPU+f16"}


def _swept(port: str, python: Path | None, environment: dict[str, str], *, seconds: float) -> list[Examined]:
    device = ChildDevice(port, python=None if python is None else str(python), environment=environment, call_s=60.0)
    try:
        own = set(device.describe().families)
        others = [open_here(name) for name in ("torch:cpu", "onnxruntime", "numpy")]
        witnesses = [other for other in others if not own & set(other.describe().families)]
        examiner = Examiner(device, witnesses, ROWS)
        return list(sweep(examiner, Order(rows=ROWS, budget_s=seconds), known={}, now_s=time.monotonic))
    finally:
        device.close()


def _judged(found: list[Examined]) -> Counter[Verdict]:
    blamed = [one for one in found if one.verdict is Verdict.FAULT]
    assert not blamed, blamed[:3]
    return Counter(one.verdict for one in found)


def _apart(mode: str, folder: Path) -> tuple[str, Path | None, dict[str, str]]:
    """With a cache of compiled kernels of its own: inductor takes those of processes with other limits for its own."""
    port, python, environment = MODES[mode]
    return port, python, {**environment, "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}


@pytest.mark.parametrize("mode", MODES)
def test_a_healthy_device_is_not_blamed(mode, tmp_path):
    compiles = mode == "inductor"  # each call is a program of its own, compiled in seconds
    counts = _judged(_swept(*_apart(mode, tmp_path), seconds=12.0 if compiles else 3.0))
    assert counts[Verdict.RIGHT] >= (2 if compiles else 10), counts


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", MODES)
def test_a_healthy_device_is_not_blamed_in_a_minute(mode, tmp_path):
    counts = _judged(_swept(*_apart(mode, tmp_path), seconds=60.0))
    assert counts[Verdict.RIGHT] >= (10 if mode == "inductor" else 200), counts


@pytest.mark.parametrize("hint", HINTS)
def test_low_precision_is_named_and_not_blamed(hint):
    counts = _judged(_swept(HINTS[hint], OPENVINO, {}, seconds=8.0))
    assert counts[Verdict.PRECISION] >= 1, counts
