"""Writes tests/plan/golden/*.txt anew, for changes of plans that were meant; read the difference before it is kept.

In: the golden intents. Out: files. Run it as `PYTHONPATH=. .venv/bin/python tools/write_golden_plans.py`.
"""

from tests.plan.golden_plans import FOLDER, NAMES, answer, decided

if __name__ == "__main__":
    for name in NAMES:
        (FOLDER / f"{name}.txt").write_text(decided(answer(name)))
    print(f"  wrote {FOLDER}")
