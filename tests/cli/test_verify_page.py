"""The report of a sweep: what it shows is what was found.

In: made-up findings, the text of the page. Out: failures. Invariant: the page is judged by XML and HTML parsers that
know nothing of ours; counts in cells add up to the points that were asked.
"""

import re
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest

from accord.cli.verify_map import heat_map, remainder_bars
from accord.cli.verify_page import page
from accord.terms.quirk import Evidence, FaultKind, Point, Quirk, Version, Way, Workaround
from accord.terms.quirk_text import parse_region
from accord.verify.findings import Findings, Mark, OperatorFindings, Verdict
from accord.verify.ports import Description
from accord.verify.space import Axis, Choice, Space

SPACE = Space(
    operator="mm<b>",
    axes=(Axis(name="M", high=64), Axis(name="K", high=256), Axis(name="N", high=4)),
    choices=(Choice(name="dtype", words=("f32", "bf16")),),
)
QUIRK = Quirk(
    name="card-mm",
    device="card",
    operator="mm<b>",
    fault=FaultKind.LEAK,
    region=parse_region("dtype is bf16 and M > 16 and K % 32 != 0"),
    evidence=Evidence(
        points=9,
        failing=3,
        fresh=5,
        missed=0,
        over_cover=0.125,
        worst="<nan>",
        probes=("poison",),
        witnesses=("numpy",),
    ),
    reproducer="print(1 < 2)\n</pre><script>alert(1)</script>\n",
    found="2026-12-01",
    workarounds=(
        Workaround(way=Way.PAD, detail="K to 32", region=parse_region("always"), cost_ratio=2.47, verified=99),
    ),
)


def _points() -> list[Point]:
    sides = [(m, k) for m in (1, 16, 17, 40) for k in (1, 31, 32, 33, 64, 200)]
    found = [SPACE.point({"M": m, "K": k, "N": 2}, {"dtype": dtype}) for m, k in sides for dtype in ("f32", "bf16")]
    return [point for point in found if point is not None]


def _marks() -> tuple[Mark, ...]:
    fault = {True: Verdict.FAULT, False: Verdict.RIGHT}
    return tuple(Mark(point=point, verdict=fault[QUIRK.region.holds(point)]) for point in _points())


def _findings(*operators: OperatorFindings) -> Findings:
    device = Description(name="card & co", families=("card",), versions=(Version(library="sdk", version="1.2"),))
    return Findings(device=device, witnesses=("numpy",), operators=operators, found="2026-12-01", took_s=61.4)


FAULTY = OperatorFindings(space=SPACE, marks=_marks(), quirks=(QUIRK,))


class _Reader(HTMLParser):
    """Collects the tags that are open, and words."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.words: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loads += [
            str(value) for name, value in attrs if name in ("src", "href") and not str(value).startswith("#")
        ]

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def _read(text: str) -> _Reader:
    reader = _Reader()
    reader.feed(text)
    reader.close()
    return reader


def test_the_page_says_fault_region_evidence_and_way() -> None:
    told = " ".join(_read(page(_findings(FAULTY))).words)
    for words in (
        "poison leaks",
        "dtype is bf16 and M > 16 and K % 32 != 0",
        "12.5% over-cover",
        "0 of 5 fresh points missed",
        "pad K to 32",
        "2.47",
        "1 fault found.",
        "48 points over 1 operator",
        "card & co",
    ):
        assert words in told


def test_words_of_a_device_cannot_become_markup_and_the_page_loads_nothing() -> None:
    reader = _read(page(_findings(FAULTY)))
    assert "script" not in reader.tags
    assert "b" not in reader.tags
    assert not reader.loads
    assert "</pre><script>alert(1)</script>" in "".join(reader.words)


def test_a_healthy_device_has_no_fault() -> None:
    clean = OperatorFindings(space=SPACE, marks=tuple(Mark(point=p, verdict=Verdict.RIGHT) for p in _points()))
    told = _read(page(_findings(clean)))
    assert "No fault found." in told.words
    assert "article" not in told.tags


def test_drift_is_named_as_precision() -> None:
    marks = tuple(Mark(point=point, verdict=Verdict.PRECISION) for point in _points())
    drifting = OperatorFindings(space=SPACE, marks=marks, drift="about 2^-8, as bf16 gives")
    told = " ".join(_read(page(_findings(drifting))).words)
    assert "Precision only, not a fault: about 2^-8, as bf16 gives" in told
    assert "No fault found." in told


def test_cells_add_up_to_what_was_asked() -> None:
    picture = ET.fromstring(heat_map(FAULTY))
    titles = [title.text or "" for title in picture.iter("title")]
    counts = [tuple(map(int, found.groups())) for text in titles if (found := re.match(r"(\d+) of (\d+) failed", text))]
    assert sum(asked for _, asked in counts) == len(FAULTY.marks)
    assert sum(failing for failing, _ in counts) == FAULTY.count(Verdict.FAULT)


def test_the_map_is_drawn_over_the_sides_that_the_region_speaks_of() -> None:
    told = "".join(ET.fromstring(heat_map(FAULTY)).itertext())
    assert "failing points by M and K" in told


def test_bars_show_the_remainder_that_is_right() -> None:
    (bars,) = remainder_bars(FAULTY)
    titles = [title.text or "" for title in ET.fromstring(bars).iter("title")]
    assert "K % 32 == 0: 0 of 4 failed" in titles
    assert "K % 32 == 1: 4 of 4 failed" in titles
    assert "K % 32 == 5: 0 of 0 failed" in titles


@pytest.mark.parametrize("values", [(), (1, 3, 5)])
def test_one_side_alone_can_be_drawn(values: tuple[int, ...]) -> None:
    space = Space(operator="relu", axes=(Axis(name="n", high=1 << 20, values=values),))
    point = space.point({"n": 3}, {})
    assert point is not None
    marks = (Mark(point=point, verdict=Verdict.FAULT),)
    picture = ET.fromstring(heat_map(OperatorFindings(space=space, marks=marks)))
    assert "1 of 1 failed" in "".join(picture.itertext())
