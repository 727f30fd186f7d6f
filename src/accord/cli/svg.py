"""Pieces that every picture of ours is made of.

In: places, words. Out: text of an SVG that needs nothing else. Invariant: words are escaped; colours follow the
reader's light or dark scheme.
"""

from collections.abc import Sequence
from xml.sax.saxutils import escape

# Okabe and Ito's colours: told apart by people with any kind of colour vision.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#7a6ff0", "#8a8a8a")
_STYLE = """
:root { --page:#ffffff; --ink:#1c2430; --soft:#66717f; --line:#d4dae2; --rack:#f5f7fa; --card:#ffffff;
  --numa:#f2f5f9; --place:#ffffff; --port:#e7ecf3; --rdma:#dcecff }
@media (prefers-color-scheme: dark) { :root { --page:#0f141a; --ink:#e6ebf1; --soft:#93a0af; --line:#2c3641;
  --rack:#151c24; --card:#1a222c; --numa:#202a35; --place:#1a222c; --port:#2a3542; --rdma:#1d3a57 } }
text { font-family: ui-sans-serif, system-ui, "Segoe UI", "Helvetica Neue", Arial, sans-serif; fill: var(--ink) }
.soft { fill: var(--soft) } .strong { font-weight: 600 } .on { fill: #ffffff }
"""


def box(x: float, y: float, width: float, height: float, *, fill: str, radius: float, line: bool = True) -> str:
    """A rectangle with round corners, in a colour of the style."""
    stroke = ' stroke="var(--line)"' if line else ""
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius:g}" fill="var({fill})"{stroke}/>'
    )


def text(
    x: float, y: float, words: str, *, size: float, kind: str = "", end: bool = False, middle: bool = False
) -> str:  # fmt: skip
    """Words from `x` on, or to it (`end`), or around it (`middle`)."""
    anchor = ' text-anchor="end"' if end else ' text-anchor="middle"' if middle else ""
    styled = f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}" font-size="{size:g}"{anchor}{styled}>{escape(words)}</text>'


def wide(words: str, size: float) -> float:
    """About how wide a text is: wide fonts have letters of 0.6 em."""
    return round(0.6 * size * len(words), 1)


def file(width: float, height: float, parts: Sequence[str], *, title: str) -> str:
    """The whole file, for light and dark pages."""
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" role="img">\n<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n'
        f'<rect width="100%" height="100%" fill="var(--page)"/>\n{body}\n</svg>\n'
    )
