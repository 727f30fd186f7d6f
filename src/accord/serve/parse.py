"""JSON bodies and form fields -> typed structs, with errors that people can act on.

In: bytes or strings from a client. Out: a struct, or BadInput that names the field's path, its value
and the fix. Invariant: no input, however broken, raises anything else.
"""

import difflib
import re
from collections.abc import Mapping
from typing import Literal, TypeVar, get_args, get_origin

import msgspec

from accord.terms.errors import BadInput

T = TypeVar("T")

_PLACE = re.compile(r"^(?P<problem>.*?)(?: - at `\$(?:\.(?P<dotted>.*)|(?P<indexed>\[.*))`)?$", re.DOTALL)
_UNKNOWN = re.compile(r"^Object contains unknown field `(?P<name>.*)`$", re.DOTALL)
_MISSING = re.compile(r"^Object missing required field `(?P<name>.*)`$", re.DOTALL)
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
_VALUE_LOOKUP_BYTES_MAX = 1 << 20


class Shown:
    """A client's value as JSON, for an error text."""

    __slots__ = ("_text",)

    def __init__(self, value: object) -> None:
        self._text = msgspec.json.encode(value).decode()

    def __str__(self) -> str:
        return self._text


def decode_json(raw: bytes, type_: type[T]) -> T:
    """JSON bytes -> a struct of `type_`; BadInput."""
    try:
        return msgspec.json.decode(raw, type=type_)
    except msgspec.ValidationError as error:
        raise _bad_field(str(error), raw, type_) from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise _bad_json(raw, str(error)) from None
    except RecursionError:
        raise _bad_json(raw, "it is nested too deeply") from None


def convert_form(fields: Mapping[str, str | tuple[str, ...]], type_: type[T]) -> T:
    """Form fields -> a struct of `type_`, reading numbers and booleans from their text; BadInput."""
    try:
        return msgspec.convert(fields, type=type_, strict=False)
    except msgspec.ValidationError as error:
        raise _bad_field(str(error), msgspec.json.encode(fields), type_) from None


def _bad_json(raw: bytes, problem: str) -> BadInput:
    start = raw[:60].decode("utf-8", "replace")
    return BadInput(
        field="body", value=start, problem=f"not valid JSON: {problem}", fix="send one JSON object in UTF-8"
    )


def _bad_field(text: str, raw: bytes, type_: type) -> BadInput:
    found = _PLACE.match(text)
    problem = found["problem"] if found else text
    path = (found["dotted"] or found["indexed"] or "") if found else ""
    unknown, missing = _UNKNOWN.match(problem), _MISSING.match(problem)
    if unknown:
        name = unknown["name"]
        fix = _instead_of(name[:80], _names(type_, path))
        return _error(_join(path, name[:80]), raw, "unknown field", fix)
    if missing:
        return _error(_join(path, missing["name"]), raw, "this field is required", "add it")
    choices = _choices(type_, path)
    fix = f"use one of {', '.join(choices)}" if choices else "send what is expected"
    return _error(path or "body", raw, problem, fix)


def _instead_of(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"remove it; known here: {', '.join(known)}" if len(known) <= 8 else "remove it"


def _error(path: str, raw: bytes, problem: str, fix: str) -> BadInput:
    return BadInput(field=path, value=_value_at(raw, path), problem=problem, fix=fix)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _value_at(raw: bytes, path: str) -> Shown | str:
    """The value that the client sent at `path`, if it can be had cheaply."""
    if len(raw) > _VALUE_LOOKUP_BYTES_MAX:
        return "..."
    try:
        value = msgspec.json.decode(raw)
        for name, index in _STEP.findall(path):
            value = value[name] if name else value[int(index)]
    except (msgspec.DecodeError, UnicodeError, RecursionError, LookupError, TypeError):
        return "(absent)"
    return "(the whole body)" if path == "body" else Shown(value)


def _at(type_: type, path: str) -> list[type[msgspec.Struct]]:
    """The struct types that may stand at `path`."""
    here = _direct(type_)
    for name, _index in _STEP.findall(path):
        if name:
            here = [inner for outer in here for field in _fields(outer, name) for inner in _direct(field.type)]
    return here


def _direct(type_: object) -> list[type[msgspec.Struct]]:
    """The struct types in `type_`: itself, its members as a union, its elements as an array."""
    if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
        return [type_]
    return [struct for inner in get_args(type_) for struct in _direct(inner)]


def _fields(struct: type[msgspec.Struct], name: str) -> list[msgspec.structs.FieldInfo]:
    return [field for field in msgspec.structs.fields(struct) if field.encode_name == name]


def _names(type_: type, path: str) -> list[str]:
    return sorted({field.encode_name for struct in _at(type_, path) for field in msgspec.structs.fields(struct)})


def _choices(type_: type, path: str) -> tuple[str, ...]:
    """The words that may stand at `path`, if it takes a closed choice."""
    parent, _, last = re.sub(r"\[\d+\]$", "", path).rpartition(".")
    structs = _at(type_, parent)
    if last == "type":
        tags = (struct.__struct_config__.tag for struct in structs)
        return tuple(sorted(tag for tag in tags if isinstance(tag, str)))
    return next(
        (words for struct in structs for field in _fields(struct, last) if (words := _literals(field.type))), ()
    )


def _literals(type_: object) -> tuple[str, ...]:
    if get_origin(type_) is Literal:
        return tuple(str(word) for word in get_args(type_))
    return tuple(word for inner in get_args(type_) for word in _literals(inner))
