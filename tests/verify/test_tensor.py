"""Numbers of every format, judged by ml_dtypes and NumPy; layouts, judged by NumPy's own slices."""

import ml_dtypes
import numpy as np
import pytest

from accord.verify.operators.making import LAYOUTS, operand
from accord.verify.tensor import ROUNDOFF, STORED, Dtype, decode, encode, itemsize

THEIRS = {
    Dtype.BF16: ml_dtypes.bfloat16,
    Dtype.F8E4M3: ml_dtypes.float8_e4m3fn,
    Dtype.F8E5M2: ml_dtypes.float8_e5m2,
    Dtype.F16: np.float16,
    Dtype.F32: np.float32,
}


@pytest.mark.parametrize("dtype", [Dtype.BF16, Dtype.F8E4M3, Dtype.F8E5M2])
def test_every_code_means_the_same_number(dtype: Dtype) -> None:
    codes = np.arange(1 << (8 * itemsize(dtype)), dtype=np.int64).astype(STORED[dtype])
    with np.errstate(invalid="ignore"):  # some codes are signalling NaNs
        theirs = codes.view(THEIRS[dtype]).astype(np.float64)
    np.testing.assert_array_equal(decode(codes, dtype), theirs)


@pytest.mark.parametrize("dtype", [Dtype.BF16, Dtype.F8E4M3, Dtype.F8E5M2, Dtype.F16])
def test_rounding_is_to_nearest_even(dtype: Dtype) -> None:
    rng = np.random.default_rng(3)
    single = (rng.standard_normal(40_000) * 10.0 ** rng.uniform(-7, 2, 40_000)).astype(np.float32)
    middles = decode(np.arange(60, 120).astype(STORED[dtype]), dtype)  # halfway between neighbours are ties
    ties = np.concatenate([single, (middles[1:] + middles[:-1]) / 2]).astype(np.float32)
    ours, theirs = encode(ties, dtype), ties.astype(THEIRS[dtype])
    np.testing.assert_array_equal(decode(ours, dtype), theirs.astype(np.float64))


@pytest.mark.parametrize(("dtype", "largest"), [(Dtype.F8E5M2, 57344.0), (Dtype.F8E4M3, 448.0)])
def test_what_is_beyond_a_format_is_its_largest_number_or_infinity(dtype: Dtype, largest: float) -> None:
    given = np.asarray([largest, -largest, 61440.0, np.inf, np.nan])
    back = decode(encode(given, dtype), dtype)
    assert back[:2].tolist() == [largest, -largest]
    assert back[2] == (np.inf if dtype is Dtype.F8E5M2 else largest)
    assert np.isnan(back[4])


@pytest.mark.parametrize("dtype", THEIRS)
def test_roundoff_is_half_a_step_at_one(dtype: Dtype) -> None:
    assert ROUNDOFF[dtype] == float(ml_dtypes.finfo(THEIRS[dtype]).eps) / 2


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [Dtype.F32, Dtype.BF16])
def test_a_layout_changes_memory_and_no_value(layout: str, dtype: Dtype) -> None:
    values = np.random.default_rng(0).integers(-9, 9, (2, 5, 7)).astype(np.float64)
    made = operand(values, dtype, layout)
    np.testing.assert_array_equal(made.floats(), values)
    wide = {"plain": (35, 7, 1), "offset": (35, 7, 1), "transposed": (35, 1, 5), "strided": (50, 10, 1)}
    assert made.strides == wide[layout]
    assert made.offset == (1 if layout == "offset" else 0)
