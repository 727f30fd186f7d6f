"""The rule of a reroute in C++: does what the one in Python does, and leaves other calls alone."""

import shutil

import pytest
import torch

from accord import verify
from accord.terms.errors import BadInput, BrokenEdge
from accord.terms.quirk import Is, Modulo, Range, Region, Way
from accord.verify.reroute.native import source
from tests.verify.planted import planted, quirk, r1, workaround

ALL = ("mm", "mm.out", "addmm", "addmm.out", "addmm_", "bmm", "bmm.out")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("compiled")


@pytest.mark.slow
def test_compiled_rules_go_round_and_back(folder):
    torch.manual_seed(0)
    a, b, bias = torch.randn(17, 33).bfloat16(), torch.randn(33, 64).bfloat16(), torch.randn(64).bfloat16()
    a[8] = float("nan")
    forms = (
        lambda: a @ b,
        lambda: torch.mm(a, b, out=torch.empty(17, 64, dtype=a.dtype)),
        lambda: torch.nn.functional.linear(a, b.t(), bias),
        lambda: torch.addmm(bias, a, b, alpha=2, out=torch.empty(17, 64, dtype=a.dtype)),
        lambda: bias.expand(17, 64).clone().addmm_(a, b),
    )
    right = [form() for form in forms]
    quirks = [r1("linear", workaround(Way.UPCAST, "f32"))]
    before = torch._C._dispatch_dump("aten::mm")
    with planted(*ALL) as calls:
        for _ in range(2):  # what is compiled and loaded can be put in force again
            with verify.apply(quirks, compiled=folder):
                for form, expected in zip(forms, right, strict=True):
                    torch.testing.assert_close(form(), expected, equal_nan=True)
                known = dict(calls)
                torch.mm(a[:16], b)
                torch.mm(a.float(), b.float())
                assert calls["mm"] == known["mm"] + 2
                with pytest.raises(BrokenEdge, match="applied already"):
                    verify.apply(quirks, compiled=folder)
            assert (a @ b).isnan().any(1).nonzero().flatten().tolist() == [7, 8]
    assert torch._C._dispatch_dump("aten::mm") == before
    assert len(list(folder.glob("*.so"))) == 1


def test_the_condition_is_that_of_the_region():
    region = Region(
        cases=(
            (Is(trait="dtype", words=("f16", "bf16")), Range(factors=("M", "N"), low=7, high=9)),
            (Modulo(factors=("K", "itemsize"), modulus=4, remainders=(1, 2, 3)), Is(trait="data", words=("nan",))),
        )
    )
    faulty = quirk("mm", ways=((Way.UPCAST, "f64"),))
    faulty = type(faulty)(**{name: getattr(faulty, name) for name in faulty.__slots__} | {"region": region})
    from accord.verify.reroute.apply import hooks_of

    text = source(hooks_of([faulty], "CPU"), "CPU")
    assert "(self.scalar_type() == at::kHalf || self.scalar_type() == at::kBFloat16)" in text
    assert "self.size(0) * mat2.size(1) >= 7 && self.size(0) * mat2.size(1) <= 9" in text
    assert "(self.size(1) * self.element_size()) % 4 != 0" in text


def test_without_a_compiler_it_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    before = torch._C._dispatch_dump("aten::mm")
    with pytest.raises(BadInput, match=r"no C\+\+ compiler is on the path; install g\+\+ or clang\+\+"):
        verify.apply([r1("mm")], compiled=tmp_path)
    assert torch._C._dispatch_dump("aten::mm") == before
