"""Any text -> names and label values that Kubernetes takes.

In: names of plans, pools, nodes, which may hold anything. Out: RFC 1123 labels that start with a letter, and label
values. Invariant: a good name stays as it is; a changed one ends in a hash of the original, so that two never meet.
"""

import hashlib
import re

# Controllers add their own endings (`-0-15`, revision hashes) to names, which count towards the 63 of a label.
NAME_MAX = 45
_NAME = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?", re.ASCII)
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", re.ASCII)
_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)?", re.ASCII)
_LONGEST_VALUE = 63
_HASH = 8


def is_label(text: str) -> bool:
    """Whether `text` is an RFC 1123 label, such as the name of a namespace."""
    return len(text) <= _LONGEST_VALUE and _LABEL.fullmatch(text) is not None


def label_name(*texts: str, longest: int = NAME_MAX) -> str:
    """`texts`, joined by dashes, as one RFC 1123 label that starts with a letter (RFC 1035, as Services want it)."""
    whole = "-".join(texts)
    if _NAME.fullmatch(whole) and len(whole) <= longest and all(texts):
        return whole
    # Where a name ends and the next begins counts: ("a-b", "c") and ("a", "b-c") are different names.
    digest = _digest("\0".join(texts))
    kept = re.sub(r"[^a-z0-9]+", "-", whole.lower())[: longest - _HASH - 1].strip("-")
    kept = kept if kept and kept[0].isalpha() else f"x-{kept}"[: longest - _HASH - 1].strip("-")
    return f"{kept}-{digest}"


def label_value(text: str) -> str:
    """`text` as the value of a label: at most 63 letters, digits, dots, dashes and underscores."""
    if _VALUE.fullmatch(text) and len(text) <= _LONGEST_VALUE:
        return text
    kept = re.sub(r"[^A-Za-z0-9._-]+", "-", text)[: _LONGEST_VALUE - _HASH - 1].strip("-._")
    return f"{kept or 'x'}-{_digest(text)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]
