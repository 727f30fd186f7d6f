"""The repository's papers as a test: what the documents promise must be there.

In: pyproject.toml, the Makefile, README, docs. Out: failures that name the file and the way out.
Invariant: a command, link, dependency or version that a reader meets exists.
"""

import ast
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import accord
from tests.house import ROOT, name_of, python_files, text_files, tree

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PAGES = [ROOT / name for name, _ in text_files() if name.endswith(".md")]
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))

# Each is written so that this line doesn't match itself.
FORBIDDEN = {
    "a path of one machine": r"(?<![\w.])/(?:wor[k]|farm|hom[e]/\w+|roo[t]|tm[p]/w)/",
    "a registry's host": r"pypi\.or[g]|pythonhosted\.or[g]|registry\.npmj[s]|deb\.debian\.or[g]",
    "a promise instead of work": r"\b(?:TOD[O]|FIXM[E]|XX[X])\b",
}

# The extras that a user may ask for.
SHIPPED = tuple(extra for extra in PYPROJECT["project"]["optional-dependencies"] if extra != "dev")

# Used by a command or by the suite as a plugin, never imported.
NOT_IMPORTED = {
    "pytest-timeout",
    "pytest-asyncio",
    "ruff",
    "mypy",
    "types-pyyaml",
    "types-jsonschema",
    "import-linter",
    "aiconfigurator-core",
}


def _requirements(extra: str | None = None) -> list[str]:
    project = PYPROJECT["project"]
    return list(project["dependencies"] if extra is None else project["optional-dependencies"][extra])


def _distribution(requirement: str) -> str:
    return re.split(r"[<>=!~\[; ]", requirement, maxsplit=1)[0].lower().replace("_", "-")


def _imported(*folders: str) -> set[str]:
    """The distributions whose modules the Python files in these folders import."""
    owners = importlib.metadata.packages_distributions()
    found: set[str] = set()
    for path in python_files(*folders):
        for node in ast.walk(tree(path)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names.append(node.module)
            for top in {name.partition(".")[0] for name in names} - sys.stdlib_module_names:
                found.update(owner.lower().replace("_", "-") for owner in owners.get(top, ()))
    return found - {"accord-ai"}


def test_every_dependency_gives_its_reason_and_its_floor() -> None:
    lines = (ROOT / "pyproject.toml").read_text().splitlines()
    for requirement in [item for extra in (None, *SHIPPED, "dev") for item in _requirements(extra)]:
        line = next(line for line in lines if f'"{requirement}"' in line)
        _, _, reason = line.partition(" # ")
        assert len(reason.split()) >= 2, f"pyproject.toml: {requirement}: say in a comment what it is for"
        assert ">=" in requirement or "==" in requirement or requirement.startswith("accord-ai["), (
            f"pyproject.toml: {requirement}: no floor"
        )


def test_what_the_source_imports_is_declared_and_what_is_declared_is_used() -> None:
    shipped = {_distribution(item) for extra in (None, *SHIPPED) for item in _requirements(extra)}
    tools = {_distribution(item) for item in _requirements("dev")} - NOT_IMPORTED - {"accord-ai"}
    assert not sorted(_imported("src") - shipped), "the source imports these: declare them in pyproject.toml"
    assert not sorted(shipped - _imported("src") - {"pip"}), "declared and never imported by the source: delete them"
    assert not sorted(tools - _imported("tests", "benchmarks", "tools")), "declared for development, never imported"


def test_one_version() -> None:
    assert accord.__version__ == PYPROJECT["project"]["version"]
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert re.search(r"^## \[Unreleased\]$", changelog, re.MULTILINE)


@pytest.mark.parametrize("what", FORBIDDEN)
def test_the_repository_speaks_of_itself_alone(what: str) -> None:
    found = [
        f"{name}:{number}: {what}: {line.strip()[:100]}"
        for name, text in text_files()
        for number, line in enumerate(text.splitlines(), start=1)
        if re.search(FORBIDDEN[what], line)
    ]
    assert not found, "\n".join(["", *found])


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for target, _, anchor in re.findall(r"\]\(([^)\s#]*)(#([^)\s]*))?\)", page.read_text()):
        if re.match(r"[a-z]+:", target):
            continue
        path = (page.parent / target).resolve() if target else page
        assert path.exists(), f"{name_of(page)}: {target}: no such file"
        if anchor and path.suffix == ".md":
            assert anchor in _anchors(path), f"{name_of(page)}: {target}#{anchor}: no such heading"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_exist(page: Path) -> None:
    text = page.read_text()
    lines = [line for code in _code(text) for line in code.splitlines()]
    made = {match[1] for line in lines if (match := re.match(r"make ([a-z][a-z-]*)", line))}
    assert made <= TARGETS, f"{name_of(page)}: make {sorted(made - TARGETS)}: no such target in the Makefile"
    scripts = re.findall(
        r"(?:benchmarks|examples|docs|tools|tests)/[a-z0-9_./-]+\.(?:py|yaml|md|png)", " ".join(_code(text))
    )
    missing = [script for script in scripts if not (ROOT / script).exists()]
    assert not missing, f"{name_of(page)}: {missing}: no such file"


def test_verbs_exist() -> None:
    lines = [line for page in PAGES for code in _code(page.read_text()) for line in code.splitlines()]
    verbs = {match[1] for line in lines if (match := re.match(r"(?:\.venv/bin/)?accord ([a-z]+)", line))}
    assert {"demo", "up", "plan"} <= verbs, "the papers name no verbs: has their form changed?"
    for verb in sorted(verbs):
        command = [sys.executable, "-m", "accord", verb, "--help"]
        ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
        assert ended.returncode == 0, f"accord {verb}: a page names it, and it answers: {ended.stderr}"


def test_both_readmes_tell_the_same() -> None:
    english, chinese = ((ROOT / name).read_text() for name in ("README.md", "README.zh.md"))
    assert _outline(english) == _outline(chinese), "README.md and README.zh.md differ in their sections"
    assert _blocks(english) == _blocks(chinese), "README.md and README.zh.md differ in their commands"


def _code(text: str) -> list[str]:
    return _blocks(text) + re.findall(r"`([^`\n]+)`", text)


def _blocks(text: str) -> list[str]:
    return re.findall(r"^```\w*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def _outline(text: str) -> list[int]:
    bare = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return [len(marks) for marks in re.findall(r"^(#+) ", bare, re.MULTILINE)]


def _anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
