"""What a person would read aloud of a clause.

In: a clause as a language model writes it, with Markdown, links and emoji. Out: plain words and marks,
on one line; "" if there is nothing to say. Invariant: words keep their order.
"""

import re
import unicodedata
from urllib.parse import urlsplit

_IMAGE_OR_LINK = re.compile(r"!?\[([^\]\n]*)\]\([^)\n]*\)")
_URL = re.compile(r"\b(?:https?|ftp)://[^\s<>\"')\]]+")
_LINE_START = re.compile(r"^[ \t]*(?:#{1,6}[ \t]+|>[ \t]*|[-*+•][ \t]+)+", re.MULTILINE)
_RULE = re.compile(r"^[ \t]*(?:[-*_=][ \t]*){3,}$|^[ \t]*`{3}.*$", re.MULTILINE)
_EMPHASIS = re.compile(r"(?<!\w)[*_~]{1,3}(?=\S)|(?<=\S)[*_~]{1,3}(?!\w)|`+")
_LONG_NUMBER = re.compile(r"\d(?:,?\d){15,}")
_NOT_ENGLISH = re.compile(r"[^A-Za-z.,;:!?' ]+")
_SPOKEN_SYMBOLS = frozenset("°²³")


def speakable(clause: str) -> str:
    """Markdown's signs, emoji and control characters go; a link is read as its text, a URL as its host.

    A number too long to be called by a name is read digit by digit.
    """
    text = _IMAGE_OR_LINK.sub(r"\1", clause)
    text = _URL.sub(_host, text)
    text = _LINE_START.sub("", _RULE.sub("", text))
    text = _EMPHASIS.sub("", text)
    text = "".join(_sign(character) for character in unicodedata.normalize("NFC", text))
    text = _LONG_NUMBER.sub(lambda number: " ".join(number.group().replace(",", "")), text)
    return " ".join(text.split()) if any(map(str.isalnum, text)) else ""


def english_letters(text: str) -> str:
    """Letters and plain marks alone, for a reader that stumbled over the rest."""
    return " ".join(_NOT_ENGLISH.sub(" ", text).split())


def _host(url: re.Match[str]) -> str:
    text = url.group()
    bare = text.rstrip(".,;:!?")
    try:
        host = urlsplit(bare).hostname or ""
    except ValueError:  # such as an unclosed bracket
        host = ""
    return host.removeprefix("www.") + text[len(bare) :]


def _sign(character: str) -> str:
    category = unicodedata.category(character)
    digit = unicodedata.digit(character, None)
    if character in _SPOKEN_SYMBOLS or character.isdecimal():
        return character
    if digit is not None:  # in a circle, or small: a number to a reader, but not to `int`
        return str(digit)
    if category in ("Cc", "Zl", "Zp", "Zs"):
        return " "
    # Symbols, modifiers, joiners, and what Unicode has not assigned: nothing that a voice could read.
    if category in ("So", "Sk", "Cf", "Cs", "Co", "Cn", "Me") or 0xFE00 <= ord(character) <= 0xFE0F:
        return ""
    return character if len(character.lower()) == 1 else "I"  # the Turkish dotted capital
