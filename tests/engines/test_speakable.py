"""What is read aloud of Markdown, links, emoji, odd signs; and that the phonemizer never stumbles over it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.run.engines.speakable import english_letters, speakable


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        ("Plain words, and 3.14 or $5.", "Plain words, and 3.14 or $5."),
        ("**Bold**, *soft*, __both__ and `code`.", "Bold, soft, both and code."),
        ("## A title", "A title"),
        ("- an item", "an item"),
        ("* an item", "an item"),
        ("> a quote", "a quote"),
        ("2 * 3 = 6", "2 * 3 = 6"),
        ("snake_case stays", "snake_case stays"),
        ("See [the page](https://example.com/x).", "See the page."),
        ("![a picture](x.png)", "a picture"),
        ("Go to https://www.example.com/a?b=c, now.", "Go to example.com, now."),
        ("Fine 😀👩‍👩‍👧!", "Fine !"),
        ("😀🎉", ""),
        ("---", ""),
        ("...", ""),
        ("```python", ""),
        ("20 °C and m²", "20 °C and m²"),
        ("①⑨", "19"),
        ("a\u200bb\x00c\td", "ab c d"),
        ("12345678901234567", "1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7"),
        ("1,000,000", "1,000,000"),
    ],
)
def test_speakable(clause: str, expected: str) -> None:
    assert speakable(clause) == expected


@given(text=st.text(max_size=80))
def test_what_is_spoken_lies_on_one_line_and_has_no_odd_characters(text: str) -> None:
    said = speakable(text)
    assert said == said.strip()
    assert said.isprintable()


@pytest.fixture(scope="module")
def g2p():
    from hibari.g2p import G2P

    return G2P()


WORDS = ["20", "th", "am", "Dr.", "XIV", "2024-01-01", "12/31/99", "7:30", "million", "1e5", "No.", "USD"]
SIGNS = st.sampled_from([*WORDS, *",.-/:$€¥%'’(]&@#½①⁵²٣İßﬁ中₹7    "])


@given(text=st.one_of(st.lists(SIGNS, max_size=30).map("".join), st.text(max_size=40)))
def test_the_phonemizer_reads_all_that_is_speakable(g2p, text: str) -> None:
    assert isinstance(g2p(speakable(text)), str)
    assert isinstance(g2p(english_letters(text)), str)
