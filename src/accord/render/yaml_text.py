"""Plain values -> YAML text that reads back as exactly these values, under YAML 1.1 and 1.2 alike.

In: mappings, sequences, texts, numbers. Out: documents with sorted keys (who and what first). Invariant: a text is
plain only if no reader could take it for anything else; it is ASCII; there are no tags, anchors or folded lines.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

import yaml

Value = None | bool | int | float | str | Sequence["Value"] | Mapping[str, "Value"]
Document = Mapping[str, Value]

_FIRST = ("apiVersion", "kind", "metadata", "name", "namespace")
# No digit or sign begins it, and no colon ends it, so that it is neither a number, a time, a tag nor a key.
_PLAIN = re.compile(r"[A-Za-z/]([A-Za-z0-9._/:-]*[A-Za-z0-9._/-])?", re.ASCII)
# What some reader takes for a truth value or for nothing, in any case.
_WORDS = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf", "infinity"))


def yaml_text(documents: Iterable[Document]) -> str:
    """The documents, each of them opened by `---`."""
    return "".join(
        "---\n"
        + yaml.dump(
            _sorted(document),
            Dumper=_Dumper,
            sort_keys=False,
            allow_unicode=False,
            width=1 << 30,
            default_flow_style=False,
        )
        for document in documents
    )


def comment(text: str) -> str:
    """`text` as comment lines; nothing in it can end them."""
    safe = text.encode("ascii", "backslashreplace").decode()
    return "".join(f"# {re.sub(r'[^ -~]', '?', line)}\n" for line in safe.splitlines() or [""])


def _sorted(value: Value) -> Value:
    match value:
        case Mapping():
            order = sorted(value, key=lambda key: (_FIRST.index(key) if key in _FIRST else len(_FIRST), key))
            return {key: _sorted(value[key]) for key in order}
        case str() | None | bool() | int() | float():
            return value
        case _:
            return [_sorted(item) for item in value]


def _text_node(dumper: yaml.representer.BaseRepresenter, text: str) -> yaml.ScalarNode:
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return dumper.represent_scalar("tag:yaml.org,2002:str", text)
    # A literal block keeps scripts and files readable; what it can't carry exactly, PyYAML quotes by itself.
    printable = all(" " <= sign <= "~" or sign == "\n" for sign in text)
    if printable and "\n" in text and text[0] not in " \n":
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|")
    quote = "'" if printable and "\n" not in text and ('"' in text or "\\" in text) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=quote)


class _Dumper(yaml.SafeDumper):
    """Writes lists below their key with an indent, and never an alias."""

    # PyYAML looks functions up by type in this table, not among the methods.
    yaml_representers: ClassVar = {**yaml.SafeDumper.yaml_representers, str: _text_node}

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: object) -> bool:
        return True
