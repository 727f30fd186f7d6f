"""The one place where units are converted: durations, sizes, bandwidths, rates, money, shares, percentiles.

In: text as a person writes it ("150ms", "64 MiB", "$0.03", "99%", "p99"). Out: plain numbers in base
units (seconds, bytes, US dollars, fractions), and text again.
Invariant: parse(format(x)) == x for whole bytes, and for figures from 1e-9 to 1e9, when no `digits` are
asked for; arithmetic is decimal, so 150ms is 0.15.
"""

import math
import re
from decimal import ROUND_HALF_EVEN, Context, Decimal

from accord.terms.errors import BadInput

_DURATIONS = {
    "ns": Decimal("1e-9"),
    "us": Decimal("1e-6"),
    "ms": Decimal("1e-3"),
    "s": Decimal(1),
    "m": Decimal(60),
    "h": Decimal(3600),
    "d": Decimal(86400),
}
_SIZES = {
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
}
_RATES = {"": 1, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_BINARY = ("TiB", "GiB", "MiB", "KiB", "B")
_NUMBER = r"\s*([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?)\s*"
_QUANTITY = re.compile(_NUMBER + r"([A-Za-zµ]*)\s*", re.ASCII)
# Here case carries meaning: Gb are bits, GB are bytes.
_BANDWIDTH = re.compile(
    r"\s*([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?)\s*([kKMGT]i?|)(b|bit|B)(?:/s|ps)\s*", re.ASCII
)
_FLOPS = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?)\s*([MGTP]?)FLOP(?:/s|S)\s*", re.ASCII)
_SIZES_BY_LOWER = {unit.lower(): factor for unit, factor in _SIZES.items()}
_DECIMAL = Context(prec=60, rounding=ROUND_HALF_EVEN)
_LONGEST = 40


def parse_duration_s(text: object, *, field: str) -> float:
    """ "150ms", "4s", "10m", "1h" -> seconds. BadInput if there is no unit, or the figure isn't finite."""
    fix = "write a figure and a unit, such as 150ms, 4s, 10m or 1h"
    number, unit = _split(text, field=field, fix=fix)
    factor = _DURATIONS.get("us" if unit in {"µs", "μs"} else unit)
    if factor is None:
        problem = f"unknown unit {unit}" if unit else "a duration needs a unit"
        raise BadInput(field=field, value=text, problem=problem, fix=fix)
    return _finite(number * factor, text, field=field, fix=fix)


def format_duration_s(seconds: float, *, digits: int | None = None) -> str:
    """Seconds -> text such as "150ms"; exact, or rounded to `digits` significant digits for people."""
    if seconds == 0:
        return "0s"
    value = _rounded(Decimal(repr(float(seconds))), digits)
    size = abs(value)
    unit = "s"
    if size < Decimal("1e-6"):
        unit = "ns"
    elif size < Decimal("1e-3"):
        unit = "us"
    elif size < 1:
        unit = "ms"
    elif size >= 3600 and _DECIMAL.remainder(value, Decimal(3600)) == 0:
        unit = "h"
    elif size >= 120 and _DECIMAL.remainder(value, Decimal(60)) == 0:
        unit = "m"
    return _plain(_DECIMAL.divide(value, _DURATIONS[unit])) + unit


def parse_size_bytes(text: object, *, field: str) -> int:
    """ "64MiB", "512 GiB", "93 MB" -> bytes. BadInput if it isn't a whole number of bytes."""
    fix = "write a figure and a unit, such as 64MiB, 93MB or 512GiB"
    number, unit = _split(text, field=field, fix=fix)
    factor = _SIZES_BY_LOWER.get(unit.lower())
    if factor is None:
        problem = f"unknown unit {unit}" if unit else "a size needs a unit"
        raise BadInput(field=field, value=text, problem=problem, fix=fix)
    size = _DECIMAL.multiply(number, Decimal(factor))
    if size >= 1 << 63:
        raise BadInput(field=field, value=text, problem="larger than any memory", fix=fix)
    if size != int(size):
        raise BadInput(field=field, value=text, problem="not a whole number of bytes", fix=fix)
    return int(size)


def format_size_bytes(size_bytes: int, *, digits: int | None = None) -> str:
    """Bytes -> text such as "64MiB"; exact, or rounded to `digits` significant digits for people."""
    if digits is None:
        # Disks are sold by powers of ten: 14TB reads better than 13671875000KiB.
        whole = [f"{size_bytes // factor}{unit}" for unit, factor in _SIZES.items() if size_bytes % factor == 0]
        return min(whole, key=len) if size_bytes else "0B"
    for unit in _BINARY:
        factor = _SIZES[unit]
        if size_bytes >= factor:
            return _plain(_rounded(_DECIMAL.divide(Decimal(size_bytes), Decimal(factor)), digits)) + unit
    return f"{size_bytes}B"


def parse_bandwidth_bytes_per_s(text: object, *, field: str) -> float:
    """ "400Gb/s" (bits) or "1.6TB/s" (bytes) -> bytes a second. BadInput without the unit, whose case matters."""
    fix = "write a figure and a unit: 400Gb/s or 400Gbps for bits, 50GB/s for bytes"
    match = _BANDWIDTH.fullmatch(text) if isinstance(text, str) and len(text) <= _LONGEST else None
    if match is None:
        raise BadInput(field=field, value=text, problem="not a bandwidth", fix=fix)
    number, scale, unit = match.groups()
    factor = Decimal(_SIZES_BY_LOWER[f"{scale}b".lower()])
    bytes_per_s = _DECIMAL.multiply(Decimal(number), factor)
    return _finite(bytes_per_s if unit == "B" else _DECIMAL.divide(bytes_per_s, Decimal(8)), text, field=field, fix=fix)


