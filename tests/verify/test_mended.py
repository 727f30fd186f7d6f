"""Ways behind the device port: each is right on a healthy device, and cures what it should on a faulty one."""

from collections.abc import Callable

import numpy as np
import pytest

from accord.terms.quirk import Is, Range, Way
from accord.verify.attempts import Attempt, attempts
from accord.verify.call_sides import SIDES
from accord.verify.devices.with_numpy import NumpyDevice
from accord.verify.devices.with_torch import TorchDevice
from accord.verify.mend import Search, mend
from accord.verify.mended import MendedDevice
from accord.verify.operators.table import operators
from accord.verify.ports import Answer, Call, Death, Died, FakeDevice, Outcome, Unsupported
from accord.verify.tensor import of_bits
from accord.verify.trial import Bench, PortTrial, TorchTrial, kit, torch_kit
from tests.verify.judged import call_of, judged, point_of
from tests.verify.planted import planted, quirk, r1

USUAL = {name: row.usual[-1] for name, row in operators().items() if name in SIDES}


@pytest.fixture(scope="module")
def healthy():
    return NumpyDevice()


@pytest.mark.parametrize("name", USUAL)
def test_every_way_of_every_operator_is_right_on_a_healthy_device(name, healthy):
    """Sizes that no part divides; a way that zeros or cuts the wrong side shows in the values."""
    point = point_of(name, None, **dict(USUAL[name]))
    if judged(healthy, point) is None:  # numpy has no such operator; PyTorch has
        healthy = TorchDevice("cpu")
    assert judged(healthy, point)
    tried = 0
    for side, place in SIDES[name].items():
        for attempt in (
            *([Attempt(way=Way.PAD, detail=f"{side} to 7")] if place.pads else []),
            Attempt(way=Way.SPLIT, detail=f"{side} by {16 if side == 'block' else 11}"),
        ):
            assert judged(MendedDevice(healthy, attempt), point), attempt
            tried += 1
    for attempt in (Attempt(way=Way.UPCAST, detail="f64"), Attempt(way=Way.CONTIGUOUS), Attempt(way=Way.REPEAT)):
        assert judged(MendedDevice(healthy, attempt), point) is not False, attempt
    assert tried


@pytest.mark.parametrize("layout", ["transposed", "offset", "strided"])
def test_dense_copies_are_dense(layout):
    seen: list[Call] = []

    def compute(call: Call) -> Outcome:
        seen.append(call)
        return Unsupported(reason="only watched")

    call = call_of(point_of("mm", {"layout": layout}, M=5, K=6, N=7))
    MendedDevice(FakeDevice(compute), Attempt(way=Way.CONTIGUOUS)).run(call)
    assert [(tensor.strides, tensor.offset) for tensor in seen[0].operands] == [((6, 1), 0), ((7, 1), 0)]
    assert all(np.array_equal(a.bits(), b.bits()) for a, b in zip(seen[0].operands, call.operands, strict=True))


def _faulty(healthy, wrong: Callable[[Call], bool], *, spoil: Callable[[np.ndarray], None] | None = None) -> FakeDevice:
    def compute(call: Call) -> Outcome:
        outcome = healthy.run(call)
        if not isinstance(outcome, Answer) or not wrong(call):
            return outcome
        if spoil is None:
            return Died(death=Death.CRASH, detail="as planted")
        runs = []
        for run in outcome.runs:
            bits = run[0].bits().copy()
            spoil(bits)
            runs.append((of_bits(bits, run[0].dtype), *run[1:]))
        return Answer(runs=tuple(runs))

    return FakeDevice(compute)


def _last_wrong(bits: np.ndarray) -> None:
    bits.reshape(-1)[-1] += 1


def _search(faulty, device, points, sides) -> list:
    bench = Bench(device=device, judge=judged, build=call_of)
    tried = attempts(faulty, kit(faulty.operator, device.describe()))
    search = Search(attempts=tried, factors=sides, fresh=lambda _: points[:2], deadline_s=1e12)
    return list(mend(faulty, points, PortTrial(bench), search))


