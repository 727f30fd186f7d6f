"""Tables and figures for people, as plain text.

In: rows, numbers. Out: lines, words. Invariant: a table is as wide as it must be; figures have three digits.
"""

from collections.abc import Iterator, Sequence

from accord.terms import units

Rows = list[tuple[str, ...]]


def table_lines(rows: Sequence[tuple[str, ...]], *, width: int, keys: int = 1, indent: int = 4) -> Iterator[str]:
    """A table whose first row is its heading; columns of figures, and their headings, stand to the right.

    A table that is wider than `width` goes on below itself, with its first `keys` columns again.
    """
    columns = [_column(cells) for cells in zip(*rows, strict=True)]
    room = width + 2 - indent - sum(len(column[0]) + 2 for column in columns[:keys])
    blocks: list[list[list[str]]] = [[]]
    left = room
    for column in columns[keys:]:
        wide = len(column[0]) + 2
        if blocks[-1] and wide > left:
            blocks.append([])
            left = room
        blocks[-1].append(column)
        left -= wide
    for block in blocks:
        for cells in zip(*columns[:keys], *block, strict=True):
            yield (" " * indent + "  ".join(cells)).rstrip()


def count(number: float) -> str:
    """A count for people: "30.5B" is 30.5 billion."""
    return _scaled(number, ((1e15, "P"), (1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")))


def flops(number: float) -> str:
    """FLOPs for people: "5.86T" is 5.86e12."""
    return _scaled(number, ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")))


def size(size_bytes: float) -> str:
    """Bytes for people."""
    return units.format_size_bytes(round(size_bytes), digits=3)


def article(word: str) -> str:
    """ "a patch", "an action"."""
    return f"{'an' if word[:1] in 'aeiou' else 'a'} {word}"


def ratio(number: float) -> str:
    """A plain number with three digits, or whole."""
    return f"{number:.3g}" if number < 999.5 else f"{number:,.0f}"


def plural(number: int, one: str) -> str:
    """ "1 patch", "2 patches"."""
    ending = "es" if one.endswith(("s", "x", "ch", "sh")) else "s"
    return f"{number:,} {one}" if number == 1 else f"{number:,} {one}{ending}"


def _column(cells: tuple[str, ...]) -> list[str]:
    wide = max(map(len, cells))
    figures = all(cell[:1].isdigit() or cell in ("", "-", "all") for cell in cells[1:])
    return [cell.rjust(wide) if figures else cell.ljust(wide) for cell in cells]


def _scaled(number: float, scales: tuple[tuple[float, str], ...]) -> str:
    for factor, unit in scales:
        if number >= factor * 0.9995:
            scaled = number / factor
            return f"{scaled:.0f}{unit}" if scaled >= 99.95 else f"{scaled:.3g}{unit}"
    return f"{number:.0f}"
