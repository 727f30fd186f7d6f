"""Reroutes: faults planted in this machine's PyTorch are gone round, and everything else keeps its bits."""

import dataclasses
import itertools

import pytest
import torch

from accord import verify
from accord.terms.errors import BadInput
from accord.terms.quirk import Fact, Is, Modulo, Point, Range, Region, Trait, Version, Way
from accord.verify.reroute.hooks import Unrouted
from accord.verify.reroute.overloads import overloads
from accord.verify.reroute.rows import ROWS
from tests.verify.planted import overridden, planted, quirk, r1, watching, workaround

ALL = ("mm", "mm.out", "addmm", "addmm.out", "addmm_", "bmm", "bmm.out")
WAYS = [
    (Way.PAD, "K to 32"),
    (Way.UPCAST, "f32"),
    (Way.SPLIT, "M by 16"),
    (Way.SPLIT, "K by 32"),
]


@pytest.fixture
def operands():
    """Issue text of oneDNN#5717: a[8] is NaN, and rows 7 and 8 of the product are."""
    torch.manual_seed(0)
    a, b = torch.randn(17, 33).bfloat16(), torch.randn(33, 64).bfloat16()
    a[8] = float("nan")
    return a, b


def _bad_rows(product: torch.Tensor) -> list[int]:
    return product.isnan().any(-1).nonzero().flatten().tolist()


def test_the_plant_is_r1(operands):
    """What the other tests lean on: the symptom, as the public thread states it."""
    with planted("mm"):
        assert _bad_rows(operands[0] @ operands[1]) == [7, 8]
    assert _bad_rows(operands[0] @ operands[1]) == [8]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{way[0]} {way[1]}")
def test_each_way_cures_and_leaves_the_values_right(operands, way):
    a, b = operands
    exact = a.double() @ b.double()
    with planted(*ALL), verify.apply([r1("mm", way)]):
        found = a @ b
    assert _bad_rows(found) == [8]
    # bf16 keeps 8 bits; two roundings where a way adds parts up.
    torch.testing.assert_close(found.double(), exact, rtol=2**-7, atol=2**-5, equal_nan=True)


def test_every_form_of_a_matrix_product_goes_round(operands):
    a, b = operands
    bias, weight = torch.randn(64).bfloat16(), b.t().contiguous()
    linear = torch.nn.functional.linear
    forms = {
        "a @ b": lambda: a @ b,
        "mm out": lambda: torch.mm(a, b, out=torch.empty(17, 64, dtype=a.dtype)),
        "mm out that has to grow": lambda: torch.mm(a, b, out=torch.empty(0, dtype=a.dtype)),
        "linear": lambda: linear(a, weight),
        "linear with bias": lambda: linear(a, weight, bias),
        "linear 3d": lambda: linear(a[None], weight, bias)[0],
        "addmm alpha": lambda: torch.addmm(bias, a, b, beta=0.5, alpha=2),
        "addmm out": lambda: torch.addmm(bias, a, b, out=torch.empty(17, 64, dtype=a.dtype)),
        "addmm in place": lambda: bias.expand(17, 64).clone().addmm_(a, b),
        "bmm": lambda: torch.bmm(a[None], b[None])[0],
        "bmm out": lambda: torch.bmm(a[None], b[None], out=torch.empty(1, 17, 64, dtype=a.dtype))[0],
        "einsum": lambda: torch.einsum("mk,kn->mn", a, b),
    }
    right = {name: form() for name, form in forms.items()}
    with planted(*ALL):
        assert all(_bad_rows(form()) == [7, 8] for form in forms.values())
        with verify.apply([r1("mm"), r1("addmm"), r1("bmm")]):
            for name, form in forms.items():
                assert _bad_rows(form()) == [8], name
                torch.testing.assert_close(form(), right[name], equal_nan=True)


def test_linear_is_rerouted_where_it_ends(operands):
    """`linear` has no kernel of its own on a CPU: it ends in mm and addmm, which hence are what must be hooked."""
    a, b = operands
    with planted(*ALL), verify.apply([r1("linear")]) as applied:
        assert set(applied.overloads) == {"mm", "mm.out", "addmm", "addmm.out", "addmm_"}
        assert _bad_rows(torch.nn.functional.linear(a, b.t(), torch.zeros(64).bfloat16())) == [8]
        assert _bad_rows(torch.bmm(a[None], b[None])[0]) == [7, 8]


