"""The judge on answers whose faults are known, and on PyTorch's and ONNX Runtime's healthy ones."""

import numpy as np
import pytest

from accord.verify.examine import numbers_of
from accord.verify.judge import Grade, judge
from accord.verify.operators.row import Case, Fill
from accord.verify.operators.table import operators
from accord.verify.tensor import Dtype, Floats, Tensor, decode, encode, plain


def _case(fill: Fill, dtype: Dtype = Dtype.F32, **sides: int) -> Case:
    row = operators()["mm"]
    words = {choice.name: choice.words[0] for choice in row.space.choices} | {"dtype": dtype.value}
    point = row.space.point({"M": 8, "K": 64, "N": 8} | sides, words)
    assert point is not None
    made = row.build(point, numbers_of(point, fill), fill)
    assert made is not None
    return made


def _answer(values: Floats, dtype: Dtype = Dtype.F32) -> tuple[Tensor, ...]:
    return (plain(values, dtype),)


def _sides(case: Case) -> tuple[Floats, Floats]:
    return case.call.operands[0].floats(), case.call.operands[1].floats()


@pytest.mark.parametrize("dtype", [Dtype.F32, Dtype.BF16, Dtype.F16])
@pytest.mark.parametrize("fill", list(Fill))
def test_the_rounded_answer_is_right(fill: Fill, dtype: Dtype) -> None:
    case = _case(fill, dtype)
    a, b = _sides(case)
    with np.errstate(invalid="ignore"):
        assert judge(case, _answer(a @ b, dtype)).grade is Grade.RIGHT


@pytest.mark.parametrize("k", [64, 1024, 16384])
@pytest.mark.parametrize("dtype", [Dtype.F32, Dtype.BF16])
def test_a_dropped_last_product_is_seen_by_integers_at_any_depth(k: int, dtype: Dtype) -> None:
    case = _case(Fill.INTEGERS, dtype, K=k)
    a, b = _sides(case)
    assert judge(case, _answer(a[:, :-1] @ b[:-1], dtype)).grade is Grade.WRONG


def test_a_row_read_from_its_neighbour_is_wrong() -> None:
    case = _case(Fill.NORMAL)
    wanted = case.wanted[0].copy()
    wanted[3] = wanted[4]
    found = judge(case, _answer(wanted))
    assert found.grade is Grade.WRONG
    assert found.flagged == 8
    assert "[3, " in found.words


@pytest.mark.parametrize("low", [Dtype.BF16, Dtype.F16])
@pytest.mark.parametrize("k", [16, 256, 4096])
def test_operands_and_result_in_low_precision_are_drift_and_no_fault(low: Dtype, k: int) -> None:
    case = _case(Fill.NORMAL, M=32, K=k, N=32)
    a, b = (decode(encode(side, low), low) for side in _sides(case))
    assert judge(case, _answer(decode(encode(a @ b, low), low))).grade is Grade.DRIFT


@pytest.mark.parametrize("k", [256, 1024, 4096])
def test_sums_in_low_precision_are_a_fault(k: int) -> None:
    case = _case(Fill.NORMAL, Dtype.BF16, M=32, K=k, N=32)
    a, b = _sides(case)
    total = np.zeros((32, 32))
    for step in range(k):
        total = decode(encode(total + np.outer(a[:, step], b[step]), Dtype.BF16), Dtype.BF16)
    assert judge(case, _answer(total, Dtype.BF16)).grade is Grade.WRONG
    assert judge(case, _answer(total, Dtype.BF16), sums_wide=False).grade is Grade.DRIFT


def test_not_a_number_in_another_row_is_a_leak() -> None:
    case = _case(Fill.POISON, M=20)
    a, b = _sides(case)
    with np.errstate(invalid="ignore"):
        answer = a @ b
    clean = int(np.flatnonzero(np.isfinite(answer).all(axis=1))[0])
    answer[clean] = np.nan
    assert judge(case, _answer(answer)).grade is Grade.LEAK


def test_whatever_comes_of_poison_in_its_own_row_is_right() -> None:
    case = _case(Fill.POISON, M=20)
    answer = np.where(np.isfinite(case.wanted[0]), case.wanted[0], 7.0)
    assert judge(case, _answer(answer)).grade is Grade.RIGHT


def test_a_wrong_shape_or_a_missing_output_is_wrong() -> None:
    case = _case(Fill.INTEGERS)
    assert judge(case, _answer(case.wanted[0].T.copy()[:, :3])).grade is Grade.WRONG
    assert judge(case, ()).grade is Grade.WRONG
