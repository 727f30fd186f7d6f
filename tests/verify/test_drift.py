"""Drift between engines: divergences against PyTorch's, planted faults found at their layer, real engines compared."""

import numpy as np
import pytest
import torch

from accord.terms.errors import BadInput
from accord.verify.drift import Layer, Trace, divergences, drift

ROUNDOFF = 2.0**-8


def _trace(engine: str, streams: list[np.ndarray], logits: np.ndarray, roundoff: float = ROUNDOFF) -> Trace:
    layers = tuple(
        Layer(name=f"layer {number}", values=values.astype(np.float32)) for number, values in enumerate(streams)
    )
    return Trace(engine=engine, roundoff=roundoff, layers=layers, logits=logits.astype(np.float32))


@pytest.fixture
def model():
    """Eight residual layers as a function: exact, or rounded to bf16 after each, with a fault after some layer."""
    rng = np.random.default_rng(3)
    weights = [rng.normal(size=(48, 48)) / 10 for _ in range(8)]
    head = rng.normal(size=(48, 300)) / 3

    def run(engine: str, *, rounded: bool = False, fault=None) -> Trace:
        stream = np.random.default_rng(4).normal(size=(60, 48))
        streams = []
        for number, weight in enumerate(weights):
            stream = stream + np.tanh(stream @ weight)
            if rounded:
                stream = torch.from_numpy(stream).bfloat16().double().numpy()
            if fault is not None and fault[0] == number:
                stream = fault[1](stream)
            streams.append(stream)
        return _trace(engine, streams, stream @ head)

    return run


def test_divergences_are_those_of_pytorch():
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(50, 100)).astype(np.float32) * 4, rng.normal(size=(50, 100)).astype(np.float32)
    log_p, log_q = (torch.log_softmax(torch.from_numpy(item).double(), -1) for item in (a, b))
    expected = torch.nn.functional.kl_div(log_q, log_p, reduction="none", log_target=True).sum(-1)
    np.testing.assert_allclose(divergences(a, b), expected.numpy(), rtol=1e-9)
    assert divergences(a, a).max() == 0
    assert divergences(a, a + 1e3).max() < 1e-3  # a constant shift changes no probability, but for its own rounding


def test_precision_alone_diverges_nowhere(model):
    found = drift(model("exact"), model("bf16", rounded=True))
    assert found.first_divergent is None
    assert 0 < found.kl_median < found.kl_p999 <= found.kl_largest < 0.05
    assert found.top1 > 0.9
    same = drift(model("exact"), model("exact"))
    assert (same.first_divergent, same.top1, same.kl_largest) == (None, 1.0, 0.0)


def _one_row(change):
    def fault(stream):
        stream = stream.copy()
        stream[41] = change(stream)
        return stream

    return fault


@pytest.mark.parametrize("layer", [0, 3, 7])
@pytest.mark.parametrize(
    "change",
    [
        lambda stream: stream[40],  # a wrong row read
        lambda stream: 0 * stream[41],  # a row left empty
        lambda stream: stream[41] * np.nan,
    ],
    ids=["neighbour", "zero", "nan"],
)
@pytest.mark.parametrize("rounded", [False, True])
def test_one_wrong_row_is_found_at_its_layer(model, layer, change, rounded):
    """A mean over 60 positions would hide it; the largest error doesn't, even beside bf16's own drift."""
    found = drift(model("exact"), model("faulty", rounded=rounded, fault=(layer, _one_row(change))))
    assert found.first_divergent == f"layer {layer}"
    assert found.kl_p999 > 10 * max(found.kl_median, 1e-4)


def test_traces_of_different_models_are_refused(model):
    short = model("exact")
    other = _trace("b", [layer.values for layer in short.layers[:5]], short.logits)
    with pytest.raises(BadInput, match=r"8 layers, logits \(60, 300\) and 5 layers"):
        drift(short, other)
