"""Venvs of peers that tests run as children, made by `tools/setup dev` from `tools/peers-NAME.txt`.

In: a name. Out: its Python. Invariant: a venv that is missing fails the test that needs it; nothing is skipped for it.
"""

from pathlib import Path

_ROOT = Path(__file__).parents[2]


def peer(name: str) -> Path:
    """The Python of the venv."""
    return _ROOT / ".venv" / f"peers-{name}" / "bin" / "python"