def test_r3_is_cured_by_smaller_blocks(healthy):
    """onnxruntime#28551: MatMulNBits with blocks of 512 or 1024 returns garbage, up to 256 it is right."""
    device = _faulty(healthy, lambda call: (call.option("block_size") or 0) >= 512, spoil=_last_wrong)
    faulty = quirk("matmul_nbits", Range(factors=("block",), low=512))
    points = [point_of("matmul_nbits", M=m, N=9, blocks=2, block=b) for m, b in ((1, 512), (3, 1024), (17, 512))]
    assert not any(judged(device, point) for point in points)
    (made, *_) = _search(faulty, device, points, ("M", "N", "block"))
    assert made.way is Way.SPLIT
    assert made.detail == "block by 256"
    assert made.verified >= 3


def test_r2_is_cured_by_eager_mode_or_by_cutting_n(healthy):
    """jax#39103: d=3, f64: n from 16,385 to 43,520 is wrong when compiled."""

    def wrong(call: Call) -> bool:
        return call.mode == "compile" and 16385 <= call.operands[0].shape[0] <= 43520

    device = _faulty(healthy, wrong, spoil=_last_wrong)
    faulty = quirk("turned_square", Range(factors=("n",), low=16385, high=43520), Is(trait="mode", words=("compile",)))
    points = [point_of("turned_square", {"mode": "compile", "dtype": "f64"}, n=n, d=3) for n in (16385, 20001, 43520)]
    made = _search(faulty, device, points, ("n", "d"))
    assert made
    assert {item.way for item in made} <= {Way.BACKEND, Way.SPLIT}
    for item in made:
        mended = MendedDevice(device, Attempt(way=item.way, detail=item.detail))
        assert all(judged(mended, point) for point in points if item.region.holds(point))


def test_a_crash_is_gone_round_and_the_search_survives(healthy):
    device = _faulty(healthy, lambda call: call.operands[0].shape[0] >= 65)
    faulty = quirk("softmax", Range(factors=("rows",), low=65))
    points = [point_of("softmax", rows=rows, N=9) for rows in (65, 100, 300)]
    made = _search(faulty, device, points, ("rows", "N"))
    assert {(item.way, item.detail) for item in made} <= {(Way.SPLIT, "rows by 64")}
    assert made


def test_a_part_that_dies_is_told(healthy):
    device = _faulty(healthy, lambda call: call.operands[0].shape[0] == 4)
    mended = MendedDevice(device, Attempt(way=Way.SPLIT, detail="M by 8"))
    assert isinstance(mended.run(call_of(point_of("mm", M=12, K=3, N=3))), Died)


def test_r1_is_mended_through_the_reroute():
    """Planted in this PyTorch; ways are judged with the poison that finds it, and timed as they will run."""
    device = TorchDevice("cpu")
    faulty = r1("mm")
    points = [
        point_of("mm", {"dtype": "bf16"}, M=m, K=k, N=n) for m, k, n in ((17, 33, 64), (40, 70, 90), (90, 131, 64))
    ]
    bench = Bench(device=device, judge=judged, build=call_of)
    tried = (
        Attempt(way=Way.CONTIGUOUS),
        Attempt(way=Way.OVERLOAD, detail="bmm"),
        Attempt(way=Way.PAD, detail="K to 32"),
        Attempt(way=Way.UPCAST, detail="f32"),
        Attempt(way=Way.PAD, detail="Q to 32"),
    )
    assert set(tried[:4]) <= set(attempts(faulty, torch_kit("mm", device.describe())))
    trial = TorchTrial(bench, faulty, torch_device="cpu", prepare=device.prepare)
    with planted("mm", "mm.out", "addmm", "bmm"):
        assert not any(judged(device, point) for point in points)
        search = Search(attempts=tried, factors=("M", "K", "N"), fresh=lambda _: points, deadline_s=1e12)
        made = mend(faulty, points, trial, search)
        assert {(item.way, item.detail) for item in made} <= {(Way.PAD, "K to 32"), (Way.UPCAST, "f32")}
        assert sum(item.verified for item in made) >= 6
        assert trial.right(points[0], tried[0]) is False
        assert trial.right(points[0], tried[4]) is None
        assert all(item.cost_ratio > 0 for item in made)


def test_kits_offer_what_the_operator_has(healthy):
    about = healthy.describe()
    assert kit("mm", about).pads == ("M", "N", "K")
    assert "block" in kit("matmul_nbits", about).splits
    assert "block" not in kit("matmul_nbits", about).pads
    assert kit("unheard", about).splits == ()
