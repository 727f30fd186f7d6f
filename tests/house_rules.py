"""The rules of the house style that a program can judge, one function each.

In: the syntax tree of one file. Out: its faults as sentences, which name the line and the way out.
Invariant: nothing here reads a file, so each rule can be shown a bad sample (tests/test_house.py does).
"""

import ast
from collections.abc import Iterator

FUNCTION_LINES_MAX = 60
FILE_LINES_MAX = 400
POSITIONAL_MAX = 4

# Engines load these; nothing may at import.
HEAVY = frozenset(
    (
        "PIL", "ctranslate2", "cyllama", "gguf", "hibari", "jinja2", "onnx", "onnxruntime", "ortools", "soundfile",
        "soxr", "tokenizers", "xllamacpp",
    )
)  # fmt: skip

Function = ast.FunctionDef | ast.AsyncFunctionDef
_LOOSE_TYPES = ("Any", "dict", "list", "set", "Dict", "List")


def functions(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    """(qualified name, node) of every function and method, nested ones included."""
    for child in ast.iter_child_nodes(node):
        inner = f"{prefix}{child.name}." if isinstance(child, Function | ast.ClassDef) else prefix
        if isinstance(child, Function):
            yield inner.rstrip("."), child
        yield from functions(child, inner)


def opening(tree: ast.Module, *, fewest: int, flows: bool) -> list[str]:
    """Rule 8: the module's docstring has `fewest` to six lines and, if `flows`, says what goes in and out."""
    text = ast.get_docstring(tree) or ""
    lines = [line for line in text.splitlines() if line.strip()]
    faults = []
    if not fewest <= len(lines) <= 6:
        faults.append(f"opens with {len(lines)} lines; write {fewest} to 6")
    if flows and not ("In: " in text and "Out: " in text):
        faults.append("opens without `In: ` and `Out: `; say what flows in and what flows out")
    return faults


def lengths(tree: ast.Module, *, file_lines: int, ceilings: dict[str, int]) -> list[str]:
    """Rule 10: no function and no file is longer than its limit, or than its shrinking ceiling.

    `ceilings` maps a function's qualified name, or "" for the file, to the length it had when it was listed.
    """
    sizes = {"": (file_lines, FILE_LINES_MAX)}
    for name, node in functions(tree):
        sizes[name] = ((node.end_lineno or node.lineno) - node.lineno + 1, FUNCTION_LINES_MAX)
    faults = [f"ceiling of {name!r}: no such function; delete the row" for name in ceilings if name not in sizes]
    for name, (size, limit) in sizes.items():
        what = f"{name}() has" if name else "has"
        ceiling = ceilings.get(name)
        if ceiling is None and size > limit:
            faults.append(f"{what} {size} lines; {limit} at most: split it")
        elif ceiling is not None and size > ceiling:
            faults.append(f"{what} {size} lines and may only shrink from {ceiling}: split it")
        elif ceiling is not None and size < ceiling:
            faults.append(f"{what} {size} lines; lower its ceiling of {ceiling}, or delete it at {limit}")
    return faults


def positional(tree: ast.Module) -> list[str]:
    """Rule 11: at most four positional parameters; self and cls don't count."""
    faults = []
    for name, node in functions(tree):
        names = [arg.arg for arg in (*node.args.posonlyargs, *node.args.args)]
        if names and names[0] in ("self", "cls"):
            names = names[1:]
        if len(names) > POSITIONAL_MAX:
            faults.append(
                f"line {node.lineno}: {name}() takes {len(names)} positional parameters; put a `*` before some"
            )
    return faults


def quiet_import(tree: ast.Module) -> list[str]:
    """Rule 15, as far as reading shows it: the top of a module only defines, and imports nothing heavy."""
    faults = []
    for node in tree.body:
        faults += [f"line {node.lineno}: imports {name}; import it where it is loaded" for name in _heavy(node)]
        if not _defines(node):
            faults.append(f"line {node.lineno}: does something when it is imported; put it in a function")
    return faults


def frozen(tree: ast.Module) -> list[str]:
    """Rule 3: every data class is frozen, slotted and keyword-only."""
    faults = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            faults += [f"line {node.lineno}: {node.name} lacks {word}=True" for word in _missing_words(node)]
    return faults


def tight_fields(tree: ast.Module) -> list[str]:
    """Rule 4: fields that travel between rooms are values, not Any and not containers that can change."""
    faults = []
    for owner in ast.walk(tree):
        if not isinstance(owner, ast.ClassDef):
            continue
        for field in owner.body:
            if isinstance(field, ast.AnnAssign):
                names = {node.id for node in ast.walk(field.annotation) if isinstance(node, ast.Name)}
                loose = names.intersection(_LOOSE_TYPES)
                faults += [
                    f"line {field.lineno}: {owner.name} carries {name}; use a value or a tuple" for name in loose
                ]
    return faults


def _missing_words(node: ast.ClassDef) -> list[str]:
    for decorator in node.decorator_list:
        called = isinstance(decorator, ast.Call)
        name = decorator.func if isinstance(decorator, ast.Call) else decorator
        if isinstance(name, ast.Name) and name.id == "dataclass":
            given = {word.arg for word in decorator.keywords} if called and isinstance(decorator, ast.Call) else set()
            return [word for word in ("frozen", "slots", "kw_only") if word not in given]
    return []


def _heavy(node: ast.stmt) -> frozenset[str]:
    match node:
        case ast.Import(names=names):
            return HEAVY & {alias.name.partition(".")[0] for alias in names}
        case ast.ImportFrom(module=str() as module):
            return HEAVY & {module.partition(".")[0]}
        case _:
            return frozenset()


def _defines(node: ast.stmt) -> bool:
    match node:
        case ast.Import() | ast.ImportFrom() | ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return True
        case ast.Assign() | ast.AnnAssign() | ast.Assert() | ast.Expr(value=ast.Constant(value=str())):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Compare(left=ast.Name(id="__name__"))):
            return True
        case _:
            return False
