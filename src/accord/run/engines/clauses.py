"""A growing text, cut into clauses that can be spoken one after the other.

In: pieces of text, cut anywhere. Out: clauses, as soon as they are sure to be finished.
Invariant: the clauses, joined, are the text but for white space between them, and they don't depend on
how the pieces were cut: each decision waits until it has seen all that it looks at.

The first clause ends at the first comma or the like after a few words, so that speech starts early;
later ones are sentences. A sentence that is too long for one breath is cut at a mark or between words.
"""

import re
from collections.abc import Iterator
from enum import Enum

_FIRST_CHARS_MAX = 80
_CHARS_MAX = 180
_FIRST_WORDS = 3
_LOOK_AHEAD = 8

_MARK = re.compile(r"[.!?…]+|[。！？]+|[,;:—]|\n")
_CLOSERS = frozenset("\"'”’)]}*_`~")
_BREATH = re.compile(r"[,;:—]\s")
_INITIALS = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]")
_ABBREVIATION = re.compile(
    r"(?:mr|mrs|ms|dr|prof|st|sr|jr|rev|gen|col|capt|lt|sgt|gov|sen|rep|hon|mt|ft|vs|etc|approx|no|nos|fig|vol|eds?"
    r"|inc|ltd|co|corp|dept|est|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)",
    re.IGNORECASE,
)


class _Verdict(Enum):
    NO = "no"
    UNKNOWN = "unknown"


class Clauses:
    """Push pieces, then finish once. Both give the clauses that have become sure."""

    def __init__(self) -> None:
        self._held = ""
        self._first = True

    def push(self, piece: str) -> tuple[str, ...]:
        """Takes the next piece of the text."""
        self._held += piece
        return tuple(self._cut(ended=False))

    def finish(self) -> tuple[str, ...]:
        """The text has ended: what is left."""
        return tuple(self._cut(ended=True))

    def _cut(self, *, ended: bool) -> Iterator[str]:
        while True:
            self._held = self._held.lstrip()
            end = _first_end(self._held, first=self._first, ended=ended)
            if end == 0:
                return
            clause, self._held = self._held[:end].rstrip(), self._held[end:]
            self._first = False
            yield clause


def _first_end(text: str, *, first: bool, ended: bool) -> int:
    """Where the first clause of `text` ends; 0 if that isn't known yet, or there is none."""
    limit = _FIRST_CHARS_MAX if first else _CHARS_MAX
    for mark in _MARK.finditer(text):
        if mark.start() >= limit:
            break
        verdict = _judge(text, mark, first=first, ended=ended)
        if isinstance(verdict, int):
            return verdict
        if verdict is _Verdict.UNKNOWN:
            return 0
    if len(text) > limit:
        return _forced_end(text, limit)
    return len(text) if ended else 0


def _judge(text: str, mark: re.Match[str], *, first: bool, ended: bool) -> int | _Verdict:
    """The end of the clause that this mark closes, or why there is none."""
    kind = mark.group()[0]
    if kind == "\n":
        return mark.end()
    if kind in "。！？":
        return mark.end() if mark.end() < len(text) or ended else _Verdict.UNKNOWN
    if kind in ",;:—":
        if not first or len(text[: mark.start()].split()) < _FIRST_WORDS:
            return _Verdict.NO
        return _followed_by_space(text, mark.end(), ended=ended)
    return _sentence_end(text, mark, ended=ended)


def _followed_by_space(text: str, at: int, *, ended: bool) -> int | _Verdict:
    if at < len(text):
        return at if text[at].isspace() else _Verdict.NO
    return _Verdict.NO if ended else _Verdict.UNKNOWN


def _sentence_end(text: str, mark: re.Match[str], *, ended: bool) -> int | _Verdict:
    """Full stops and their like end a sentence before white space, unless it goes on in lower case."""
    end = mark.end()
    while end < len(text) and end < mark.end() + _LOOK_AHEAD and text[end] in _CLOSERS:
        end += 1
    verdict = _followed_by_space(text, end, ended=ended)
    if not isinstance(verdict, int):
        return verdict
    if mark.group() == "." and _is_abbreviation(text[: mark.start()]):
        return _Verdict.NO
    ahead = text[end : end + _LOOK_AHEAD]
    following = ahead.lstrip()
    if not following:
        return end if ended or len(ahead) == _LOOK_AHEAD or "\n" in ahead else _Verdict.UNKNOWN
    return _Verdict.NO if following[0].islower() else end


def _is_abbreviation(before: str) -> bool:
    """Whether the full stop after `before` belongs to its last word: `Dr`, `e.g`, `J`, or `1` of a list."""
    word = before[max(before.rfind(" "), before.rfind("\n")) + 1 :].lstrip("(\"'“‘[*_")
    if word.isdigit():
        return len(word) <= 3 and word == before.strip()
    return word != "I" and (_INITIALS.fullmatch(word) or _ABBREVIATION.fullmatch(word)) is not None


def _forced_end(text: str, limit: int) -> int:
    """A cut within `limit` characters: after the last mark, else between words, else anywhere."""
    marks = [mark.start() + 1 for mark in _BREATH.finditer(text, 0, limit)]
    if marks and marks[-1] > limit // 3:
        return marks[-1]
    spaces = max(text.rfind(" ", 1, limit), text.rfind("\t", 1, limit))
    return spaces if spaces > 0 else limit