def test_gradients_go_round(operands):
    a, b = (item.clone().requires_grad_() for item in operands)
    with planted(*ALL), verify.apply([r1("mm")]):
        (a @ b).float().nan_to_num().sum().backward()
    grads = a.grad, b.grad
    c, d = (item.clone().requires_grad_() for item in operands)
    (c @ d).float().nan_to_num().sum().backward()
    assert torch.equal(grads[0].nan_to_num(7), c.grad.nan_to_num(7))
    assert torch.equal(grads[1].nan_to_num(7), d.grad.nan_to_num(7))


def test_removed_and_the_bits_are_those_of_before(operands):
    a, b = operands
    names = [f"aten::{name}" for name in ALL]
    before = [torch._C._dispatch_dump(name) for name in names]
    first = (a @ b).view(torch.int16)
    applied = verify.apply([r1("mm", (Way.UPCAST, "f64")), r1("addmm"), r1("bmm")])
    assert [torch._C._dispatch_dump(name) for name in names] != before
    applied.remove()
    applied.remove()
    assert torch.equal((a @ b).view(torch.int16), first)
    assert [torch._C._dispatch_dump(name) for name in names] == before


def test_shapes_outside_the_region_keep_the_native_kernel(operands):
    a, b = operands
    with planted("mm") as calls, verify.apply([r1("mm", (Way.OVERLOAD, "bmm"))]):
        torch.mm(a[:16], b)
        torch.mm(a.half(), b.half())
        torch.mm(a[:, :32].contiguous(), b[:32])
        torch.mm(a, b[:, :7])
        assert calls["mm"] == 4
        torch.mm(a, b)
        assert calls["mm"] == 4


def test_nothing_but_the_affected_operators_is_hooked():
    with verify.apply([r1("mm")]) as applied:
        assert applied.overloads == ("mm", "mm.out")
        assert all("accord" not in torch._C._dispatch_dump(f"aten::{name}") for name in ("add.Tensor", "bmm", "addmm"))
    assert verify.apply([]).overloads == ()


def test_the_fastest_way_of_each_class_of_shapes_is_taken(operands):
    """R1 as measured: small products are fastest in fp32, large ones padded."""
    small = Region(cases=((Range(factors=("M", "N", "K"), high=100_000),),))
    ways = (
        workaround(Way.OVERLOAD, "bmm", cost_ratio=1582 / 577),
        workaround(Way.UPCAST, "f32", region=small, cost_ratio=9 / 32),
    )
    a, b = operands
    seen: list[str] = []
    with overridden() as put:
        put("mm", watching(seen, "mm"))
        put("bmm", watching(seen, "bmm"))
        with verify.apply([r1("mm", *ways)]):
            torch.mm(a, b)
            torch.mm(torch.zeros(128, 1001).bfloat16(), torch.zeros(1001, 1024).bfloat16())
    assert seen == ["mm torch.float32", "bmm torch.bfloat16"]


def test_a_shape_that_no_way_was_verified_for_raises_rather_than_lies(operands):
    a, b = operands
    tiny = Region(cases=((Range(factors=("M",), high=20),),))
    with verify.apply([r1("mm", workaround(Way.UPCAST, "f32", region=tiny))]):
        torch.mm(a, b)
        with pytest.raises(Unrouted, match=r"mm \(40, 33\), \(33, 64\): quirk 'mm-planted'"):
            torch.mm(a.repeat(3, 1)[:40], b)


def test_an_overload_alone_can_be_at_fault(operands):
    """torch_musa#51: addmm(out=) gave zeros, addmm didn't."""
    a, b = (item.nan_to_num().float() for item in operands)
    bias = torch.randn(64)
    right = torch.addmm(bias, a, b)
    broken = quirk("addmm", Is(trait="overload", words=("out",)), ways=((Way.OVERLOAD, "mm"),))
    with overridden() as put:
        put("addmm.out", lambda native: lambda *given, **words: native(*given, **words).zero_())
        with verify.apply([broken]) as applied:
            assert applied.overloads == ("addmm.out",)
            out = torch.empty(17, 64)
            assert torch.addmm(bias, a, b, out=out) is out
    torch.testing.assert_close(out, right)


