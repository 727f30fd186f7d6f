"""The text of renders: it reads back as what was meant, whatever a name holds."""

import re
from collections.abc import Mapping

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from accord.render.names import label_name, label_value
from accord.render.yaml_text import Document, Value, comment, yaml_text

HOSTILE = (
    "; rm -rf /", "$(reboot)", "`id`", "!!python/object/apply:os.system ['id']", "*a", "&a x", "a: b", "- x", "# x",
    "---", "...", "yes", "No", "on", "null", "~", "0x10", "1e3", "1:30", "012", "2001-01-01", "", " ", "\n", "a\nb",
    " a\n b", "a\n\n", "\ta", "x" * 300, "é", "日本語", "\U0001f600", "\u2028", "\x85", "\x00", "{a: 1}", "[1]", "a #b",
    "'", '"', "\\", "a'b\"c\\", "?", "? a", "|", ">", "%YAML 1.1", "@x", "<<", "=", "é\nb", "a \nb", "-", "--", ".inf",
    "$(XDG_CACHE_HOME)", "a$$b",
)  # fmt: skip
TEXTS = st.text(st.characters(codec="utf-8"), max_size=60) | st.sampled_from(HOSTILE)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), 1 << 63) | TEXTS,
    lambda below: st.lists(below, max_size=4) | st.dictionaries(TEXTS, below, max_size=4),
    max_leaves=12,
)


@given(st.lists(st.dictionaries(TEXTS, VALUES, max_size=4), max_size=3))
@example([{text: text for text in HOSTILE}])
def test_documents_read_back_as_they_were_meant(documents: list[Mapping[str, Value]]) -> None:
    text = yaml_text(documents)
    assert list(yaml.safe_load_all(text)) == documents
    assert text.isascii()


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_text_is_quoted_or_a_block(text: str) -> None:
    """Readers of YAML 1.1 and 1.2 disagree on plain texts; on quoted ones they agree."""
    (line, *_) = yaml_text([{"a": text}]).splitlines()[1:]
    assert line == "a: |" or line.startswith(("a: |", 'a: "', "a: '")) or re.fullmatch(r"a: [a-z/A-Z][\w./:-]*", line)


@pytest.mark.parametrize("word", ["yes", "NO", "On", "off", "y", "N", "True", "null", "Null", "nan", "1e3", "0o7"])
def test_words_that_some_reader_takes_for_something_else_are_quoted(word: str) -> None:
    assert yaml_text([{"a": word}]) == f'---\na: "{word}"\n'


def test_keys_are_sorted_and_what_a_thing_is_comes_first() -> None:
    document: Document = {
        "spec": {"b": 1, "a": [{"value": 1, "name": "x"}]},
        "metadata": {},
        "kind": "K",
        "apiVersion": "v1",
    }
    assert yaml_text([document]) == (
        "---\napiVersion: v1\nkind: K\nmetadata: {}\nspec:\n  a:\n    - name: x\n      value: 1\n  b: 1\n"
    )


@given(TEXTS)
def test_a_comment_stays_a_comment(text: str) -> None:
    said = comment(text)
    assert all(line.startswith("# ") for line in said.splitlines())
    assert said.isascii()
    assert yaml.safe_load(said) is None


@given(st.lists(TEXTS, min_size=1, max_size=3))
@example(["a" * 300])
@example([""])
def test_names_are_labels(texts: list[str]) -> None:
    assert re.fullmatch(r"[a-z]([a-z0-9-]{0,43}[a-z0-9])?", label_name(*texts), re.ASCII)


@given(TEXTS)
def test_values_are_label_values(text: str) -> None:
    value = label_value(text)
    assert len(value) <= 63
    assert re.fullmatch(r"([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)?", value, re.ASCII)


@given(TEXTS, TEXTS)
def test_different_texts_have_different_names(one: str, other: str) -> None:
    assert (label_name(one) == label_name(other)) == (one == other)
    assert (label_value(one) == label_value(other)) == (one == other)


def test_good_names_stay() -> None:
    assert label_name("qwen3", "prefill") == "qwen3-prefill"
    assert label_name("A b") == "a-b-" + label_name("A b")[-8:]
    assert label_name("9lives").startswith("x-9lives-")
    assert label_value("H20_3e.v1") == "H20_3e.v1"
