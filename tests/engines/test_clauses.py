"""Clauses: where they end, and the law that nothing is lost whatever way the text arrives."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.run.engines.clauses import Clauses


def cut(*pieces: str) -> list[str]:
    clauses = Clauses()
    return [*itertools.chain.from_iterable(clauses.push(piece) for piece in pieces), *clauses.finish()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n\t ", []),
        ("Yes", ["Yes"]),
        ("Hello there. How are you?", ["Hello there.", "How are you?"]),
        (
            "The capital of France is Paris, the city of light. It is old, big, and famous.",
            ["The capital of France is Paris,", "the city of light.", "It is old, big, and famous."],
        ),
        ("Well, the sea is wide, and blue.", ["Well, the sea is wide,", "and blue."]),
        ("Pi is 3.14. Yes.", ["Pi is 3.14.", "Yes."]),
        ("It costs 1,000,000 dollars, about.", ["It costs 1,000,000 dollars,", "about."]),
        ("Dr. Smith met Mr. Jones. They talked.", ["Dr. Smith met Mr. Jones.", "They talked."]),
        ("Books by J. K. Rowling sell. So do I. Good.", ["Books by J. K. Rowling sell.", "So do I.", "Good."]),
        ("Fruit, e.g. Apples, i.e. Food. Eat.", ["Fruit, e.g. Apples,", "i.e. Food.", "Eat."]),
        ("Wait... what? Really?!  Oh.", ["Wait... what?", "Really?!", "Oh."]),
        ('He said "Go." Then he "left." Fine.', ['He said "Go."', 'Then he "left."', "Fine."]),
        ("**Bold.** Then _soft!_ Yes.", ["**Bold.**", "Then _soft!_", "Yes."]),
        ("One line\nanother line\n\nlast", ["One line", "another line", "last"]),
        ("1. First thing.\n2. Second thing.", ["1. First thing.", "2. Second thing."]),
        ("See https://example.com/a.b,c?d=e. Bye.", ["See https://example.com/a.b,c?d=e.", "Bye."]),
        ("At 7:30 we met: all of us.", ["At 7:30 we met:", "all of us."]),
        ("Good 😀. Bye 👋!", ["Good 😀.", "Bye 👋!"]),
        ("今日は。元気?", ["今日は。", "元気?"]),
    ],
)
def test_where_clauses_end(text: str, expected: list[str]) -> None:
    assert cut(text) == expected
    assert cut(*text) == expected


def test_a_clause_comes_as_soon_as_it_is_sure() -> None:
    clauses = Clauses()
    assert clauses.push("The capital of France, ") == ("The capital of France,",)
    assert clauses.push("Paris, is old.") == ()
    assert clauses.push(" ") == ()  # a small letter might follow
    assert clauses.push("I") == ("Paris, is old.",)
    assert clauses.finish() == ("I",)


def test_text_without_marks_is_cut_between_words() -> None:
    clauses = cut("word " * 200)
    assert all(len(clause) <= 180 for clause in clauses)
    assert len(clauses[0]) <= 80
    assert {word for clause in clauses for word in clause.split()} == {"word"}


def test_a_word_without_end_is_cut_anyway() -> None:
    assert [len(clause) for clause in cut("a" * 500)] == [80, 180, 180, 60]


def test_a_long_sentence_is_cut_at_its_last_mark() -> None:
    text = "First. " + "a few words of this long sentence, " * 10 + "end."
    clauses = cut(text)
    assert all(clause.endswith(",") for clause in clauses[1:-1])
    assert all(len(clause) <= 180 for clause in clauses)


TEXTS = st.lists(
    st.one_of(
        st.sampled_from(
            [*"aBz19 .,!?;:\n\t—…\"')*_。", "Dr.", "e.g.", "3.14", "...", "  ", "😀", "https://a.b/c,d ", "word " * 40]
        ),
        st.text(max_size=5),
    ),
    max_size=60,
).map("".join)


@given(text=TEXTS, data=st.data())
def test_nothing_is_lost_and_the_cuts_of_the_pieces_do_not_matter(text: str, data: st.DataObject) -> None:
    at = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    pieces = [text[start:end] for start, end in itertools.pairwise([0, *at, len(text)])]
    whole = cut(text)
    assert "".join("".join(whole).split()) == "".join(text.split())
    assert cut(*pieces) == whole
    assert all(clause.strip() == clause != "" for clause in whole)
    assert all(len(clause) <= 180 + 16 for clause in whole)