def test_a_first_call_that_is_wrong_is_made_twice(operands):
    """FlagGems#6420: a cold tuning cache gives wrong results."""
    a, b = operands[0].nan_to_num(), operands[1]
    right, warm = a @ b, set()

    def cold(native):
        def run(*given):
            key = given[0].shape
            made = native(*given) if key in warm else torch.zeros(17, 64).bfloat16()
            warm.add(key)
            return made

        return run

    with overridden() as put:
        put("mm", cold)
        with verify.apply([quirk("mm", Is(trait="state", words=("cold",)), ways=((Way.REPEAT, ""),))]):
            assert torch.equal(a @ b, right)
            assert torch.equal(a @ b, right)


def test_operators_with_several_outputs_and_defaults_are_cut():
    torch.manual_seed(1)
    x = torch.randn(40, 50)
    wide = Range(factors=("N",), low=50)
    with verify.apply([quirk("topk", wide, ways=((Way.SPLIT, "rows by 16"),))]):
        values, indices = torch.topk(x, 5)
    expected = torch.topk(x, 5)
    assert torch.equal(values, expected.values)
    assert torch.equal(indices, expected.indices)
    norm, softmax = torch.nn.LayerNorm(50), torch.softmax(x, -1)
    right = norm(x)
    both = [
        quirk("layer_norm", wide, ways=((Way.SPLIT, "rows by 7"),)),
        quirk("softmax", wide, ways=((Way.UPCAST, "f64"),)),
    ]
    with verify.apply(both):
        torch.testing.assert_close(norm(x), right)
        torch.testing.assert_close(torch.softmax(x, -1), softmax)


def test_attention_and_convolution_go_round():
    torch.manual_seed(2)
    q, k, v = (torch.randn(2, 4, 19, 8) for _ in range(3))
    attend = torch.nn.functional.scaled_dot_product_attention
    image, kernel, bias = torch.randn(3, 4, 9, 9), torch.randn(6, 4, 3, 3), torch.randn(6)
    mask = torch.randn(2, 4, 19, 19)
    right = [attend(q, k, v), attend(q, k, v, is_causal=True), attend(q, k, v, mask)]
    conv = torch.conv2d(image, kernel, bias, padding=1)
    for way in ((Way.SPLIT, "B by 1"), (Way.SPLIT, "H by 1"), (Way.ALGORITHM, "math"), (Way.UPCAST, "f64")):
        with verify.apply([quirk("sdpa", ways=(way,))]):
            found = [attend(q, k, v), attend(q, k, v, is_causal=True), attend(q, k, v, mask)]
        torch.testing.assert_close(found, right)
    for way in ((Way.SPLIT, "B by 1"), (Way.SPLIT, "O by 4"), (Way.PAD, "B to 4"), (Way.ALGORITHM, "oneDNN off")):
        with verify.apply([quirk("conv2d", ways=(way,))]):
            torch.testing.assert_close(torch.conv2d(image, kernel, bias, padding=1), conv)


@pytest.mark.parametrize(
    ("faulty", "words"),
    [
        (quirk("mm"), "quirks.mm-planted: 'mm': it has no workaround"),
        (quirk("frobnicate", ways=((Way.CPU, ""),)), "no hook is known for this operator"),
        (quirk("mm", ways=((Way.PAD, "Q to 32"),)), "pad 'Q to 32' isn't known for mm"),
        (quirk("mm", ways=((Way.OVERLOAD, "conjured"),)), "overload 'conjured' isn't known for mm"),
        (
            quirk("gelu", Is(trait="mode", words=("compile",)), ways=((Way.UPCAST, "f32"),)),
            "torch.compile writes its own code",
        ),
    ],
)
def test_what_can_not_be_covered_is_refused_before_anything_changes(faulty, words):
    before = torch._C._dispatch_dump("aten::mm")
    with pytest.raises(BadInput, match=words):
        verify.apply([r1("mm"), faulty])
    assert torch._C._dispatch_dump("aten::mm") == before


def test_quirks_of_other_devices_and_of_versions_that_are_past_are_skipped():
    fixed = Version(library="torch", version="1.13.0", fixed_in="2.0.0")
    still = Version(library="torch", version="2.13.0", fixed_in="99.0")
    pad = ((Way.PAD, "K to 32"),)
    quirks = [
        quirk("mm", ways=pad, device="mlu590"),
        quirk("addmm", ways=pad, versions=(fixed,)),
        quirk("bmm", ways=pad, versions=(still,)),
    ]
    with verify.apply(quirks) as applied:
        assert set(applied.overloads) == {"bmm", "bmm.out"}
        assert [item.reason for item in applied.skipped] == ["it is about mlu590", "right since torch 2.0.0"]
    with verify.apply(quirks[:1], kind="mlu590") as applied:
        assert "mm" in applied.overloads
    with pytest.raises(BadInput, match="device: 'mlu'"):
        verify.apply(quirks, device="mlu")


