"""The commonest workarounds of matrix products as texts of programs.

In: a row, an overload, a side. Out: Python. Invariant: texts hold nothing of a quirk but integers; a matrix operand's
dimensions count from the front and are always there, others count from the end and may be broadcast.
"""

import re
from collections.abc import Mapping

from accord.verify.reroute.overloads import Overload
from accord.verify.reroute.rows import Row, Side

WIDE: Mapping[str, str] = {"f32": "float32", "f64": "float64"}
_CAST: Mapping[str, str] = {"f32": "float", "f64": "double"}  # methods, which cost less than `to(dtype)`


def side_and_number(detail: str, word: str, row: Row) -> tuple[Side | None, int]:
    """`K to 32` or `N by 65536`: the row's side and the number; no side where the text isn't of this form."""
    found = re.fullmatch(rf"(\w+) {word} (\d+)", detail)
    if found is None or int(found[2]) < 1:
        return None, 0
    return row.side(found[1]), int(found[2])


def upcast_text(row: Row, overload: Overload, dtype: str) -> str:
    """All operands in a wider dtype, the result in the first one's."""
    wide = ", ".join(f"{name}.{_CAST[dtype]}()" for name in overload.positional)
    return f"{_head(overload)}    return native(keys, {wide}{_words(overload)}).to({row.first}.dtype)\n"


def pad_text(row: Row, overload: Overload, side: Side, multiple: int) -> str:
    """Zeros at the end of a side; what they add to the output is cut off."""
    (lead, lead_dim), *_ = side.arguments
    given = {name: name for name in overload.positional}
    for name, dim in side.arguments:
        behind = -1 - dim if dim < 0 else row.product - 1 - dim
        padded = f"pad({name}, ({'0, 0, ' * behind}0, lacks))"
        given[name] = padded if dim >= 0 else f"({padded} if has({name}, {dim}, size) else {name})"
    call = f"native(keys, {', '.join(given.values())}{_words(overload)})"
    cut = "" if side.output is None else f".narrow({side.output}, 0, size)"
    body = f"    size = {lead}.size({lead_dim})\n    lacks = -size % {int(multiple)}\n    return {call}{cut}\n"
    return _head(overload) + body


def _head(overload: Overload) -> str:
    words = ", **words" if overload.words else ""
    return f"def way({', '.join(overload.positional)}{words}):\n"


def _words(overload: Overload) -> str:
    return ", **words" if overload.words else ""
