"""Words and environment -> a shell script in which every text stands for itself.

In: words of a plan, in which `hole` marks where a variable of the shell is to stand. Out: lines of bash. Invariant:
`shlex.split` of a line gives back exactly the words that went in; nothing of a plan is expanded or run.
"""

import re
import shlex
from collections.abc import Iterable

from accord.terms.errors import BadInput

_HOLE = re.compile("\0([A-Z0-9_]+)\0")


def hole(variable: str) -> str:
    """A text that becomes the value of `variable` when the script runs. No word of a plan can look like it."""
    return f"\0{variable}\0"


def check_text(text: str, *, field: str) -> None:
    """BadInput for a text that no argument of a process can hold."""
    if "\0" in text or any("\ud800" <= sign <= "\udfff" for sign in text):
        fix = "leave the sign out"
        raise BadInput(field=field, value=text, problem="a sign that no process can take", fix=fix)


def quoted(word: str) -> str:
    """One word as bash reads it."""
    if not _HOLE.search(word):
        return shlex.quote(word)
    # Every second piece is the name of a variable.
    pieces = _HOLE.split(word)
    made = [f'"${{{piece}}}"' if at % 2 else shlex.quote(piece) if piece else "" for at, piece in enumerate(pieces)]
    return "".join(made)


def exports(pairs: Iterable[tuple[str, str]]) -> str:
    """Lines that set the environment. Names are ours, values are anyone's."""
    return "".join(f"export {name}={quoted(value)}\n" for name, value in pairs)


def command(words: tuple[str, ...]) -> str:
    """`exec` of the words, with each long option and what follows it on a line."""
    lines: list[list[str]] = [["exec"]]
    for word in words:
        if word.startswith("--"):
            lines.append([])
        lines[-1].append(quoted(word))
    return " \\\n  ".join(" ".join(line) for line in lines) + "\n"


def needed(variables: Iterable[tuple[str, str]]) -> str:
    """Lines that stop the script where a variable is missing; `what` says in plain letters what it is."""
    return "".join(f': "${{{name}:?{what}}}"\n' for name, what in variables)


def holes(texts: Iterable[str]) -> tuple[str, ...]:
    """The variables that the texts need, each once."""
    return tuple(dict.fromkeys(name for text in texts for name in _HOLE.findall(text)))


def remark(text: str) -> str:
    """`text` as one comment line; nothing in it can end the line."""
    safe = text.encode("ascii", "backslashreplace").decode()
    return f"# {re.sub(r'[^ -~]', '?', safe)}\n"