def test_the_table_reaches_every_overload_that_computes_on_a_cpu():
    """PyTorch's own list of schemas: an overload that has a CPU kernel and isn't hooked would pass by a quirk."""
    for row in ROWS:
        packet = getattr(torch.ops.aten, row.name)
        hooked = {overload.name for overload in overloads(row, "CPU")}
        for name in packet.overloads():
            whole = row.name if name == "default" else f"{row.name}.{name}"
            known = torch._C._dispatch_has_kernel(f"aten::{whole}")
            if known and torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{whole}", "CPU"):
                assert whole in hooked


def test_regions_in_the_hooks_are_those_of_the_terms():
    """A grid of shapes: what goes round is what `Region.holds` says, for a region of several cases."""
    cases = (
        (Modulo(factors=("K",), modulus=8, remainders=(1, 2)), Range(factors=("M",), low=3)),
        (Range(factors=("M", "N"), low=30, high=40), Is(trait="dtype", words=("f32", "f16"))),
        (Modulo(factors=("N", "itemsize"), modulus=12, remainders=tuple(range(11))), Range(factors=("K",), high=1)),
    )
    region = Region(cases=cases)
    rule = dataclasses.replace(quirk("mm", ways=((Way.UPCAST, "f64"),)), region=region)
    went: list[str] = []
    with overridden() as put:
        put("mm", watching(went, "mm"))
        with verify.apply([rule]):
            for m, n, k in itertools.product((1, 2, 3, 5, 8), (1, 3, 4, 6, 9), (1, 2, 7, 9, 16)):
                went.clear()
                torch.mm(torch.zeros(m, k), torch.zeros(k, n))
                facts = {"M": m, "N": n, "K": k, "itemsize": 4}
                point = Point(
                    operator="mm",
                    facts=tuple(Fact(name=name, value=value) for name, value in facts.items()),
                    traits=(Trait(name="dtype", word="f32"),),
                )
                assert went == ["mm torch.float64" if region.holds(point) else "mm torch.float32"], point


@pytest.mark.parametrize(
    ("word", "hit"),
    [
        ("transposed", [False, True, True, False]),
        ("strided", [False, True, True, False]),
        ("offset", [False] * 3 + [True]),
    ],
)
def test_a_layout_alone_can_be_at_fault(word, hit):
    """flash-linear-attention#1251: rows of another stride read the next one."""
    seen: list[str] = []
    dense = torch.zeros(8, 8)
    calls = [dense, dense.t(), torch.zeros(8, 11)[:, :8], torch.zeros(65)[1:].view(8, 8)]
    with overridden() as put:
        put("mm", watching(seen, "mm"))
        with verify.apply([quirk("mm", Is(trait="layout", words=(word,)), ways=((Way.UPCAST, "f64"),))]):
            for call in calls:
                torch.mm(call, dense)
        with verify.apply([quirk("linear", Is(trait="layout", words=(word,)), ways=((Way.UPCAST, "f64"),))]):
            torch.mm(dense, dense)
    assert seen[:4] == [f"mm torch.float{64 if one else 32}" for one in hit]
    assert seen[4] == "mm torch.float64"  # what a hook can't see of a linear layer is taken for the worst


def test_scalars_have_no_last_side():
    with verify.apply([quirk("relu", Range(factors=("N",), low=3), ways=((Way.UPCAST, "f64"),))]):
        assert torch.relu(torch.tensor(-1.0)) == 0
        assert torch.relu(-torch.ones(4)).tolist() == [0, 0, 0, 0]


def test_every_row_has_a_hook_in_both_languages():
    """All facts of all rows in one condition: what Python can't run raises here, and C++ has no `//`."""
    from accord.verify.reroute.apply import hooks_of
    from accord.verify.reroute.native import source

    for row in ROWS:
        if not overloads(row, "CPU"):
            continue
        atoms = [Range(factors=(name,), low=1) for name in row.facts]
        hooks = hooks_of([quirk(row.serves[0], *atoms, ways=((Way.CONTIGUOUS, ""),))], "CPU")
        assert hooks
        assert "//" not in source(hooks, "CPU")
