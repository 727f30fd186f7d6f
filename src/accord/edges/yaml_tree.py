"""YAML text or plain mappings -> a small typed tree, bounded and with line numbers.

In: a file, text or a mapping. Out: `Tree`, whose leaves are str, int, float, bool or None.
Invariant: no tree is deeper than 16 or larger than its limit, whatever the text does with aliases; a key
that comes twice is an error, never a silent choice.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from accord.terms.errors import BadInput, BrokenEdge

Scalar = str | int | float | bool | None

# libyaml reads a large fleet ten times as fast; PyYAML's wheels bring it, a build from source may not.
_LOADER = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
_DEPTH_MAX = 16
_TAGS = {"str", "int", "float", "bool", "null", "timestamp"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """One scalar. `line` counts from 1; None if it didn't come from text."""

    value: Scalar
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """A sequence."""

    items: tuple["Tree", ...]
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A mapping with distinct string keys, in their order."""

    entries: tuple[tuple[str, "Tree"], ...]
    line: int | None = None


Tree = Leaf | Items | Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How large a document may be: bytes of text, and nodes once aliases are written out."""

    text_bytes_max: int = 64 << 10
    nodes_max: int = 2000


def read_file(path: Path, *, what: str, limits: Limits) -> Tree:
    """The tree of a file. BadInput if it is missing, a folder, too large, not UTF-8 or not YAML."""
    try:
        if path.is_dir():
            raise BadInput(field=what, value=str(path), problem="is a folder", fix="name a YAML file")
        with path.open("rb") as file:
            data = file.read(limits.text_bytes_max + 1)
    except FileNotFoundError:
        raise BadInput(field=what, value=str(path), problem="no such file", fix="check the path") from None
    except ValueError as error:
        raise BadInput(field=what, value=str(path), problem=str(error), fix="check the path") from error
    except OSError as error:
        raise BrokenEdge(f"{what}: {path}: {error.strerror}; make it readable") from error
    if len(data) > limits.text_bytes_max:
        raise _too_long(what, str(path), limits)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        fix = "save the file as UTF-8"
        raise BadInput(field=what, value=str(path), problem=f"byte {error.start} isn't UTF-8", fix=fix) from error
    return read_text(text, what=what, limits=limits)


def read_text(text: str, *, what: str, limits: Limits) -> Tree:
    """The tree of a YAML document. BadInput names the line."""
    if len(text) > limits.text_bytes_max:
        raise _too_long(what, f"a text of {len(text):,} characters", limits)
    try:
        _bound_depth(text, what=what, limits=limits)
        node = yaml.compose(text, Loader=_LOADER)
    except yaml.YAMLError as error:
        raise _not_yaml(error, what=what) from error
    if node is None:
        raise BadInput(field=what, value="", problem="the document is empty", fix="start with `accord: 1`")
    return _Walk(what=what, nodes_left=limits.nodes_max).tree(node, path=(), depth=0)


def from_plain(value: object, *, what: str, limits: Limits) -> Tree:
    """The tree of mappings, sequences and scalars that a program hands over."""
    return _plain_tree(value, what=what, budget=[limits.nodes_max], depth=0)


def put(tree: Tree, path: Sequence[str], value: Tree) -> Tree:
    """A copy of `tree` with `value` at the dotted `path`; tables on the way are made where missing."""
    if not path:
        return value
    table = tree if isinstance(tree, Table) else Table(entries=())
    below = dict(table.entries).get(path[0], Table(entries=()))
    changed = {**dict(table.entries), path[0]: put(below, path[1:], value)}
    return Table(entries=tuple(changed.items()), line=table.line)


def without_lines(tree: Tree) -> Tree:
    """The same tree, for text whose line numbers would mislead."""
    match tree:
        case Leaf():
            return Leaf(value=tree.value)
        case Items():
            return Items(items=tuple(without_lines(item) for item in tree.items))
        case Table():
            return Table(entries=tuple((key, without_lines(item)) for key, item in tree.entries))


