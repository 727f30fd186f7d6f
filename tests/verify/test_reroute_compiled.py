"""Reroutes inside torch.compile: default mode goes round the fault; what passes by the dispatcher is refused."""

import pytest
import torch

from accord import verify
from accord.terms.errors import BadInput
from tests.verify.planted import planted, r1

pytestmark = [
    pytest.mark.slow,
    # torch's compiler warns of its own use of what it deprecated.
    pytest.mark.filterwarnings("default"),
]
OUTS = ("mm", "mm.out", "addmm", "addmm.out", "bmm", "bmm.out")


@pytest.fixture(autouse=True)
def forget():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def _model() -> torch.nn.Module:
    """Two layers: one with a bias, which becomes addmm, and one without, which becomes mm."""
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(33, 65), torch.nn.ReLU(), torch.nn.Linear(65, 64, bias=False)).bfloat16()


def _poisoned() -> torch.Tensor:
    given = torch.randn(17, 33).bfloat16()
    given[8] = float("nan")
    return given


def _bad_rows(made: torch.Tensor) -> list[int]:
    return made.isnan().any(-1).nonzero().flatten().tolist()


def test_compiled_code_goes_round_and_back():
    """The same compiled graph, before, under and after the reroute: it calls `mm.out`, which is hooked, too."""
    model, given = _model(), _poisoned()
    with torch.no_grad(), planted(*OUTS) as calls:
        compiled = torch.compile(model)
        assert len(_bad_rows(compiled(given))) > 1
        assert calls["mm.out"]
        assert calls["addmm.out"]
        with verify.apply([r1("linear")]):
            assert _bad_rows(compiled(given)) == [8]
        assert len(_bad_rows(compiled(given))) > 1


def test_code_that_is_compiled_under_the_reroute_goes_round():
    model, given = _model(), _poisoned()
    with torch.no_grad(), planted(*OUTS), verify.apply([r1("linear")]):
        assert _bad_rows(torch.compile(model)(given)) == [8]


@pytest.mark.parametrize("setting", ["freezing", "cpp_wrapper"])
def test_settings_that_pass_by_the_dispatcher_are_refused(setting):
    from torch._inductor import config

    model, given = _model(), _poisoned()
    with torch.no_grad(), verify.apply([r1("linear")]), pytest.raises(Exception, match=f"config.{setting}: True"):
        torch.compile(model, options={setting: True})(given)
    with config.patch({setting: True}), pytest.raises(BadInput, match=f"torch._inductor.config.{setting}"):
        verify.apply([r1("linear")])


def test_a_pass_of_someone_else_still_runs_and_comes_back():
    from torch._inductor import config

    seen: list[object] = []
    model, given = _model(), _poisoned()
    with config.patch(post_grad_custom_pre_pass=seen.append):
        with torch.no_grad(), verify.apply([r1("linear")]):
            torch.compile(model)(given)
        assert config.post_grad_custom_pre_pass == seen.append
    assert len(seen) == 1
