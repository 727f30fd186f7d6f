"""Reroutes on a device that PyTorch doesn't come with: the made-up vendor's, loaded as a vendor's plug-in is."""

import os
import subprocess
import sys
from pathlib import Path

SITE = Path(__file__).parent / "vendor_site"
SCRIPT = """
import torch
from accord import verify
from accord.terms.quirk import Way
from tests.verify.planted import quirk, r1, workaround
import dataclasses

torch.manual_seed(0)
a, b = torch.randn(17, 33).bfloat16(), torch.randn(33, 64).bfloat16()
a[8] = float("nan")
far_a, far_b = a.to("vex"), b.to("vex")
bad = lambda made: made.cpu().isnan().any(1).nonzero().flatten().tolist()
assert bad(far_a @ far_b) == [7, 8], "the plant is there"
for way in ((Way.PAD, "K to 32"), (Way.UPCAST, "f32"), (Way.CPU, "")):
    rule = dataclasses.replace(r1("mm", way), device="torch:vex")
    with verify.apply([rule], device="vex") as applied:
        assert "mm" in applied.overloads
        made = far_a @ far_b
        assert made.device.type == "vex"
        assert bad(made) == [8], way
        torch.testing.assert_close(made.cpu(), a @ b, equal_nan=True)
    assert bad(far_a @ far_b) == [7, 8], "the native kernel is back"
assert bad(a @ b) == [8], "the CPU was never touched"
print("went round")
"""


def _run(script: str, faults: str) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).parents[2]
    path = os.pathsep.join((str(SITE), str(root / "src"), str(root)))
    return subprocess.run(
        [sys.executable, "-c", script],
        check=False,
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "PYTHONPATH": path, "VEX_FAULTS": faults, "OMP_NUM_THREADS": "1"},
    )


def test_a_vendors_device_goes_round_and_back():
    ended = _run(SCRIPT, "mm-leak")
    assert "went round" in ended.stdout, ended.stderr
