"""Every device passes one contract: each operator that it has is right at its usual points, in its strides and modes.

PyTorch, NumPy and ONNX Runtime are in this process; JAX and OpenVINO are peers, children with a Python of their own.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from accord.verify.devices import open_here
from accord.verify.devices.child import ChildDevice
from accord.verify.examine import Examined, Examiner
from accord.verify.findings import Verdict
from accord.verify.operators.table import operators
from accord.verify.points import usual
from accord.verify.ports import Answer, Call, Device, Option, Unsupported
from accord.verify.tensor import Dtype, Tensor, plain
from tests.house import ROOT

ROWS = operators()
HERE = ("torch:cpu", "numpy", "onnxruntime")
# What a library has no operator for, whatever the dtype.
LACKS = {
    "torch:cpu": set(),
    "numpy": {"conv1d", "conv2d", "conv3d", "sdpa", "gelu", "cast", "scatter", "scatter_add", "index_add"}
    | {"grouped_mm", "scaled_mm"},
    "onnxruntime": {"grouped_mm", "scaled_mm", "index_add"},
    "jax": {"scaled_mm"},
    "openvino": {"grouped_mm", "scaled_mm", "index_add"},
}


def _witnesses(device: Device) -> list[Device]:
    own = set(device.describe().families)
    return [one for one in map(open_here, HERE) if not own & set(one.describe().families)]


def _judged(device: Device, name: str, *, most: int) -> list[Examined]:
    examiner = Examiner(device, _witnesses(device), ROWS)
    return [examiner.examine(point) for point in itertools.islice(usual(ROWS[name]), most)]


def _contract(device: Device, name: str, *, lacks: set[str], most: int) -> None:
    found = _judged(device, name, most=most)
    verdicts = {one.verdict for one in found}
    assert verdicts <= {Verdict.RIGHT, Verdict.PRECISION, Verdict.UNSUPPORTED}, [
        one for one in found if one.verdict in (Verdict.FAULT, Verdict.UNDECIDED)
    ]
    assert (verdicts == {Verdict.UNSUPPORTED}) == (name in lacks), found[0]


@pytest.mark.parametrize("name", [name for name in ROWS if name != "turned_square"])  # compiled; below
@pytest.mark.parametrize("port", HERE)
def test_usual_points_are_right(port: str, name: str) -> None:
    _contract(open_here(port), name, lacks=LACKS[port], most=12)


@pytest.fixture(scope="module", params=["jax peers-jax-new", "openvino peers-openvino"])
def peer(request: pytest.FixtureRequest) -> Iterator[ChildDevice]:
    port, venv = request.param.split()
    python = ROOT / ".venv" / venv / "bin" / "python"
    assert Path(python).exists(), f"{venv}: run `tools/setup dev`"
    device = ChildDevice(port, python=str(python), call_s=60.0)
    yield device
    device.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_usual_points_are_right_in_peers(peer: ChildDevice, name: str) -> None:
    lacks = LACKS[peer.describe().name]
    _contract(peer, name, lacks=lacks, most=3)


def _square(values: np.ndarray, mode: str) -> Call:
    return Call(operator="mm", operands=(plain(values, Dtype.F32),) * 2, mode=mode, repeat=2)


@pytest.mark.slow
def test_compiled_answers_are_pytorchs_own() -> None:
    values = np.random.default_rng(0).integers(-3, 4, (9, 9)).astype(np.float64)
    for device, mode in ((open_here("torch:cpu"), "compile"), (open_here("torch:cpu+compile"), "usual")):
        outcome = device.run(_square(values, mode))
        assert isinstance(outcome, Answer)
        for run in outcome.runs:
            np.testing.assert_array_equal(run[0].floats(), values @ values)
        device.close()


@pytest.mark.parametrize("port", HERE)
def test_odd_strides_arrive(port: str) -> None:
    """A store read backwards in no dimension, but with gaps, from its third element, and with a repeated row."""
    store = np.arange(100, dtype=np.float32)
    for shape, strides in (((4, 5), (7, 1)), ((4, 5), (1, 4)), ((4, 5), (0, 2)), ((4, 1), (3, 3))):
        tensor = Tensor(dtype=Dtype.F32, shape=shape, strides=strides, store=store, offset=2)
        outcome = open_here(port).run(Call(operator="relu", operands=(tensor,)))
        assert isinstance(outcome, Answer)
        places = 2 + np.arange(shape[0])[:, None] * strides[0] + np.arange(shape[1]) * strides[1]
        np.testing.assert_array_equal(outcome.runs[0][0].floats(), store[places])


@pytest.mark.parametrize("port", HERE)
def test_what_can_t_be_run_is_unsupported_and_no_fault(port: str) -> None:
    device, two = open_here(port), plain(np.ones((2, 3)), Dtype.F32)
    for call in (
        Call(operator="nosuch", operands=(two,)),
        Call(operator="mm", operands=(two, two)),
        Call(operator="mm", operands=(two, two), overload="nosuch"),
        Call(operator="topk", operands=(two,), options=(Option(name="k", value=9),)),
        Call(operator="layer_norm", operands=(two,)),
    ):
        if (port, call.operator) == ("numpy", "topk"):
            continue  # a slice may be longer than its array
        assert isinstance(device.run(call), Unsupported), call


@pytest.mark.parametrize("port", HERE)
def test_descriptions_name_the_library_that_runs(port: str) -> None:
    described = open_here(port).describe()
    module = __import__(port.partition(":")[0])
    assert [(one.library, one.version) for one in described.versions] == [
        (module.__name__, module.__version__.partition("+")[0])
    ]
    assert described.families
    assert described.modes
