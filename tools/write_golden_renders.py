"""Writes tests/render/golden/ anew, for changes of renders that were meant; read the difference before it is kept.

In: the examples and the targets. Out: files. Run it as `PYTHONPATH=. .venv/bin/python tools/write_golden_renders.py`.
"""

import shutil

from tests.render.golden import FOLDER, all_goldens

if __name__ == "__main__":
    shutil.rmtree(FOLDER, ignore_errors=True)
    for path, text in all_goldens():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    print(f"  wrote {FOLDER}")
