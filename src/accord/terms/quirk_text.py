"""A region in words that people write and programs read: `M > 16 and K % 32 != 0 and M*N*K > 4096`.

In: a `Region`, or its text. Out: the text, or the `Region`. Invariant: parsing what `region_text` wrote gives a region
that holds the same points; text that isn't understood whole is refused.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby

from accord.terms.errors import BadInput
from accord.terms.quirk import Atom, Is, Modulo, Range, Region

EVERYWHERE = "always"
NOWHERE = "never"
_MODULUS_MAX = 1 << 16
_WORD = r"[A-Za-z0-9_.:+/@-]+"
_FACTORS = r"[A-Za-z_]\w*(?:\*[A-Za-z_]\w*)*"
_ATOM = re.compile(
    rf"(?P<low>\d+) *(?P<under><=?) *(?P<within>{_FACTORS}) *(?P<over><=?) *(?P<high>\d+)"
    rf"|(?P<divided>{_FACTORS}) *% *(?P<modulus>\d+) *(?P<leaves>==|!=|not in\b|in\b) *(?P<rest>\d+|\([\d, .]+\))"
    rf"|(?P<compared>{_FACTORS}) *(?P<sign>>=|<=|==|>|<) *(?P<number>\d+)"
    rf"|(?P<trait>[A-Za-z_]\w*) +(?:is +(?P<word>{_WORD})|in *\((?P<words>{_WORD}(?: *, *{_WORD})*)\))"
)


def region_text(region: Region) -> str:
    """The region as one line."""
    if not region.cases:
        return NOWHERE
    many = len(region.cases) > 1
    return " or ".join(f"({_case(case)})" if many and len(case) > 1 else _case(case) for case in region.cases)


def atom_text(atom: Atom) -> str:
    """One condition."""
    match atom:
        case Range():
            return _range(atom)
        case Modulo():
            return _modulo(atom)
        case Is(words=(word,)):
            return f"{atom.trait} is {word}"
        case Is():
            return f"{atom.trait} in ({', '.join(atom.words)})"


def parse_region(text: str, *, field: str = "region") -> Region:
    """The region of a line. BadInput names the part that isn't understood."""
    told = text.strip()
    if told == NOWHERE:
        return Region(cases=())
    return Region(cases=tuple(_parse_case(part, field=field) for part in re.split(r"\s+or\s+", told)))


def remainders_in_words(modulus: int, remainders: Iterable[int]) -> str:
    """What follows `x % modulus`: the shorter of what is in and what is out."""
    inside = sorted(set(remainders))
    outside = sorted(set(range(modulus)) - set(inside))
    negated = bool(outside) and len(outside) < len(inside)
    told = outside if negated else inside
    if len(told) == 1:
        return f"{'!=' if negated else '=='} {told[0]}"
    return f"{'not in' if negated else 'in'} ({', '.join(_runs(told))})"


def _runs(numbers: list[int]) -> Iterator[str]:
    """Numbers, with three or more in a row as `1..16`."""
    for _, run in groupby(enumerate(numbers), key=lambda one: one[1] - one[0]):
        row = [number for _, number in run]
        yield from (f"{row[0]}..{row[-1]}",) if len(row) > 2 else map(str, row)


def _case(case: tuple[Atom, ...]) -> str:
    return " and ".join(atom_text(atom) for atom in case) or EVERYWHERE


def _range(atom: Range) -> str:
    name = "*".join(atom.factors)
    match atom.low, atom.high:
        case None, None:
            return f"{name} >= 0"
        case int() as low, None:
            return f"{name} > {low - 1}" if _roundness(low - 1) > _roundness(low) else f"{name} >= {low}"
        case None, int() as high:
            return f"{name} < {high + 1}" if _roundness(high + 1) > _roundness(high) else f"{name} <= {high}"
        case int() as low, int() as high if low == high:
            return f"{name} == {low}"
        case _:
            return f"{atom.low} <= {name} <= {atom.high}"


def _roundness(number: int) -> int:
    """How often two divides it, or ten if that is more often told."""
    if number <= 0:
        return 0
    decimal = len(str(number)) - len(str(number).rstrip("0"))
    return max((number & -number).bit_length() - 1, 3 * decimal)


def _modulo(atom: Modulo) -> str:
    return f"{'*'.join(atom.factors)} % {atom.modulus} {remainders_in_words(atom.modulus, atom.remainders)}"


def _parse_case(text: str, *, field: str) -> tuple[Atom, ...]:
    told = text.strip()
    if told.startswith("(") and told.endswith(")") and _encloses(told):
        told = told[1:-1].strip()
    if told == EVERYWHERE:
        return ()
    return tuple(_parse_atom(part.strip(), field=field) for part in re.split(r"\s+and\s+", told))


def _encloses(text: str) -> bool:
    depths = [text[: end + 1].count("(") - text[: end + 1].count(")") for end in range(len(text) - 1)]
    return all(depth > 0 for depth in depths)


def _parse_atom(text: str, *, field: str) -> Atom:
    found = _ATOM.fullmatch(text)
    if found is None:
        fix = "write conditions such as `M > 16`, `K % 32 != 0`, `16 <= M*N <= 64` or `dtype is bf16`, joined by `and`"
        raise BadInput(field=field, value=text, problem="not a condition", fix=fix)
    part = found.groupdict()
    if part["within"]:
        low = int(part["low"]) + (part["under"] == "<")
        high = int(part["high"]) - (part["over"] == "<")
        return Range(factors=_split(part["within"]), low=low, high=high)
    if part["divided"]:
        return _parse_modulo(part, field=field)
    if part["compared"]:
        return _parse_range(_split(part["compared"]), part["sign"] or "", int(part["number"]))
    words = part["word"] or part["words"]
    return Is(trait=part["trait"], words=tuple(word.strip() for word in words.split(",")))


def _parse_range(factors: tuple[str, ...], sign: str, number: int) -> Range:
    low = {">": number + 1, ">=": number, "==": number}.get(sign)
    high = {"<": number - 1, "<=": number, "==": number}.get(sign)
    return Range(factors=factors, low=low, high=high)


def _parse_modulo(part: dict[str, str], *, field: str) -> Modulo:
    modulus = int(part["modulus"])
    told = _numbers(part["rest"], field=field)
    if not 1 < modulus <= _MODULUS_MAX or not told or max(told) >= modulus:
        fix = f"divide by 2 to {_MODULUS_MAX}, and name remainders below that"
        raise BadInput(field=field, value=f"% {modulus}", problem="not a remainder", fix=fix)
    inside = set(range(modulus)) - set(told) if part["leaves"] in ("!=", "not in") else set(told)
    return Modulo(factors=_split(part["divided"]), modulus=modulus, remainders=tuple(sorted(inside)))


def _numbers(text: str, *, field: str) -> list[int]:
    """`(1..4, 7)` as 1, 2, 3, 4, 7."""
    told: list[int] = []
    for part in text.strip("()").split(","):
        found = re.fullmatch(r" *(\d+)(?: *\.\. *(\d+))? *", part)
        if found is None or int(found[2] or found[1]) > _MODULUS_MAX:
            raise BadInput(field=field, value=text, problem="not a list of remainders", fix="write such as (1..4, 7)")
        told += range(int(found[1]), int(found[2] or found[1]) + 1)
    return told


def _split(factors: str) -> tuple[str, ...]:
    return tuple(factors.split("*"))
