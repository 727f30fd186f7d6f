"""`accord verify drift`: words, JSON, picture and bad input; the engines' traces are made up here."""

import json
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from click.testing import CliRunner

from accord.cli import verify_drift
from accord.cli.verify_drift import drift_command
from accord.verify.drift import Layer, Trace

SVG = "{http://www.w3.org/2000/svg}"


def _trace(engine: str, *, noise: float = 0.0, broken: bool = False) -> Trace:
    rng, dice = np.random.default_rng(1), np.random.default_rng(2)
    stream = rng.normal(size=(40, 16))
    layers = []
    for number in range(5):
        stream = stream + np.tanh(stream @ rng.normal(size=(16, 16)) / 8) + noise * dice.normal(size=(40, 16))
        if broken and number == 3:
            stream[7] = np.nan
        layers.append(Layer(name=f"layer {number}", values=stream.astype(np.float32)))
    logits = (stream @ rng.normal(size=(16, 30))).astype(np.float32)
    return Trace(engine=engine, roundoff=2.0**-8, layers=tuple(layers), logits=logits)


@pytest.fixture
def run(monkeypatch, tmp_path):
    made = {"torch": _trace("torch"), "torch/bf16": _trace("torch/bf16", noise=2e-3)}
    made["torch:npu"] = _trace("torch:npu", broken=True)
    monkeypatch.setattr(verify_drift, "trace", lambda engine, *_, **__: made[engine])
    model = tmp_path / "small.gguf"
    model.touch()
    return lambda *words: CliRunner().invoke(drift_command, [*words, "--model", str(model)], catch_exceptions=False)


def test_precision_is_told_as_precision(run):
    ended = run("torch", "torch/bf16")
    assert ended.exit_code == 0
    assert "torch/bf16 against torch   small.gguf   40 positions" in ended.output
    assert "first divergence  none" in ended.output


def test_a_divergent_layer_is_named_and_drawn(run, tmp_path):
    picture = tmp_path / "out" / "drift.svg"
    ended = run("torch", "torch:npu", "--out", str(picture))
    assert "first divergence  layer 3" in ended.output
    assert "p99.9 broken" in ended.output
    tree = ET.fromstring(picture.read_text())
    words = [node.text for node in tree.iter(f"{SVG}text")]
    assert "layer 3 diverges" in words
    assert len(list(tree.iter(f"{SVG}circle"))) == 40
    assert len(list(tree.iter(f"{SVG}polyline"))) == 2


def test_json_has_every_figure_and_no_infinity(run):
    found = json.loads(run("torch", "torch:npu", "--json").output)
    assert found["first_divergent"] == "layer 3"
    assert found["kl_largest"] is None
    assert len(found["kl"]) == 40
    assert sum(value is None for value in found["kl"]) == 1
    assert found["layers"][0]["name"] == "layer 0"


def test_a_model_that_is_not_there_is_bad_input(tmp_path):
    from accord.terms.errors import BadInput

    with pytest.raises(BadInput, match="no such file"):
        CliRunner().invoke(
            drift_command, ["torch", "torch", "--model", str(tmp_path / "none.gguf")], catch_exceptions=False
        )