def format_bandwidth(bytes_per_s: float, *, bits: bool = False, digits: int | None = None) -> str:
    """Bytes a second -> text such as "1.6TB/s", or "400Gb/s" with `bits`, as networks are named."""
    value = _DECIMAL.multiply(Decimal(repr(float(bytes_per_s))), Decimal(8 if bits else 1))
    unit = next((name for name in ("TB", "GB", "MB", "kB") if value >= _SIZES[name] and name != "TB" * bits), "B")
    scaled = _rounded(_DECIMAL.divide(value, Decimal(_SIZES[unit])), digits)
    return f"{_plain(scaled)}{unit.replace('B', 'b') if bits else unit}/s"


def parse_flops_per_s(text: object, *, field: str) -> float:
    """ "148TFLOP/s" -> FLOP/s. BadInput without the unit."""
    fix = "write a figure and a unit, such as 148TFLOP/s"
    match = _FLOPS.fullmatch(text) if isinstance(text, str) and len(text) <= _LONGEST else None
    if match is None:
        raise BadInput(field=field, value=text, problem="not a rate of floating-point operations", fix=fix)
    return _finite(_DECIMAL.multiply(Decimal(match[1]), Decimal(_RATES[match[2]])), text, field=field, fix=fix)


def format_flops_per_s(flops_per_s: float, *, digits: int | None = None) -> str:
    """FLOP/s -> text such as "148TFLOP/s"."""
    value = Decimal(repr(float(flops_per_s)))
    scale = next((name for name in ("T", "G", "M") if value >= _RATES[name]), "")
    return f"{_plain(_rounded(_DECIMAL.divide(value, Decimal(_RATES[scale])), digits))}{scale}FLOP/s"


def parse_usd(text: object, *, field: str) -> float:
    """ "$0.03" -> US dollars. BadInput without the dollar sign, so that no other currency slips in."""
    fix = "write US dollars, such as $0.03"
    if not isinstance(text, str) or not text.strip().startswith("$"):
        raise BadInput(field=field, value=text, problem="not an amount of money", fix=fix)
    number, unit = _split(text.strip()[1:], field=field, fix=fix)
    if unit:
        raise BadInput(field=field, value=text, problem=f"unknown unit {unit}", fix=fix)
    return _finite(number, text, field=field, fix=fix)


def format_usd(amount_usd: float, *, digits: int | None = None) -> str:
    """US dollars -> text such as "$0.03"."""
    return "$" + _plain(_rounded(Decimal(repr(float(amount_usd))), digits))


def parse_share(value: object, *, field: str) -> float:
    """0.6 or "60%" -> 0.6. BadInput unless it lies from 0 to 1."""
    fix = "write a fraction from 0 to 1, or a percentage such as 60%"
    if isinstance(value, str) and value.strip().endswith("%"):
        number, unit = _split(value.strip()[:-1], field=field, fix=fix)
        share = float(_DECIMAL.divide(number, Decimal(100)))
        good = not unit
    else:
        good = isinstance(value, int | float) and not isinstance(value, bool)
        share = float(value) if isinstance(value, int | float) else math.nan
    if not good or not 0 <= share <= 1:
        raise BadInput(field=field, value=value, problem="not a share", fix=fix)
    return share


def format_share(share: float, *, digits: int | None = None) -> str:
    """0.6 -> "60%"."""
    return _plain(_rounded(_DECIMAL.multiply(Decimal(repr(float(share))), Decimal(100)), digits)) + "%"


def parse_percentile(text: str, *, field: str) -> float:
    """ "p99" or "p99.9" -> 99.0 or 99.9. BadInput unless it lies above 0 and below 100."""
    fix = "write a percentile such as p50, p99 or p99.9"
    if not re.fullmatch(r"p[0-9]{1,2}(\.[0-9]{1,6})?", text, re.ASCII):
        raise BadInput(field=field, value=text, problem="not a percentile", fix=fix)
    value = float(text[1:])
    if not 0 < value < 100:
        raise BadInput(field=field, value=text, problem="outside p0 to p100", fix=fix)
    return value


def format_percentile(percentile: float) -> str:
    """99.0 -> "p99"."""
    return "p" + _plain(Decimal(repr(float(percentile))))


def milliseconds(seconds: float) -> float:
    """Seconds -> milliseconds."""
    return seconds * 1e3


def megabytes(size_bytes: int) -> float:
    """Bytes -> MB, a million bytes, as downloads are counted."""
    return size_bytes / 1e6


def seconds_of_ns(nanoseconds: int) -> float:
    """Nanoseconds of a monotonic clock -> seconds."""
    return nanoseconds / 1e9


def _split(text: object, *, field: str, fix: str) -> tuple[Decimal, str]:
    if not isinstance(text, str):
        raise BadInput(field=field, value=text, problem="a figure with a unit is wanted", fix=fix)
    match = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        negative = text.lstrip().startswith("-")
        raise BadInput(field=field, value=text, problem="negative" if negative else "not understood", fix=fix)
    return Decimal(match.group(1)), match.group(2)


def _finite(value: Decimal, text: object, *, field: str, fix: str) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise BadInput(field=field, value=text, problem="too large", fix=fix)
    return number


def _rounded(value: Decimal, digits: int | None) -> Decimal:
    return value if digits is None else Context(prec=digits, rounding=ROUND_HALF_EVEN).plus(value)


def _plain(value: Decimal) -> str:
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
