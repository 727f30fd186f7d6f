"""What plans stand on beyond the catalog: fitted engines, and what was measured at home."""

from accord.edges.calibration_file import kept_at, save_calibration
from accord.edges.fleet_kinds import catalog_kind
from accord.edges.known import known
from accord.edges.model_card import find_card
from accord.models.read import read_card
from accord.terms.calibration import Calibration, MathRate, Reached
from accord.terms.estimate import Source
from accord.terms.tensors import Math


def model(name):
    card = find_card(name)
    return read_card(card.values, name=card.name)


def test_engines_that_were_measured_differ_from_those_that_were_not(tmp_path):
    given = known(model("qwen3-8b"), tmp_path)
    fitted, other = (given.tunings(catalog_kind(name), "vllm") for name in ("h200", "mlu370-x8"))
    assert fitted.source is Source.MODELLED
    assert other.source is Source.ASSUMED
    assert fitted.uncertainty < other.uncertainty
    assert given.tunings(catalog_kind("h200"), "vllm-omni") == fitted
    assert given.tunings(catalog_kind("h200"), "sglang") != fitted
    assert given.calibrations == ()


def test_the_format_and_experts_count(tmp_path):
    h200 = catalog_kind("h200")
    plain, narrow = (known(model(name), tmp_path).tunings(h200, "vllm") for name in ("qwen3-8b", "deepseek-v3"))
    assert plain.gemm != narrow.gemm


def test_calibrations_that_are_kept_are_given(tmp_path):
    mine = Calibration(
        kind="h200", engine="vllm", machine="m", tool="t", taken="2026-12-01", samples=(),
        reached=Reached(rates=(MathRate(math=Math.BF16, flops_per_s=7e14),)),
    )  # fmt: skip
    save_calibration(mine, kept_at(tmp_path, "h200", "vllm"))
    assert known(model("qwen3-8b"), tmp_path).calibrations == (mine,)
