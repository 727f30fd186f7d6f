"""Options of engines that only this machine can know.

In: the name of an engine's row, the home folder. Out: options by name. Invariant: a written-out table; an
engine without a row has none.
"""

from pathlib import Path


def engine_options(engine: str, *, home: Path) -> tuple[tuple[str, str], ...]:
    """Where this engine may keep what it builds, so that the second start is quick."""
    match engine:
        case "onnxruntime":
            return (("cache_dir", str(home / "graphs")),)
        case _:
            return ()
