"""The house style as a test: what the code must look like, whoever writes it.

In: the source, the tests, the benchmarks. Out: failures that name the file, the fault and the way out.
Invariant: limits only go down, and every rule is shown a bad sample that it must catch.
"""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import grimp
import pytest

from tests import house_rules as rules
from tests.house import ROOT, SOURCE, module_name, name_of, python_files, tree

# What was too long when the limit came, as {file: {function, or "" for the file: lines}}. Rows only go.
CEILINGS: dict[str, dict[str, int]] = {}

# Room -> what it may import of ours: the table of docs/architecture.md. Files above the rooms count as rooms.
LOWER = ("terms", "models", "estimate", "plan", "place", "simulate", "render", "run", "verify", "agents", "adapt")
STORY = ("compile", "operate", "explain")
ROOMS: dict[str, tuple[str, ...]] = {
    "terms": (),
    "models": ("terms", "estimate"),
    "estimate": ("terms",),
    "plan": ("terms", "estimate"),
    "place": ("terms",),
    "simulate": ("terms", "estimate"),
    "render": ("terms",),
    "run": ("terms",),
    "verify": ("terms",),
    "agents": ("terms", "run"),
    "adapt": ("terms", "plan", "place", "simulate"),
    "serve": ("terms", "run"),
    "compile": ("terms", "models", "estimate", "plan", "place"),
    "operate": ("terms", "compile", "adapt", "run", "agents"),
    "explain": ("terms", "compile"),
    "edges": (*LOWER, *STORY, "serve"),
    "cli": (*LOWER, *STORY, "serve", "edges"),
    "__main__": ("cli",),
}
ROOMS_IN_WORDS = {"terms": "nothing of ours", "edges": "everything below", "cli": "everything"}
ENGINES_IMPORT = ("accord.terms", "accord.run.ports", "accord.run.payloads", "accord.run.engines")

# A replica runs one stage: it needs neither the door nor the terminal, and starts fast without them.
NOT_IN_A_REPLICA = {"aiohttp", "click", "rich", "prometheus_client", "yaml"}

# Names of the figures that programs read from benchmarks/out/.
FIGURES = {
    "link": ("1 MiB ratio", "16 MiB ratio", "64 MiB ratio"),
    "orchestration": ("throughput", "latency", "idle cpu"),
    "bubble": ("busy",),
    "plan": ("qwen3-32b req/s", "qwen3-32b speed", "deepseek-v3 speed"),
    "expectation": ("ttft error", "first_audio error", "latency error"),
}

CODE = python_files("src", "tests", "benchmarks", "tools")
SOURCES = python_files("src")
BENCHMARKS = [path for path in python_files("benchmarks") if not path.name.startswith("_")]
SAMPLES = {
    "opening": ('"""One line."""', lambda found: rules.opening(found, fewest=2, flows=True)),
    "file length": ("x = 1", lambda found: rules.lengths(found, file_lines=401, ceilings={})),
    "function length": ("def f():\n" + "    x = 1\n" * 60, lambda found: _lengths(found, {})),
    "ceiling outgrown": ("def f():\n" + "    x = 1\n" * 70, lambda found: _lengths(found, {"f": 70})),
    "ceiling too high": ("def f():\n" + "    x = 1\n" * 70, lambda found: _lengths(found, {"f": 72})),
    "ceiling of nothing": ("x = 1", lambda found: _lengths(found, {"gone": 70})),
    "positional": ("class A:\n    def f(self, a, b, c, d, e): ...", rules.positional),
    "call at import": ("import os\nos.getpid()", rules.quiet_import),
    "loop at import": ("for x in (1, 2):\n    y = x", rules.quiet_import),
    "heavy import": ("from onnxruntime import InferenceSession", rules.quiet_import),
    "bare data class": ("@dataclass\nclass A:\n    x: int", rules.frozen),
    "data class with positions": ("@dataclass(frozen=True, slots=True)\nclass A:\n    x: int", rules.frozen),
    "loose field": ("class A:\n    x: tuple[dict[str, int], ...]", rules.tight_fields),
}


def _lengths(found: ast.Module, ceilings: dict[str, int]) -> list[str]:
    return rules.lengths(found, file_lines=80, ceilings=ceilings)


def _judge(paths: list[Path], rule: Callable[[Path], list[str]]) -> None:
    faults = [f"{name_of(path)}: {fault}" for path in paths for fault in rule(path)]
    assert not faults, "\n".join(["", *faults])


@pytest.mark.parametrize("name", SAMPLES)
def test_each_rule_catches_its_bad_sample(name: str) -> None:
    text, rule = SAMPLES[name]
    assert rule(ast.parse(text))


def test_modules_open_by_saying_what_flows_in_and_out() -> None:
    drawn = SOURCE / "terms" / "errors.py"  # opens with the error tree instead, drawn whole

    def rule(path: Path) -> list[str]:
        if path.name == "__init__.py" and not path.read_text():
            return []
        module = path in SOURCES and path.name not in ("__init__.py", "__main__.py") and path != drawn
        return rules.opening(tree(path), fewest=2 if module else 1, flows=module)

    _judge(CODE, rule)


def test_files_and_functions_are_short() -> None:
    def rule(path: Path) -> list[str]:
        ceilings = CEILINGS.get(name_of(path), {})
        return rules.lengths(tree(path), file_lines=len(path.read_text().splitlines()), ceilings=ceilings)

    _judge(CODE, rule)
    assert set(CEILINGS) <= {name_of(path) for path in CODE}, "CEILINGS names a file that is gone: delete its rows"


def test_parameters_have_names() -> None:
    _judge([path for path in CODE if not path.name.startswith("test_")], lambda path: rules.positional(tree(path)))


