"""Runs every benchmark, one after the other, and prints one table of what they wrote.

In: `benchmarks/NAME.py`, each run as its own process (names that begin with `_` are helpers or need a peer that
is installed by hand). Out: exit status 1 if one of them failed to run. A missed bar is shown, not an error.
"""

import subprocess
import sys
import time
from pathlib import Path

from _figures import OUT, read, show

HERE = Path(__file__).parent
LIMIT_S = 900


def main() -> int:
    """Runs all; 0 if every benchmark ran to its end and wrote its figures."""
    scripts = sorted(path for path in HERE.glob("*.py") if not path.name.startswith("_"))
    failed = [script.stem for script in scripts if not _run(script)]
    written = [OUT / f"{script.stem}.json" for script in scripts if script.stem not in failed]
    show({path.stem: read(path) for path in written})
    if failed:
        print(f"failed: {', '.join(failed)}; run one alone to see why: .venv/bin/python benchmarks/NAME.py")
    return 1 if failed else 0


def _run(script: Path) -> bool:
    print(f"  benchmarks/{script.name}", flush=True)
    started_s = time.time()
    try:
        ended = subprocess.run([sys.executable, str(script)], check=False, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        print(f"  benchmarks/{script.name}: not done after {LIMIT_S} s; stopped", flush=True)
        return False
    path = OUT / f"{script.stem}.json"
    fresh = path.exists() and path.stat().st_mtime >= started_s - 1
    return ended.returncode == 0 and fresh


if __name__ == "__main__":
    sys.exit(main())
