"""Effects: where they hold, and that the shipped ones are read and physical."""

from pathlib import Path

import pytest

from accord.edges.fleet_kinds import catalog_kind
from accord.edges.model_catalog import entry
from accord.edges.tuning_file import FILE, dump_tunings, load_tunings
from accord.estimate.performance import Tuning
from accord.estimate.tuned import Effect, Tunings, reaching, tags_of, tuned
from accord.models.read import read_card
from accord.terms.errors import BadInput
from accord.terms.estimate import Source

SMALL = Tunings(
    base={"gemm": 0.5, "launch_s": 2e-6, "layer_s": 1e-5, "first_s": 0.1},
    effects=(
        Effect(tags=frozenset(("vllm",)), factors={"gemm": 1.2}),
        Effect(tags=frozenset(("vllm", "hopper")), factors={"kernels": 0.5, "first_s": 2.0}),
    ),
    engines=frozenset(("vllm",)),
    kinds={"h100": ("hopper",)},
    uncertainty=0.2,
)


def test_an_effect_holds_where_all_its_tags_do() -> None:
    tuning, serving = tuned(SMALL, frozenset(("vllm", "hopper")))
    assert (tuning.gemm, tuning.launch_s, tuning.layer_s) == pytest.approx((0.6, 1e-6, 5e-6))
    assert serving.first_s == pytest.approx(0.2)
    tuning, serving = tuned(SMALL, frozenset(("vllm",)))
    assert (tuning.gemm, tuning.launch_s, serving.first_s) == pytest.approx((0.6, 2e-6, 0.1))


def test_only_what_was_measured_is_called_modelled() -> None:
    known, _ = tuned(SMALL, frozenset(("vllm", "hopper")))
    assert (known.source, known.uncertainty) == (Source.MODELLED, 0.2)
    for tags in (("vllm",), ("hopper",), ()):
        unknown, _ = tuned(SMALL, frozenset(tags))
        assert (unknown.source, unknown.uncertainty) == (Source.ASSUMED, Tuning().uncertainty)


def test_the_shipped_figures_are_parts_of_peaks() -> None:
    shipped = load_tunings()
    for engine in sorted(shipped.engines):
        for kind, tags in shipped.kinds.items():
            tuning, serving = tuned(shipped, frozenset((engine, *tags, "bf16", "dense")))
            for part in (tuning.gemm, tuning.memory, tuning.cache, tuning.attention, tuning.link):
                assert 0.1 < part <= 1.0, (engine, kind, tuning)
            assert 0.0 < tuning.step_s < 0.02
            assert serving.first_s < 0.5


def test_figures_survive_the_file(tmp_path: Path) -> None:
    file = tmp_path / "tuning.yaml"
    file.write_text(dump_tunings(SMALL, remark="two\nlines"), encoding="utf-8")
    assert load_tunings(file) == SMALL
    file.write_text(file.read_text(encoding="utf-8").replace("gemm: 1.2", "gem: 1.2"), encoding="utf-8")
    load_tunings.cache_clear()
    with pytest.raises(BadInput, match=r"effects\[0\].factors.gem"):
        load_tunings(file)


def test_a_model_says_what_holds_for_it() -> None:
    read = read_card(entry("deepseek-v3").card, name="deepseek-v3")
    assert {"latent", "experts", "fp8"} <= tags_of(read.of("decoder"), read.stored[0])
    tuning = reaching(load_tunings(), read)(catalog_kind("h200"), "vllm")
    assert tuning.source is Source.MODELLED
    assert reaching(load_tunings(), read)(catalog_kind("mlu590"), "vllm").source is Source.ASSUMED
    assert FILE.name == "tuning.yaml"
