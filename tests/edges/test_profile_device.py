"""Measuring a device: calls do the work that they count, and every way in which a child fails is said."""

import sys

import pytest

from accord.edges import profile_device
from accord.edges.fleet_kinds import catalog_kind
from accord.edges.profile_backends import Backend, NumpyBackend, TorchBackend, backend
from accord.edges.profile_device import measure_device
from accord.edges.profile_device_child import measured
from accord.edges.profile_shapes import Call, calls
from accord.terms.calibration import Kernel
from accord.terms.errors import BadInput, BrokenEdge
from accord.terms.fleet import Vendor
from accord.terms.machine import Machine
from accord.terms.tensors import Math

SMALL = (
    Call(kernel=Kernel.GEMM, math=Math.F32, rows=3, columns=32, inner=64),
    Call(kernel=Kernel.PREFILL, math=Math.F32, rows=2, inner=16),
    Call(kernel=Kernel.DECODE, math=Math.F32, rows=2, inner=16),
)
PYTHON = sys.executable
MACHINE = Machine(cores=1, memory_bytes=1 << 33, cpu_model="a laptop")


@pytest.fixture
def torch_cpu(monkeypatch) -> TorchBackend:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    found = backend(Vendor.CPU)
    assert isinstance(found, TorchBackend)
    return found


@pytest.mark.parametrize("call", SMALL, ids=lambda call: call.kernel)
def test_work_is_what_torch_counts(torch_cpu, call):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    run = torch_cpu.prepared(call)
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        run()
    counted = counter.get_total_flops()
    # PyTorch counts all pairs; a causal kernel needs those below the diagonal.
    whole = 2 * call.inner / (call.inner + 1) if call.kernel is Kernel.PREFILL else 1.0
    assert call.flops * whole == pytest.approx(counted)


@pytest.mark.parametrize("call", SMALL, ids=lambda call: call.kernel)
def test_numpy_and_torch_do_the_same(torch_cpu, call):
    """Same operands, same answer: the shapes agree, and so does attention's softmax."""
    import numpy as np
    import torch

    plain = NumpyBackend()
    ours, theirs = np.asarray(plain.prepared(call)()), torch_cpu.prepared(call)()
    assert isinstance(theirs, torch.Tensor)
    assert tuple(ours.shape) == tuple(theirs.shape)
    if call.kernel is not Kernel.GEMM:
        draws = np.random.default_rng(0)
        new = call.inner if call.kernel is Kernel.PREFILL else 1
        shape = (call.rows, call.heads)
        queries = draws.standard_normal((*shape, new, call.head), dtype=np.float32)
        # numpy's backend draws all sets of keys before any of values; the first of each are used first.
        drawn: list[np.ndarray] = []

        class Noting(NumpyBackend):
            def _values(self, *shape: int) -> np.ndarray:
                drawn.append(super()._values(*shape))
                return drawn[-1]

        answer = np.asarray(Noting().prepared(call)())
        sets = (len(drawn) - 1) // 2
        keys, values = drawn[1], drawn[1 + sets]
        assert np.array_equal(drawn[0], queries)
        wanted = torch.nn.functional.scaled_dot_product_attention(
            torch.from_numpy(queries),
            torch.from_numpy(keys).transpose(-1, -2),
            torch.from_numpy(values),
            is_causal=new > 1,
            scale=1.0,
        )
        assert np.allclose(answer, wanted.numpy(), atol=1e-4)


def test_shapes_reach_from_memory_bound_to_compute_bound():
    for large in (False, True):
        found = [call for call in calls((Math.BF16,), large=large) if call.kernel is Kernel.GEMM]
        intensity = [call.flops / call.moved_bytes for call in found]
        assert min(intensity) < 2
        assert max(intensity) > (1000 if large else 300)


class Slow(Backend):
    """A device whose every second run takes a long time."""

    tool = "slow"
    name = None

    def __init__(self):
        self.runs = 0

    def maths(self):
        return (Math.F32,)

    def prepared(self, _call):
        def run():
            self.runs += 1

        return run

    def wait(self):
        pass


def test_a_call_is_its_fastest_run():
    sample = measured(Slow(), Call(kernel=Kernel.LAUNCH, math=Math.F32, rows=1), time_s_max=0.01)
    assert 0 < sample.seconds < 1e-4
    assert sample.spread >= 0
    assert (sample.flops, sample.math) == (0.0, None)


def test_no_device_of_that_kind_is_said():
    with pytest.raises(BrokenEdge, match="no cuda device"):
        backend(Vendor.NVIDIA)
    with pytest.raises(BrokenEdge, match="torch_npu"):
        backend(Vendor.ASCEND)
    with pytest.raises(BrokenEdge, match="no PyTorch device"):
        backend(Vendor.OTHER)


def child_that(monkeypatch, tmp_path, script):
    """Puts a script in the place of the measuring process."""
    (tmp_path / "python").write_text(f"#!{PYTHON}\nimport sys, time\nsys.stdin.read()\n{script}\n")
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))


def measure(kind="cpu", told=None):
    def progress(*step):
        if told is not None:
            told.append(step)

    return measure_device(catalog_kind(kind), machine=MACHINE, taken="2026-12-01", progress=progress)


GEMM = '{"sample": {"kernel": "gemm", "words": "w", "flops": 2e9, "moved_bytes": 1e6, "seconds": 0.01, "math": "f32"}}'


def test_what_the_child_says_becomes_a_calibration(monkeypatch, tmp_path):
    child_that(monkeypatch, tmp_path, f'print(\'{{"tool": "T 1", "total": 1}}\', flush=True)\nprint(\'{GEMM}\')')
    told: list[tuple[str, int, int]] = []
    found = measure(told=told)
    assert (found.kind, found.engine, found.tool) == ("cpu", None, "accord profile with T 1")
    assert (found.machine, found.memory_bytes) == ("a laptop, 1 cores", 1 << 33)
    assert [sample.seconds for sample in found.samples] == [0.01]
    assert told == [("", 0, 1), ("w", 1, 1)]


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ('print(\'{"broken": "no such card"}\')', "no such card"),
        ("sys.stderr.write('it burst'); sys.exit(7)", "status 7: it burst"),
        ("time.sleep(60)", "said nothing"),
    ],
)
def test_a_child_that_fails_is_a_broken_edge(monkeypatch, tmp_path, script, says):
    monkeypatch.setattr(profile_device, "_LINE_S_MAX", 2.0)
    child_that(monkeypatch, tmp_path, script)
    with pytest.raises(BrokenEdge, match=says):
        measure()


def test_another_card_than_was_asked_for_is_refused(monkeypatch, tmp_path):
    child_that(monkeypatch, tmp_path, 'print(\'{"tool": "T", "name": "NVIDIA H100 80GB HBM3", "total": 0}\')')
    with pytest.raises(BadInput, match="profile h100"):
        measure("h200")


@pytest.mark.slow
def test_this_machine_is_measured():
    found = measure()
    assert {rate.math for rate in found.reached.rates} >= {Math.F32}
    assert 1e8 < found.reached.bandwidth_bytes_per_s < 1e12
    assert found.reached.uncertainty < 1.0