class _Walk:
    """Turns nodes into trees; counts them as written out, so that aliases can't multiply them."""

    def __init__(self, *, what: str, nodes_left: int) -> None:
        self._what = what
        self._left = nodes_left

    def tree(self, node: yaml.Node, *, path: tuple[str, ...], depth: int) -> Tree:
        self._left -= 1
        line = node.start_mark.line + 1
        if self._left < 0 or depth > _DEPTH_MAX:
            raise _too_much(self._what, line)
        match node:
            case yaml.MappingNode():
                return self._table(node, path=path, depth=depth)
            case yaml.SequenceNode():
                items = tuple(
                    self.tree(item, path=(*path, str(i)), depth=depth + 1) for i, item in enumerate(node.value)
                )
                return Items(items=items, line=line)
            case _:
                return Leaf(value=_scalar(node, field=".".join(path) or self._what), line=line)

    def _table(self, node: yaml.MappingNode, *, path: tuple[str, ...], depth: int) -> Table:
        first_line: dict[str, int] = {}
        entries = []
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            key = str(key_node.value) if isinstance(key_node, yaml.ScalarNode) else ""
            field = ".".join((*path, key)) or self._what
            if not key or len(key) > 100:
                raise BadInput(
                    field=field, value=key, problem=f"not a field name (line {line})", fix="write `name: value`"
                )
            if key in first_line:
                problem = f"written twice, in lines {first_line[key]} and {line}"
                raise BadInput(field=field, value=key, problem=problem, fix="keep one of them")
            first_line[key] = line
            entries.append((key, self.tree(value_node, path=(*path, key), depth=depth + 1)))
        return Table(entries=tuple(entries), line=node.start_mark.line + 1)


def _scalar(node: yaml.Node, *, field: str) -> Scalar:
    kind = node.tag.rpartition(":")[2]
    line = node.start_mark.line + 1
    if not node.tag.startswith("tag:yaml.org,2002:") or kind not in _TAGS:
        fix = "write a plain value without a tag"
        raise BadInput(field=field, value=node.tag, problem=f"not a plain value (line {line})", fix=fix)
    if kind in {"str", "timestamp"}:
        return str(node.value)
    try:
        value: Scalar = yaml.SafeLoader("").construct_object(node)
    except (ValueError, KeyError, yaml.YAMLError) as error:
        problem = f"not a plain value (line {line}): {error}"
        raise BadInput(field=field, value=node.value, problem=problem, fix="put it in quotes") from error
    return value


def _bound_depth(text: str, *, what: str, limits: Limits) -> None:
    # Composing recurses with each level, so that depth is bounded on the flat events before.
    depth = nodes = 0
    for event in yaml.parse(text, Loader=_LOADER):
        nodes += isinstance(event, yaml.NodeEvent)
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _DEPTH_MAX or nodes > 2 * limits.nodes_max:
            line = event.start_mark.line + 1 if event.start_mark else 0
            raise _too_much(what, line)


def _too_long(what: str, value: str, limits: Limits) -> BadInput:
    problem = f"larger than {limits.text_bytes_max} bytes"
    return BadInput(field=what, value=value, problem=problem, fix="write a shorter document")


def _too_much(what: str, line: int) -> BadInput:
    fix = "write values out plainly, without nesting or aliases that multiply"
    return BadInput(field=what, value=f"line {line}", problem="the document is nested too deeply or too large", fix=fix)


def _not_yaml(error: yaml.YAMLError, *, what: str) -> BadInput:
    mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
    said = error.problem if isinstance(error, yaml.MarkedYAMLError) and error.problem else str(error).replace("\n", " ")
    where = f"line {mark.line + 1}" if mark is not None else "the text"
    fix = "check the indentation, colons and quotes there"
    return BadInput(field=what, value=where, problem=f"not YAML: {said}", fix=fix)


def _plain_tree(value: object, *, what: str, budget: list[int], depth: int) -> Tree:
    budget[0] -= 1
    if budget[0] < 0 or depth > _DEPTH_MAX:
        raise _too_much(what, 0)
    match value:
        case None | str() | bool() | int() | float():
            return Leaf(value=value)
        case Mapping():
            for key in value:
                if not isinstance(key, str) or not key:
                    raise BadInput(field=what, value=key, problem="not a field name", fix="use texts as keys")
            below = ((k, _plain_tree(v, what=what, budget=budget, depth=depth + 1)) for k, v in value.items())
            return Table(entries=tuple(below))
        case list() | tuple():
            return Items(items=tuple(_plain_tree(v, what=what, budget=budget, depth=depth + 1) for v in value))
        case _:
            fix = "use texts, numbers, lists and mappings"
            raise BadInput(field=what, value=type(value).__name__, problem="not a plain value", fix=fix)