def test_the_top_of_a_module_only_defines() -> None:
    _judge(SOURCES, lambda path: rules.quiet_import(tree(path)))


def test_values_between_rooms_are_frozen_and_tight() -> None:
    terms = [path for path in SOURCES if path.parent.name == "terms"]
    _judge([*terms, SOURCE / "run" / "ports.py"], lambda path: rules.frozen(tree(path)))
    _judge(terms, lambda path: rules.tight_fields(tree(path)))


def _probe(folder: Path, modules: list[str]) -> tuple[list[str], set[str]]:
    ended = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "import_probe.py"), str(folder), *modules],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{folder}:{SOURCE.parent}"},
    )
    assert ended.returncode == 0, ended.stderr
    said = json.loads(ended.stdout)
    return said["deeds"], set(said["loaded"])


def test_importing_does_nothing() -> None:
    modules = [module_name(path) for path in SOURCES if path.name != "__main__.py"]
    deeds, loaded = _probe(SOURCE, modules)
    assert not deeds, "\n".join(["", *deeds])
    assert not rules.HEAVY & loaded


@pytest.mark.parametrize(
    ("code", "deed"),
    [
        ("import os\nHOME = os.environ['PATH']", "environment: PATH"),
        ("import os\nHOME = os.getenv('PATH')", "environment: PATH"),
        ("from pathlib import Path\nTEXT = Path('/proc/cpuinfo').read_text()", "open /proc/cpuinfo"),
        ("import socket\nSOCKET = socket.socket()\nSOCKET.close()", "socket.__new__"),
        ("import subprocess\nOUT = subprocess.run(['true'])", "subprocess.Popen true"),
        ("import threading\nT = threading.Thread(target=int)\nT.start()", "starts a thread"),
    ],
)
def test_the_import_probe_sees(tmp_path: Path, code: str, deed: str) -> None:
    (tmp_path / "sample.py").write_text(code)
    deeds, _ = _probe(tmp_path, ["sample"])
    assert any(deed in found for found in deeds), deeds


def test_a_replica_loads_neither_the_door_nor_the_terminal() -> None:
    engines = SOURCE / "run" / "engines"  # an engine loads what it needs, once it is chosen
    runtime = [path for path in SOURCES if path.is_relative_to(SOURCE / "run") and path.parent != engines]
    _, loaded = _probe(SOURCE, ["accord.run.engines", *(module_name(path) for path in runtime)])
    assert not sorted(NOT_IN_A_REPLICA & loaded)


def _direct_imports() -> list[tuple[str, str]]:
    """(importer, imported) of our own modules, the package itself left out."""
    graph = grimp.build_graph("accord", cache_dir=None)
    modules = sorted(graph.modules - {"accord"})
    return [
        (one, other) for one in modules for other in sorted(graph.find_modules_directly_imported_by(one) - {"accord"})
    ]


def test_rooms_import_only_what_the_table_allows() -> None:
    faults = []
    for importer, imported in _direct_imports():
        room, target = importer.split(".")[1], imported.split(".")[1]
        if target != room and target not in ROOMS[room]:
            faults.append(f"{importer} imports {imported}; {room} may import {ROOMS[room] or 'nothing of ours'}")
        if importer.startswith("accord.run.engines") and not imported.startswith(ENGINES_IMPORT):
            faults.append(f"{importer} imports {imported}; an engine may import {ENGINES_IMPORT}")
    assert not faults, "\n".join(["", *faults])


def test_each_room_says_what_it_imports() -> None:
    used = {(importer.split(".")[1], imported.split(".")[1]) for importer, imported in _direct_imports()}
    faults = []
    for path in [path for path in SOURCES if path.name == "__init__.py" and path.parent.parent == SOURCE]:
        room, text = path.parent.name, " ".join((ast.get_docstring(tree(path)) or "").split())
        match = re.search(r"May import: (.+?)[.;](?: |$)", text)
        said = match[1] if match else ""
        needed = {target for importer, target in used if importer == room and target != room}
        if room in ROOMS_IN_WORDS:
            right = said == ROOMS_IN_WORDS[room]
        else:
            right = needed <= set(said.split(", ")) <= set(ROOMS[room])
        if not right:
            wanted = ROOMS_IN_WORDS.get(room, f"{', '.join(ROOMS[room])} (or fewer)")
            faults.append(f"{name_of(path)}: write `May import: {wanted}.`")
        if room != "cli" and not ("In: " in text and "Out: " in text):
            faults.append(f"{name_of(path)}: say what flows `In: ` and `Out: `")
    assert not faults, "\n".join(["", *faults])


def test_benchmarks_write_the_figures_that_programs_read() -> None:
    for path in BENCHMARKS:
        calls = [node for node in ast.walk(tree(path)) if isinstance(node, ast.Call)]
        written = [
            ast.unparse(call.args[0])
            for call in calls
            if ast.unparse(call.func).split(".")[-1] == "write" and call.args
        ]
        assert repr(path.stem) in written, f"{name_of(path)}: end with write({path.stem!r}, figures) of _figures.py"
        patterns = [pattern for node in ast.walk(tree(path)) if (pattern := _pattern(node))]
        for figure in FIGURES.get(path.stem, ()):
            assert any(re.fullmatch(pattern, figure) for pattern in patterns), f"{name_of(path)}: no figure {figure!r}"


def _pattern(node: ast.AST) -> str | None:
    """What strings this constant or f-string can make."""
    match node:
        case ast.Constant(value=str() as text):
            return re.escape(text)
        case ast.JoinedStr(values=parts) if any(isinstance(part, ast.Constant) for part in parts):
            return "".join(re.escape(str(part.value)) if isinstance(part, ast.Constant) else ".+" for part in parts)
        case _:
            return None
