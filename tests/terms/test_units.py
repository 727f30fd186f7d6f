"""Durations, sizes, money and shares: text to figures and back."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.terms import units
from accord.terms.errors import BadInput

SECONDS = st.floats(min_value=1e-9, max_value=1e9, allow_nan=False)
BYTES = st.integers(min_value=0, max_value=(1 << 63) - 1)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("150ms", 0.15), ("4s", 4.0), ("10m", 600.0), ("1h", 3600.0), ("7d", 604800.0), (" 1.5 ms ", 0.0015),
     ("250us", 0.00025), ("250µs", 0.00025), ("90ns", 9e-8), ("1e3ms", 1.0), ("0s", 0.0)],
)  # fmt: skip
def test_durations_are_read(text, seconds):
    assert units.parse_duration_s(text, field="x") == seconds


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("64MiB", 67108864),
        ("512GiB", 549755813888),
        ("93 MB", 93000000),
        ("1.5KiB", 1536),
        ("7B", 7),
        ("2tib", 2 << 40),
    ],
)
def test_sizes_are_read(text, size_bytes):
    assert units.parse_size_bytes(text, field="x") == size_bytes


@pytest.mark.parametrize(
    ("parse", "bad"),
    [
        *((units.parse_duration_s, bad) for bad in ("", "150", "ms", "-3s", "nan s", "inf", "4 parsecs", "1e999s")),
        *((units.parse_duration_s, bad) for bad in (3, None, True, "٣s", "1" * 50 + "s", "1,5s", "4s 3ms", "4S")),
        *((units.parse_size_bytes, bad) for bad in ("", "64", "-1MiB", "0.3B", "9e99B", "64 MiX", 64, "9000000TiB")),
        *((units.parse_usd, bad) for bad in ("0.03", "$", "$-1", "€3", "$1 EUR", 3, "$1e999", "")),
        *((units.parse_share, bad) for bad in (-0.1, 1.1, math.nan, math.inf, "60", "101%", "x%", True, None, "")),
        *((units.parse_percentile, bad) for bad in ("p0", "p100", "99", "p", "p99.", "P99", "p-1", "p１")),
    ],
)  # fmt: skip
def test_an_error_names_the_field_the_value_and_a_fix(parse, bad):
    with pytest.raises(BadInput) as caught:
        parse(bad, field="objectives.ttft_p99")
    text = str(caught.value)
    assert text.startswith("objectives.ttft_p99: ")
    assert "write " in caught.value.fix


@given(SECONDS)
def test_durations_round_trip(seconds):
    assert units.parse_duration_s(units.format_duration_s(seconds), field="x") == seconds


@given(BYTES)
def test_sizes_round_trip(size_bytes):
    assert units.parse_size_bytes(units.format_size_bytes(size_bytes), field="x") == size_bytes


@given(SECONDS)
def test_money_round_trips(amount_usd):
    assert units.parse_usd(units.format_usd(amount_usd), field="x") == amount_usd


@given(st.floats(min_value=0, max_value=1, allow_subnormal=False).map(lambda share: round(share, 12)))
def test_shares_round_trip(share):
    assert units.parse_share(units.format_share(share), field="x") == share


@given(st.integers(min_value=1, max_value=99_999_999))
def test_percentiles_round_trip(millionths):
    percentile = millionths / 1e6
    assert units.parse_percentile(units.format_percentile(percentile), field="x") == percentile


@given(SECONDS, st.integers(min_value=1, max_value=6))
def test_rounding_for_people_keeps_the_asked_digits(seconds, digits):
    near = units.parse_duration_s(units.format_duration_s(seconds, digits=digits), field="x")
    assert math.isclose(near, seconds, rel_tol=10 ** (1 - digits))


@pytest.mark.parametrize(
    ("shown", "wanted"),
    [
        (units.format_duration_s(0.15), "150ms"),
        (units.format_duration_s(0.0123456, digits=3), "12.3ms"),
        (units.format_duration_s(4.0), "4s"),
        (units.format_duration_s(600.0), "10m"),
        (units.format_duration_s(0.0), "0s"),
        (units.format_size_bytes(67108864), "64MiB"),
        (units.format_size_bytes(24676081664, digits=2), "23GiB"),
        (units.format_size_bytes(0), "0B"),
        (units.format_usd(0.03), "$0.03"),
        (units.format_share(0.992), "99.2%"),
        (units.format_percentile(99.9), "p99.9"),
        (units.format_percentile(50.0), "p50"),
    ],
)
def test_people_read_the_usual_forms(shown, wanted):
    assert shown == wanted


@pytest.mark.parametrize(
    ("text", "bytes_per_s"),
    [("400Gb/s", 50e9), ("400Gbps", 50e9), ("400 Gbit/s", 50e9), ("50GB/s", 50e9), ("1.6TB/s", 1.6e12),
     ("1GiB/s", float(1 << 30)), ("100Mb/s", 12.5e6), ("8b/s", 1.0), ("0GB/s", 0.0)],
)  # fmt: skip
def test_bandwidths_are_read_in_bits_and_in_bytes(text, bytes_per_s):
    assert units.parse_bandwidth_bytes_per_s(text, field="x") == bytes_per_s


@pytest.mark.parametrize(
    "text", ["400", "400GB", "400gB/s", "400G/s", "-4Gb/s", 400, None, "1e999Gb/s", "4 XB/s", "Gb/s"]
)
def test_other_bandwidths_are_refused(text):
    with pytest.raises(BadInput, match="Gb/s"):
        units.parse_bandwidth_bytes_per_s(text, field="x")


@given(st.floats(min_value=1, max_value=1e15), st.booleans())
def test_bandwidths_come_back(bytes_per_s, bits):
    text = units.format_bandwidth(bytes_per_s, bits=bits)
    assert units.parse_bandwidth_bytes_per_s(text, field="x") == bytes_per_s


@pytest.mark.parametrize(("text", "rate"), [("148TFLOP/s", 1.48e14), ("1 PFLOPS", 1e15), ("0.5GFLOP/s", 5e8)])
def test_rates_of_operations_are_read(text, rate):
    assert units.parse_flops_per_s(text, field="x") == rate


@pytest.mark.parametrize("text", ["148", "148T", "148TOPS", 148, "-1TFLOP/s"])
def test_other_rates_of_operations_are_refused(text):
    with pytest.raises(BadInput, match="TFLOP/s"):
        units.parse_flops_per_s(text, field="x")


@given(st.floats(min_value=1, max_value=1e18))
def test_rates_of_operations_come_back(rate):
    assert units.parse_flops_per_s(units.format_flops_per_s(rate), field="x") == rate
